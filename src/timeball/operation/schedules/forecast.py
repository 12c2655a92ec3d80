"""Forecast the fires of a tenant's jobs, compared with the capacity of the current workers."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, structs

from timeball.domain.instant import DAY, Micros
from timeball.domain.job.job import Job
from timeball.domain.planning import forecast
from timeball.domain.planning.forecast import Forecast
from timeball.domain.task.task import Shell
from timeball.operation.context import OperationContext
from timeball.operation.schedules.closed_times import closures_of
from timeball.slices import beside

MAX_JOBS: Final = 50_000
"""Maximum number of jobs in a forecast, oldest first."""
PAGE: Final = 100
"""Number of jobs that are read at once; their parameters may be large."""
MAX_MEASURED: Final = 2_000
"""Maximum number of jobs whose recent durations are read."""
RECENT: Final = 14 * DAY
_ANY_TASK: Final = Shell(command="true")


class Foreseen(Struct, frozen=True):
    forecast: Forecast
    slots: int
    """The slots of all workers that serve the tenant and accept new runs."""
    more: bool
    """True if there are more jobs than the forecast includes."""
    measured: int
    """The number of jobs whose duration was read."""


async def forecast_fires(
    context: OperationContext, tenant: str, since: Micros, until: Micros, width: Micros
) -> Foreseen:
    jobs: list[Job] = []
    cursor: str | None = ""
    while cursor is not None and len(jobs) < MAX_JOBS:
        page = await context.store.firing_jobs(tenant, cursor, PAGE)
        jobs += map(_schedule_only, page.items)
        cursor = page.next_cursor
    closures = await closures_of(context, jobs)
    now = context.store.now()
    means: dict[str, float] = {}
    for first in range(0, min(len(jobs), MAX_MEASURED), PAGE):
        asked = [job.id for job in jobs[first : min(first + PAGE, MAX_MEASURED)]]
        means |= await context.store.mean_durations(asked, now - RECENT)
    workers = await context.store.workers(tenant)
    slots = sum(worker.slots for worker in workers if worker.draining_since is None)
    # Takes up to two seconds: run it in a thread, because the event loop must keep fires on time.
    found = await beside(forecast.forecast_fires, jobs, closures, means, forecast.grid(since, until, width), now)
    return Foreseen(found, slots, cursor is not None, min(len(jobs), MAX_MEASURED))


def _schedule_only(job: Job) -> Job:
    """Return the job with a placeholder for its task, and without its parameters and description: those of 50,000 jobs
    do not fit into the memory of a server.
    """
    task = job.spec.task if job.spec.task is None else _ANY_TASK
    return job.with_(spec=structs.replace(job.spec, task=task, parameters={}, description=""))
