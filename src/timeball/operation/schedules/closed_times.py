"""The closed times of the calendars of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import structlog
from msgspec import structs

from timeball.domain.errors import Conflict, Invalid
from timeball.domain.job.job import Job, JobState
from timeball.domain.planning import upcoming_fires
from timeball.domain.schedule.calendar import NamedCalendar
from timeball.domain.schedule.calendar_timeline import compile_entry, timeline
from timeball.domain.schedule.closed_times import OPEN, Closures
from timeball.operation.context import OperationContext
from timeball.ports.store.jobs import JobStatus
from timeball.slices import first_found, wait_for_slice

SLICE_ENTRIES: Final = 50
"""Number of calendar entries that are compiled in one slice: each takes up to 300 microseconds."""
_log = structlog.get_logger()


async def closures_of(context: OperationContext, jobs: Iterable[Job]) -> dict[str, Closures]:
    """Return the closed times of jobs with calendars, by job id. Jobs with a calendar that cannot be decoded are left
    out, and must not be planned. The store is read only if there are jobs with calendars."""
    bound = [job for job in jobs if job.spec.bound]
    if not bound:
        return {}
    names = {job.id: tuple((job.tenant, name) for name in dict.fromkeys(job.spec.calendars)) for job in bound}
    known = await context.store.calendars([key for keys in names.values() for key in keys])
    shared: dict[tuple[tuple[str, str], ...], Closures] = {}
    for keys in names.values():
        if keys in shared or not known.keys() >= set(keys):
            continue
        calendars = [known[key] for key in keys]
        try:
            await compile_calendars(calendars)
            shared[keys] = Closures(calendars)
        except Exception as error:  # a newer server may know the expression or the zone
            _log.warning("a calendar cannot be compiled", calendars=[name for _, name in keys], reason=str(error))
    return {job_id: shared[keys] for job_id, keys in names.items() if keys in shared}


async def compile_calendars(calendars: Iterable[NamedCalendar]) -> None:
    """Compile calendars in slices. Results are cached, so that a second call costs little."""
    compiled = 0
    for each in calendars:
        for entry in each.calendar.entries:
            if entry.cron is not None:
                compile_entry(entry)
                compiled += 1
                if compiled % SLICE_ENTRIES == 0:
                    await wait_for_slice()
        timeline(each.calendar)
        await wait_for_slice()


async def calendars_of_job(context: OperationContext, job: Job) -> list[NamedCalendar]:
    """Return the current calendars of a job. Deleted ones are left out."""
    keys = [(job.tenant, name) for name in dict.fromkeys(job.spec.calendars)]
    known = await context.store.calendars(keys) if keys else {}
    found = [known[key] for key in keys if key in known]
    await compile_calendars(found)
    return found


async def closures_of_job(context: OperationContext, job: Job) -> Closures:
    """Return the closed times of a job for display: none if one of its calendars cannot be decoded."""
    return (await closures_of(context, [job])).get(job.id, OPEN)


async def closures_to_plan(context: OperationContext, job: Job) -> Closures:
    found = (await closures_of(context, [job])).get(job.id, OPEN)
    if found is OPEN and job.spec.bound:
        raise Conflict(f"a calendar of job {job.id} cannot be read: {', '.join(job.spec.calendars)}")
    return found


async def named_closures(context: OperationContext, tenant: str, names: Iterable[str]) -> Closures:
    """Return the closed times of calendars that a request names."""
    keys = [(tenant, name) for name in dict.fromkeys(names)]
    if not keys:
        return OPEN
    return await checked_closures(context, tenant, (name for _, name in keys))


async def checked_closures(context: OperationContext, tenant: str, names: Iterable[str]) -> Closures:
    """Return the closed times of calendars. Raise `Invalid` for names that do not exist, or if the calendars are never
    open."""
    wanted = list(names)
    known = await context.store.calendars([(tenant, name) for name in wanted])
    for at, name in enumerate(wanted):
        if (tenant, name) not in known:
            raise Invalid(f"there is no calendar {name!r}", f"/calendars/{at}")
    closures = await compiled([known[tenant, name] for name in dict.fromkeys(wanted)])
    if (wrong := await never_together(closures)) is not None:
        raise wrong
    return closures


async def compiled(calendars: Sequence[NamedCalendar]) -> Closures:
    await compile_calendars(calendars)
    return Closures(calendars)


async def is_never_open(closures: Closures) -> bool:
    """True if the calendars have no open instant within the limits of the search."""
    return await first_found(closures.seek_opening(closures.changed_at)) is None


async def never_together(closures: Closures) -> Invalid | None:
    """Return an error if several calendars are never open at the same time, although each of them alone is; None
    otherwise."""
    if len(closures.versions) < 2 or not await is_never_open(closures):
        return None
    return Invalid("these calendars are never open at the same time, so the job would never fire", "/calendars")


async def with_open_fires(context: OperationContext, found: list[JobStatus]) -> list[JobStatus]:
    """Return the same jobs with a next fire that no calendar excludes."""
    closures = await closures_of(context, (each.job for each in found))
    if not closures:
        return found
    now = context.store.now()
    opened: list[JobStatus] = []
    for each in found:
        opened.append(_opened(each, closures[each.job.id], now) if each.job.id in closures else each)
        if each.job.id in closures:
            await wait_for_slice()
    return opened


def _opened(found: JobStatus, closures: Closures, now: int) -> JobStatus:
    job, upcoming = found.job, found.next_run_at
    if upcoming is None or job.next_fire_at is None or job.state is not JobState.ACTIVE:
        return found
    if upcoming < job.next_fire_at or closures.at(upcoming) is None:  # the fire is a run already, or becomes one
        return found
    return structs.replace(found, next_run_at=next(upcoming_fires.coming(job, now, closures), None))
