"""Forecast what the jobs of a tenant will do, against what the workers of now can do."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, structs

from timeball.domain.instant import DAY, Micros
from timeball.domain.job.job import Job
from timeball.domain.planning import forecast
from timeball.domain.planning.forecast import Forecast
from timeball.domain.task.task import Shell
from timeball.operation.context import Context
from timeball.operation.schedules.closed_times import closures_of
from timeball.slices import beside

MAX_JOBS: Final = 50_000
"""That are looked at, oldest first."""
PAGE: Final = 100
"""Jobs that are read at once, with parameters that may be large."""
MAX_MEASURED: Final = 2_000
"""Jobs whose last runs are looked up."""
RECENT: Final = 14 * DAY
_ANY_TASK: Final = Shell(command="true")


class Foreseen(Struct, frozen=True):
    forecast: Forecast
    slots: int
    """Of the workers that are alive."""
    more: bool
    """There are more jobs than were looked at."""
    measured: int
    """Jobs whose duration was asked for."""


async def forecast_fires(context: Context, tenant: str, since: Micros, until: Micros, width: Micros) -> Foreseen:
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
    slots = sum(worker.slots for worker in await context.store.workers())
    # Up to a second or two: not on the loop that has fires to keep.
    found = await beside(forecast.forecast_fires, jobs, closures, means, forecast.grid(since, until, width), now)
    return Foreseen(found, slots, cursor is not None, min(len(jobs), MAX_MEASURED))


def _schedule_only(job: Job) -> Job:
    """The job without what it executes: of 50,000 jobs, that is more than a server has memory for."""
    task = job.spec.task if job.spec.task is None else _ANY_TASK
    return job.with_(spec=structs.replace(job.spec, task=task, parameters={}, description=""))
