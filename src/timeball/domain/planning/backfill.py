"""Backfills: the fires of a past range, run again or for the first time, oldest first.

Only so many runs of a backfill are alive at once, and the next one is made when one of these ended. So a backfill of
years takes the room of a few runs, and a fresh run finds at most those before it that were made before it became due:
whatever a backfill makes later became claimable later, and has a rank behind it.
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
from timeball.domain.workflow.definition import WOVEN

MAX_FIRES: Final = 100_000
"""Fires that one backfill may have."""
MAX_PARALLEL: Final = 1_000
MAX_RUNS: Final = 500
"""Runs that are made in one step."""
SLICE_FIRES: Final = 5_000
"""Fires that are counted before others get their turn: about 10 milliseconds."""
SLICE_WORK: Final = 3_000
"""Units of work on calendars before others get their turn."""
MAX_CALENDAR_WORK: Final = 2_000_000
"""Units of work (about 3 microseconds each) that calendars may cost one survey."""


class BackfillState(StrEnum):
    ACTIVE = "active"
    """Has fires that are not runs yet, or runs that are alive."""
    COMPLETED = "completed"
    """All of its fires became runs, and all of these ended."""
    CANCELLED = "cancelled"
    """Makes no runs any more: somebody cancelled it, or its job. Final."""


class Backfill(Struct, frozen=True, kw_only=True):
    """What somebody asked for, and how far it is."""

    id: str
    tenant: str
    job_id: str
    spec: JobSpec
    """The job's when it was asked for, without parameters: its schedule says which fires are meant, whatever becomes
    of the job."""
    calendars: tuple[NamedCalendar, ...] = ()
    """The job's, as they were then: what they close is not meant."""
    anchor: Micros
    """What the schedule counts from."""
    slot: int | None = None
    """The job's in its window, then."""
    since: Micros
    until: Micros
    """Fires before this are meant."""
    parallelism: int
    total: int
    state: BackfillState = BackfillState.ACTIVE
    reason: str = ""
    """Why it was cancelled."""
    cursor: Micros | None
    """The first fire that is not a run yet; None: all are."""
    made: int = 0
    """Fires that became runs."""
    failed: int = 0
    cancelled: int = 0
    """Runs that ended without having succeeded or given up."""
    created_at: Micros
    finished_at: Micros | None = None


class BackfillProgress(Struct, frozen=True):
    """A backfill with what only the store can tell of it."""

    backfill: Backfill
    job_name: str
    job_state: JobState
    alive: int
    """Runs of it that have not ended."""

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
    """The fires that a backfill would have."""

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
    most: int = MAX_FIRES,
) -> Iterator[Range | None]:
    """Count the fires of a job's schedule in [since, until), or say why there cannot be a backfill of them: a range,
    after None for each slice of the work."""
    if job.spec.one_shot:
        raise Invalid("only a schedule that repeats can be backfilled, and this one fires once; run or replay it")
    if until <= since:
        raise Invalid(f"'to' has to be after 'from', which is {render(since)}", "/to")
    if until > now:
        raise Invalid(f"{render(until)} has not come yet; a backfill is of the past", "/to")
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
        if count > most:
            raise Invalid(f"there are more than {most:,} fires in this range; ask for less at once", "/to")
        if closures.work > MAX_CALENDAR_WORK:
            raise Invalid("the job's calendars have too many windows in this range; ask for less at once", "/to")
        if at is None or count % SLICE_FIRES == 0 or closures.work - worked > SLICE_WORK:
            worked = closures.work
            yield None
    yield Range(anchor, count, first, last)


class Ahead(Struct, frozen=True):
    """The next fires of a backfill whose job has calendars, found before the transaction that makes runs of them."""

    cursor: Micros
    """Where the backfill was."""
    fires: tuple[Micros, ...]
    """From there on; fewer than asked for: there are no more."""


def look_ahead(backfill: Backfill, job: Job) -> Iterator[Ahead | None]:
    """What `next_fires` needs to know, after None for each slice of the work."""
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
    yield Ahead(backfill.cursor, tuple(found))


def next_fires(
    backfill: Backfill, job: Job, alive: int, ahead: Ahead | None = None
) -> tuple[list[Micros], Micros | None]:
    """The fires that may become runs now, and the first one after them. With calendars, only what is known of them
    `ahead`: nothing, if the backfill has moved on since."""
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
    """A run for one fire: what the job is now, for the time that it was. One level below other runs of the job, it has
    no deadline to start by, and looks at no other run of the job; only its end happens under the job's lock."""
    run_id = ids.run(now, ids.Digest(f"{backfill.id}/{fire_time}"))
    run = new_run(job, run_id, Origin.BACKFILL, fire_time, now, eligible_at=now, retry_of=backfill.id)
    level = max(0, run.priority - 1)
    profile = run.profile
    if profile is not None and profile != WOVEN:
        profile = placement.profile(job.spec.need, level)
    return structs.replace(run, serial=True, start_by=None, priority=level, profile=profile)


def _anchor(job: Job, since: Micros) -> Micros:
    """The schedule as if the job had always been there, but for its `startAt`; the grid of an interval stays where it
    is."""
    if job.spec.starts is not None:
        return job.spec.starts
    if isinstance(job.spec.schedule, Interval):
        step = duration.parse(job.spec.schedule.expression)
        return job.anchor - max(0, (job.anchor - since) // step + 2) * step
    return min(job.anchor, since)
