"""Methods about future fires: forecasts and previews of schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.schedules import Forecast, Preview
from timeball.client.requests import schedules as requests
from timeball.client.requests.request import When


class ScheduleMethods(Asking):
    """Methods of `Client` about future fires."""

    def forecast(self, since: When | None = None, until: When | None = None, *, bucket: str = "1h") -> Forecast:
        """Return the expected fires for each `bucket` of time, and the work that they need compared with the capacity
        of the live workers. The default is the next week, by the hour."""
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
        """Preview a cron expression, or a schedule in the JSON of a job: a description, the next fires, and warnings.
        Nothing is saved. The `name` of the job determines the value of `H` in a cron expression."""
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
    """Methods of `AsyncClient` about future fires."""

    async def forecast(self, since: When | None = None, until: When | None = None, *, bucket: str = "1h") -> Forecast:
        """Return the expected fires for each `bucket` of time, and the work that they need compared with the capacity
        of the live workers. The default is the next week, by the hour."""
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
        """Preview a cron expression, or a schedule in the JSON of a job: a description, the next fires, and warnings.
        Nothing is saved. The `name` of the job determines the value of `H` in a cron expression."""
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
