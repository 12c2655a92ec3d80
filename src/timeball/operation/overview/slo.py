"""Compare the starts of runs with the lateness objectives of their jobs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.job.slo import WINDOWS, Slo, Starts
from timeball.operation.context import OperationContext
from timeball.operation.find import find_job

MAX_SLO_JOBS: Final = 200
"""Maximum number of jobs with a tag whose objectives are compared, newest first."""
MAX_STARTS: Final = 100_000
"""Maximum number of runs that are counted, of all jobs and windows together."""


class JobStarts(Struct, frozen=True):
    job: Job
    slo: Slo
    windows: list[Starts]
    """The starts in each of `slo.WINDOWS`."""


class ReadSlo(Struct, frozen=True):
    now: Micros
    items: list[JobStarts]
    total: list[Starts]
    capped: bool
    """True if a window has more runs than were counted: then the newest ones stand for all."""


async def slo_of_job(context: OperationContext, tenant: str, job_id: str) -> ReadSlo:
    return await _read(context, [(await find_job(context, tenant, job_id)).job])


async def slo_of_tag(context: OperationContext, tenant: str, tag: str) -> ReadSlo:
    """Read the newest jobs with this tag, and compare the starts of their runs with their objectives. Jobs without an
    objective are left out."""
    job_ids = await context.store.jobs_with_tag(tenant, tag, MAX_SLO_JOBS)
    jobs = {job.id: job for job in await context.store.schedules_of(job_ids)}
    return await _read(context, [jobs[job_id] for job_id in job_ids if job_id in jobs])


async def _read(context: OperationContext, jobs: Sequence[Job]) -> ReadSlo:
    wanted = [(job, job.spec.slo) for job in jobs if job.spec.slo is not None]
    now = context.store.now()
    edges = [*(now - length for _, length in reversed(WINDOWS)), now]
    limit = max(1, MAX_STARTS // max(1, len(wanted)) // len(WINDOWS))
    found = await context.store.count_starts({job.id: slo.within for job, slo in wanted}, edges, limit)
    items = [
        JobStarts(
            job,
            slo,
            list(
                accumulate(
                    (Starts(each.count, each.late, each.count * slo.allowed) for each in reversed(found[job.id])),
                    Starts.plus,
                )
            ),
        )
        for job, slo in wanted
    ]
    total = [Starts()] * len(WINDOWS)
    for item in items:
        total = [one.plus(other) for one, other in zip(total, item.windows, strict=True)]
    return ReadSlo(now, items, total, any(each.capped for counts in found.values() for each in counts))
