"""Input of the forecast: the jobs that will fire, and how long their runs took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from timeball.domain import ids
from timeball.domain.instant import SECOND, Micros
from timeball.domain.job.job import Job
from timeball.ports.store.paging import Page
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.page_bytes import ids_that_fit
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.jobs import read_jobs
from timeball.stores.sql.statements import many, query

FIRING_JOBS = many(query("firing_jobs"))
JOBS_OF_PAGE = many(query("jobs_by_id"))
RECENT_DURATIONS = many(query("recent_durations"))

LAST: Final = 10
"""Maximum number of successful runs of a job, the newest ones, from which its mean duration is computed."""


class Forecasts(StorePart):
    async def firing_jobs(self, tenant: str, after: str, limit: int) -> Page[Job]:
        async def work(tx: Tx) -> Page[Job]:
            rows = await tx.fetch(FIRING_JOBS, tenant=tenant, after=after, limit=limit)
            ids = ids_that_fit(rows, limit)
            jobs = await read_jobs(tx, await tx.fetch(JOBS_OF_PAGE, b=ids)) if ids else []
            is_last = len(ids) == len(rows) < limit
            return Page(sorted(jobs, key=lambda job: job.id), None if is_last or not ids else ids[-1])

        return await self._db.read(work, slow=True, may_lag=True)

    async def mean_durations(self, job_ids: Sequence[str], since: Micros) -> dict[str, float]:
        async def work(tx: Tx) -> dict[str, float]:
            took: dict[str, list[Micros]] = {}
            first = ids.first_run(max(0, since))
            for job_id, length in await tx.fetch(RECENT_DURATIONS, b=list(job_ids), since=first, limit=LAST):
                took.setdefault(job_id, []).append(max(0, length))
            return {job_id: sum(lengths) / len(lengths) / SECOND for job_id, lengths in took.items()}

        return await self._db.read(work, slow=True, may_lag=True) if job_ids else {}
