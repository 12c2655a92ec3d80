"""Methods about the overview."""

from __future__ import annotations

from typing import Literal

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.overview import SloReport, Stats, Timeline
from timeball.client.requests import overview as requests
from timeball.client.requests.request import When


class OverviewMethods(Asking):
    """Methods of `Client` about the overview."""

    def stats(self, window: Literal["5m", "1h", "24h"] = "1h") -> Stats:
        """Return how runs ended in the last 5 minutes, hour or day, what is alive now, what fires next, and what needs
        attention. Statistics are a few seconds behind; `ledger` is exact."""
        return self.ask(requests.stats(window))

    def timeline(
        self,
        *,
        since: When | None = None,
        until: When | None = None,
        by: Literal["job", "tag", "auto"] = "auto",
        lanes: int = 30,
        q: str | None = None,
        tag: str | None = None,
    ) -> Timeline:
        """Return runs and coming fires, in one lane per job or per tag. Without `since` and `until`, the range is half
        an hour back and half an hour ahead. `q` is a part of the names of jobs, or an id."""
        return self.ask(requests.timeline(since=since, until=until, by=by, lanes=lanes, q=q, tag=tag))

    def slo(self, job_id: str | None = None, *, tag: str | None = None) -> SloReport:
        """Return how many runs of a job, or of the jobs with a tag, started in time, and what is left of the error
        budget of their objectives."""
        return self.ask(requests.slo(job_id, tag=tag))


class AsyncOverviewMethods(AsyncAsking):
    """Methods of `AsyncClient` about the overview."""

    async def stats(self, window: Literal["5m", "1h", "24h"] = "1h") -> Stats:
        """Return how runs ended in the last 5 minutes, hour or day, what is alive now, what fires next, and what needs
        attention. Statistics are a few seconds behind; `ledger` is exact."""
        return await self.ask(requests.stats(window))

    async def timeline(
        self,
        *,
        since: When | None = None,
        until: When | None = None,
        by: Literal["job", "tag", "auto"] = "auto",
        lanes: int = 30,
        q: str | None = None,
        tag: str | None = None,
    ) -> Timeline:
        """Return runs and coming fires, in one lane per job or per tag. Without `since` and `until`, the range is half
        an hour back and half an hour ahead. `q` is a part of the names of jobs, or an id."""
        return await self.ask(requests.timeline(since=since, until=until, by=by, lanes=lanes, q=q, tag=tag))

    async def slo(self, job_id: str | None = None, *, tag: str | None = None) -> SloReport:
        """Return how many runs of a job, or of the jobs with a tag, started in time, and what is left of the error
        budget of their objectives."""
        return await self.ask(requests.slo(job_id, tag=tag))
