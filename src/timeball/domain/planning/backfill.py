"""Backfills run the fires of a past range, again or for the first time, oldest first.

At most `parallelism` runs of a backfill are alive at the same time; the next run is created when one of them has ended.
A backfill of years therefore occupies only a few rows. It also does not delay other runs: a new run waits at most for
the backfill runs that were created before it became due, because later ones became claimable later and so have a worse
rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice, takewhile
from typing import Final, Literal

from msgspec import Struct, structs

from timeball.domain import duration, ids
from timeball.domain.dispatch import placement
from timeball.domain.errors import Invalid
from timeball.domain.instant import Micros, render
from timeball.domain.job.job import Job, JobSpec, JobState
from timeball.domain.planning import planning
from timeball.domain.run.ledger import Origin
from timeball.domain.run.run import NewRun, new_run
from timeball.domain.schedule.calendar import NamedCalendar
from timeball.domain.schedule.closed_times import Closures
from timeball.domain.schedule.schedule import Interval
from timeball.domain.workflow.definition import WORKFLOW_PROFILE

MAX_FIRES: Final = 100_000
"""Maximum number of fires of one backfill."""
MAX_PARALLEL: Final = 1_000
MAX_RUNS: Final = 500
"""Maximum number of fires that one call of `next_fires` returns, and so of runs that one transaction creates."""
SLICE_FIRES: Final = 5_000
"""Number of fires after which `survey` yields, so that the event loop can do other work: about 10 milliseconds."""
SLICE_WORK: Final = 3_000
"""Units of work on calendars (about 3 microseconds each) after which `survey` and `look_ahead` yield."""
MAX_CALENDAR_WORK: Final = 2_000_000
"""Units of work (about 3 microseconds each) that one survey may spend on calendars."""


class BackfillState(StrEnum):
    ACTIVE = "active"
    """The backfill has fires that are not runs yet, or runs that have not ended."""
    COMPLETED = "completed"
    """All fires of the backfill became runs, and all these runs ended."""
    CANCELLED = "cancelled"
    """The backfill creates no more runs, because the backfill or its job was cancelled. Final."""


class Backfill(Struct, frozen=True, kw_only=True):
    """A stored request to run the fires of a past range, with its progress."""

    id: str
    tenant: str
    job_id: str
    spec: JobSpec
    """The spec of the job at the time of the request, without parameters. Its schedule defines the fires of the
    backfill, even if the job changes later."""
    calendars: tuple[NamedCalendar, ...] = ()
    """The calendars of the job at the time of the request. Fires that they close are not part of the backfill."""
    anchor: Micros
    """The anchor of the schedule: the instant that an interval counts from."""
    slot: int | None = None
    """The slot of the job in its window, at the time of the request."""
    since: Micros
    """Fires at or after this instant are part of the backfill."""
    until: Micros
    """Fires before this instant are part of the backfill."""
    parallelism: int
    total: int
    state: BackfillState = BackfillState.ACTIVE
    reason: str = ""
    """The reason why the backfill was cancelled."""
    cursor: Micros | None
    """The first fire that is not a run yet; None if all fires are runs."""
    made: int = 0
    """Number of fires that became runs."""
    failed: int = 0
    cancelled: int = 0
    """Number of runs that ended neither as succeeded nor as failed."""
    created_at: Micros
    finished_at: Micros | None = None


class BackfillProgress(Struct, frozen=True):
    """A backfill with the values that the store counts or joins: the name and state of its job, and its live runs."""

    backfill: Backfill
    job_name: str
    job_state: JobState
    alive: int
    """Number of runs of the backfill that have not ended."""

    @property
    def succeeded(self) -> int:
        made = self.backfill
        return made.made - self.alive - made.failed - made.cancelled

    @property
    def done(self) -> int:
        return self.backfill.made - self.alive

    @property
    def remaining(self) -> int:
        return self.backfill.total - self.backfill.made

    @property
    def status(self) -> Literal["running", "paused", "completed", "cancelled"]:
        match self.backfill.state:
            case BackfillState.COMPLETED:
                return "completed"
            case BackfillState.CANCELLED:
                return "cancelled"
            case BackfillState.ACTIVE:
                if self.job_state is JobState.PAUSED and self.remaining:
                    return "paused"
                return "running" if self.alive or self.remaining else "completed"


class Range(Struct, frozen=True):
    """The result of a survey: the number of fires that a backfill would have, and the first and last of them."""

    anchor: Micros
    count: int
    first: Micros | None
    last: Micros | None


def survey(
    job: Job,
    since: Micros,
    until: Micros,
    now: Micros,
    *,
    calendars: Sequence[NamedCalendar] = (),
    limit: int = MAX_FIRES,
) -> Iterator[Range | None]:
    """Count the fires of a job's schedule from `since` (inclusive) to `until` (exclusive). The iterator yields None
    after each slice of the work, and the range at the end. Raise `Invalid` if a backfill of them is not possible."""
    if job.spec.one_shot:
        raise Invalid("only a repeating schedule can be backfilled, and this one fires once; run or replay the job")
    if until <= since:
        raise Invalid(f"'to' must be after 'from', which is {render(since)}", "/to")
    if until > now:
        raise Invalid(f"{render(until)} is in the future; a backfill covers past fires only", "/to")
    anchor = _anchor(job, since)
    first = last = None
    count = 0
    closures = Closures(calendars)
    worked = 0
    for at in planning.seek_open_fires(job.with_(anchor=anchor), since - 1, closures):
        if at is not None and at >= until:
            break
        if at is not None:
            first, last, count = at if first is None else first, at, count + 1
        if count > limit:
            raise Invalid(f"there are more than {limit:,} fires in this range; choose a shorter range", "/to")
        if closures.work > MAX_CALENDAR_WORK:
            raise Invalid("the job's calendars have too many windows in this range; choose a shorter range", "/to")
        if at is None or count % SLICE_FIRES == 0 or closures.work - worked > SLICE_WORK:
            worked = closures.work
            yield None
    yield Range(anchor, count, first, last)


class BackfillFires(Struct, frozen=True):
    """The next fires of a backfill with calendars. They are computed before the transaction that creates their runs."""

    cursor: Micros
    """The cursor of the backfill when the fires were computed."""
    fires: tuple[Micros, ...]
    """The fires from the cursor on. If there are fewer than requested, the backfill has no more fires."""


def look_ahead(backfill: Backfill, job: Job) -> Iterator[BackfillFires | None]:
    """Compute the next fires of a backfill with calendars, for `next_fires`. The iterator yields None after each slice
    of the work, and the fires at the end. It yields nothing if no fire of the backfill is left."""
    if backfill.cursor is None:
        return
    wanted = min(backfill.parallelism, MAX_RUNS) + 1
    closures = Closures(backfill.calendars)
    found = [backfill.cursor]
    worked = 0
    for at in planning.seek_open_fires(_as_asked(backfill, job), backfill.cursor, closures):
        if at is not None and at >= backfill.until:
            break
        if at is not None:
            found.append(at)
        if len(found) >= wanted:
            break
        if at is None or closures.work - worked > SLICE_WORK:
            worked = closures.work
            yield None
    yield BackfillFires(backfill.cursor, tuple(found))


def next_fires(
    backfill: Backfill, job: Job, alive: int, ahead: BackfillFires | None = None
) -> tuple[list[Micros], Micros | None]:
    """Return the fires that may become runs now, and the next cursor of the backfill: the first fire after them, or
    None if there is none. With calendars, use only the fires in `ahead`; return no fires, and the cursor unchanged, if
    the cursor has moved since they were computed."""
    room = min(backfill.parallelism - alive, MAX_RUNS)
    if backfill.cursor is None or room <= 0:
        return [], backfill.cursor
    if not backfill.calendars:
        later = planning.fires(_as_asked(backfill, job), backfill.cursor)
        found = [backfill.cursor, *islice(takewhile(lambda at: at < backfill.until, later), room)]
    elif ahead is None or ahead.cursor != backfill.cursor:
        return [], backfill.cursor
    else:
        found = list(ahead.fires)
    return found[:room], found[room] if len(found) > room else None


def _as_asked(backfill: Backfill, job: Job) -> Job:
    return job.with_(spec=backfill.spec, anchor=backfill.anchor, slot=backfill.slot)


def run_of(backfill: Backfill, job: Job, fire_time: Micros, now: Micros) -> NewRun:
    """Return the run for one fire of a backfill. It uses the current spec of the job with the past fire time. Its
    priority is one level below that of other runs of the job, but at least 0. It has no start deadline, and the overlap
    policy ignores it. Its end is settled under the lock on the job (`serial`), which also covers the backfill."""
    run_id = ids.run(now, ids.Digest(f"{backfill.id}/{fire_time}"))
    run = new_run(job, run_id, Origin.BACKFILL, fire_time, now, eligible_at=now, retry_of=backfill.id)
    level = max(0, run.priority - 1)
    profile = run.profile
    if profile is not None and profile != WORKFLOW_PROFILE:
        profile = placement.profile(job.spec.need.of_tenant(job.tenant), level)
    return structs.replace(run, serial=True, start_by=None, priority=level, profile=profile)


def _anchor(job: Job, since: Micros) -> Micros:
    """Return an anchor for the schedule as if the job had always existed: at or before `since`, unless the job has a
    `startAt`. The anchor of an interval is moved by whole steps, so that its grid stays the same."""
    if job.spec.starts is not None:
        return job.spec.starts
    if isinstance(job.spec.schedule, Interval):
        step = duration.parse(job.spec.schedule.expression)
        return job.anchor - max(0, (job.anchor - since) // step + 2) * step
    return min(job.anchor, since)
