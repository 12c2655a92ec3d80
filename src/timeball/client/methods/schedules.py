"""Methods about fires to come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.schedules import Forecast, Preview
from timeball.client.requests import schedules as requests
from timeball.client.requests.request import When


class ScheduleMethods(Asking):
    """Of `Client`."""

    def forecast(self, since: When | None = None, until: When | None = None, *, bucket: str = "1h") -> Forecast:
        """Fires to expect, by the hour or so, and what they will take of the workers that are there now; of the coming
        week, without anything else said."""
        return self.ask(requests.forecast(since=since, until=until, bucket=bucket))

    def preview_schedule(
        self,
        schedule: str | Mapping[str, Any],
        *,
        timezone: str | None = None,
        count: int = 10,
        after: When | None = None,
        name: str = "",
        calendars: Sequence[str] = (),
        excluded: str | None = None,
        start_at: When | None = None,
        end_at: When | None = None,
        max_runs: int | None = None,
    ) -> Preview:
        """What a cron expression, or a schedule as the JSON of a job has it, would do if it were saved: in a sentence,
        in its next fires, and what to beware of. The `name` of the job chooses the slot of an `H`."""
        return self.ask(
            requests.preview_schedule(
                schedule,
                timezone=timezone,
                count=count,
                after=after,
                name=name,
                calendars=calendars,
                excluded=excluded,
                start_at=start_at,
                end_at=end_at,
                max_runs=max_runs,
            )
        )


class AsyncScheduleMethods(AsyncAsking):
    """Of `AsyncClient`."""

    async def forecast(self, since: When | None = None, until: When | None = None, *, bucket: str = "1h") -> Forecast:
        """Fires to expect, by the hour or so, and what they will take of the workers that are there now; of the coming
        week, without anything else said."""
        return await self.ask(requests.forecast(since=since, until=until, bucket=bucket))

    async def preview_schedule(
        self,
        schedule: str | Mapping[str, Any],
        *,
        timezone: str | None = None,
        count: int = 10,
        after: When | None = None,
        name: str = "",
        calendars: Sequence[str] = (),
        excluded: str | None = None,
        start_at: When | None = None,
        end_at: When | None = None,
        max_runs: int | None = None,
    ) -> Preview:
        """What a cron expression, or a schedule as the JSON of a job has it, would do if it were saved: in a sentence,
        in its next fires, and what to beware of. The `name` of the job chooses the slot of an `H`."""
        return await self.ask(
            requests.preview_schedule(
                schedule,
                timezone=timezone,
                count=count,
                after=after,
                name=name,
                calendars=calendars,
                excluded=excluded,
                start_at=start_at,
                end_at=end_at,
                max_runs=max_runs,
            )
        )
