"""Computes the plan of a job: the runs and ledger rows that the planner writes in one transaction.

The plan applies the catch-up rule and the start deadline to overdue fires. The store decides about overlap later, under
a lock on the job.

A fire that a calendar excludes is planned when it is due, not before, so that a change of the calendar before that
instant takes effect. It becomes part of a ledger row. With `excluded: next_open` the job then has one *deferred fire*
(field `deferred_fire`): it is at the first open instant, and replaces all fires of the closure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final

from msgspec import Struct

from timeball.domain.errors import InvalidSchedule
from timeball.domain.instant import Micros, render
from timeball.domain.job.job import HORIZON, Job, JobSpec, JobState, plan_at
from timeball.domain.planning.catch_up import CatchUpRule, SearchPaused
from timeball.domain.planning.open_fires import fires, open_fires, seek_open_fires, without
from timeball.domain.planning.upcoming_fires import CalendarFires, instants
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.schedule import schedule
from timeball.domain.schedule.closed_times import OPEN, Closure, Closures
from timeball.domain.schedule.schedule import Follow, Immediate, Window

__all__ = [
    "MAX_INSTANTS",
    "MAX_RUNS",
    "CatchUpRule",
    "JobPlan",
    "PlannedFire",
    "Span",
    "begin",
    "fires",
    "first_fire",
    "look_after",
    "may_have_restarted",
    "open_fires",
    "placed",
    "plan",
    "seek_open_fires",
    "set_back",
]

MAX_RUNS: Final = 500
"""Maximum number of runs in one plan. After a long outage, the overdue fires are planned in several bounded
transactions."""
MAX_INSTANTS: Final = 10_000
"""Maximum number of fires that one plan reads. They take about a millisecond of CPU time; missed fires share one ledger
row."""
MAX_CLOSED_INSTANTS: Final = 1_000
"""Maximum number of fires that one plan of a job with calendars reads. Each takes about 5 microseconds."""
MAX_CALENDAR_WORK: Final = 3_000
"""Units of work (about 3 microseconds each) that one plan may spend on calendars."""


class PlannedFire(Struct, frozen=True, gc=False):
    """A fire that becomes a run."""

    fire_time: Micros
    origin: Origin
    eligible_at: Micros
    """The instant from which on the run may be claimed. The rank of the run is computed from it, too."""


class Span(Struct, frozen=True):
    """Consecutive fires that never become runs. They share one ledger row."""

    first: Micros
    last: Micros
    count: int
    verdict: Verdict
    reason: str


class JobPlan(Struct, frozen=True):
    """The result of planning one job. The store writes it only if the job's `version` and `next_fire_at` are unchanged
    since they were read."""

    job: Job
    steps: tuple[PlannedFire | Span, ...]
    """Runs and ledger rows, in the order of their fires."""
    next_fire_at: Micros | None
    plan_at: Micros | None
    deferred_fire: Micros | None = None
    calendars: tuple[tuple[str, str, int], ...] = ()
    """Tenant, name and version of the calendars that the plan was computed with. The store writes the plan only if
    these versions are current."""

    @property
    def runs(self) -> int:
        return sum(isinstance(step, PlannedFire) for step in self.steps)

    @property
    def instants(self) -> int:
        return sum(step.count if isinstance(step, Span) else 1 for step in self.steps)


class _Gap(Struct):
    """Consecutive fires that do not become runs, with one verdict. The plan may still extend it, and then makes a
    `Span` of it."""

    first: Micros
    last: Micros
    count: int
    verdict: Verdict
    reason: str | None = None
    """None if the reason follows from the verdict and the job."""


def begin(
    job_id: str, tenant: str, spec: JobSpec, now: Micros, created_by: str | None = None
) -> tuple[Job, PlannedFire | None]:
    """Return a new job, and its first fire if the fire is near enough to become a run now. If that is the fire of a
    one-shot, the planner has nothing left to do: most jobs are one-shots, and most of those are immediate."""
    immediate = type(spec.schedule) is Immediate
    job = Job(
        id=job_id,
        tenant=tenant,
        spec=spec,
        version=1,
        state=JobState.ACTIVE,
        anchor=now if immediate or (starts := spec.starts) is None else starts,
        next_fire_at=None,
        plan_at=None,
        created_at=now,
        updated_at=now,
        fired=1 if immediate else 0,
        created_by=created_by,
    )
    if immediate:
        return job, PlannedFire(now, Origin.SCHEDULE, now)
    if isinstance(spec.schedule, Window):
        return job, None  # the store chooses a slot, and the first fire follows from it
    if isinstance(spec.schedule, Follow):
        return _following(job, now), None
    first = first_fire(job, now)
    if spec.calendars:  # the planner evaluates them, immediately if the first fire is near
        return _ahead(job, first, now), None
    if first > now + HORIZON:
        return job.with_(next_fire_at=first, plan_at=first - HORIZON), None
    if spec.one_shot:
        return job.with_(fired=1), PlannedFire(first, Origin.SCHEDULE, max(first, now))
    planned = plan(job.with_(next_fire_at=first), now)
    fire = next(step for step in planned.steps if isinstance(step, PlannedFire))
    return job.with_(next_fire_at=planned.next_fire_at, plan_at=planned.plan_at, fired=1), fire


def placed(job: Job, slot: int, now: Micros) -> Job:
    """Return a job that was just submitted, and that has a window, with its slot and its first fire."""
    job = job.with_(slot=slot)
    return _ahead(job, first_fire(job, now), now)


def _following(job: Job, now: Micros) -> Job:
    """Return a new job that follows another job. Its fires are not known in advance, only its `endAt`: the planner
    plans the job at that instant."""
    ends = job.spec.ends
    if ends is not None and ends <= now:
        raise InvalidSchedule(f"this schedule never fires: {render(ends)} has passed", "/endAt")
    return job.with_(plan_at=ends)


def _ahead(job: Job, first: Micros, now: Micros) -> Job:
    return job.with_(next_fire_at=first, plan_at=max(now, first - HORIZON))


def plan(
    job: Job,
    now: Micros,
    taken: frozenset[Micros] = frozenset(),
    closures: Closures = OPEN,
    *,
    most_runs: int = MAX_RUNS,
    most_instants: int = MAX_INSTANTS,
) -> JobPlan:
    """Plan the due fires by the catch-up rule (at most `most_runs` runs of at most `most_instants` fires), and at most
    one future fire within the horizon. The fires in `taken` have a verdict already and are ignored."""
    spec = job.spec
    if spec.max_runs is not None:
        most_runs = min(most_runs, spec.max_runs - job.fired)
    if closures is not OPEN or job.deferred_fire is not None:
        return _plan_around(job, now, taken, closures, most_runs, most_instants)
    steps: list[PlannedFire | _Gap] = []
    runs = looked_at = 0
    last_run: Micros | None = None
    ahead = instants(job, taken)
    upcoming = next(ahead, None)
    catch_up_rule = CatchUpRule(job, now, taken) if upcoming is not None and upcoming < now else None
    if catch_up_rule is not None and upcoming is not None and upcoming < catch_up_rule.surely_dropped and most_runs > 0:
        gone, upcoming, ahead = _skip_missed(upcoming, ahead, catch_up_rule.surely_dropped, most_instants)
        looked_at = gone.count
        steps += [gone] if gone.count else []
    horizon = _horizon(job, now)
    while upcoming is not None and upcoming <= horizon and runs < most_runs and looked_at < most_instants:
        instant, upcoming = upcoming, next(ahead, None)
        looked_at += 1
        verdict = None if catch_up_rule is None else catch_up_rule.verdict(instant, upcoming)
        if verdict is None:
            origin = Origin.SCHEDULE if catch_up_rule is None else catch_up_rule.origin(instant)
            steps.append(PlannedFire(instant, origin, max(instant, now)))
            runs += 1
            last_run = instant
            if instant > now:
                break
        else:
            _extend(steps, instant, verdict)
    if spec.max_runs is not None and job.fired + runs >= spec.max_runs:
        upcoming = None
    return JobPlan(job, _done(job, steps), upcoming, _look_again(job, upcoming, last_run, now))


def _plan_around(
    job: Job, now: Micros, taken: frozenset[Micros], closures: Closures, most_runs: int, most_instants: int
) -> JobPlan:
    """Plan a job with calendars or with a deferred fire: all due fires by the catch-up rule, and at most one future
    fire within the horizon, as `plan` does for jobs without calendars."""
    steps: list[PlannedFire | _Gap] = []
    runs = looked_at = 0
    last_run: Micros | None = None
    horizon = _horizon(job, now)
    calendar_fires = CalendarFires(job, taken, closures)
    catch_up_rule = CatchUpRule(job, now, taken, closures)
    most_instants = min(most_instants, MAX_CLOSED_INSTANTS)
    most_work = closures.work + MAX_CALENDAR_WORK
    while (instant := calendar_fires.upcoming) is not None and runs < most_runs and looked_at < most_instants:
        closure = closures.at(instant)
        if instant > horizon or (closure is not None and instant > now):
            break
        if closures.work > most_work and looked_at:
            break  # the next plan continues here, with the calendar pages that are cached by then
        looked_at += 1
        if closure is not None:
            if calendar_fires.exclude(closure):
                _extend(steps, instant, Verdict.SKIPPED, _excluded(job, closure))
            continue
        deferred_fire = calendar_fires.deferred_fire
        calendar_fires.take()
        try:
            verdict = catch_up_rule.verdict(instant, calendar_fires.upcoming) if instant < now else None
        except SearchPaused:
            return JobPlan(job, _done(job, steps), instant, now, deferred_fire, closures.versions)
        if verdict is not None:
            _extend(steps, instant, verdict)
            continue
        steps.append(
            PlannedFire(instant, catch_up_rule.origin(instant) if instant < now else Origin.SCHEDULE, max(instant, now))
        )
        runs += 1
        last_run = instant
        if instant > now:
            break
    upcoming, deferred_fire = calendar_fires.upcoming, calendar_fires.deferred_fire
    if job.spec.max_runs is not None and job.fired + runs >= job.spec.max_runs:
        upcoming = deferred_fire = None
    look_again = _look_again(job, upcoming, last_run, now)
    if upcoming is not None and upcoming > now and closures.at(upcoming) is not None:
        # The calendars are evaluated again when this fire is due, so no run is created for it now.
        look_again = upcoming
    return JobPlan(job, _done(job, steps), upcoming, look_again, deferred_fire, closures.versions)


def _horizon(job: Job, now: Micros) -> Micros:
    """Return the instant up to which fires become runs. For a job that follows another job this is now, because its
    future fires are unknown."""
    return now if job.spec.follows is not None else now + HORIZON


def _extend(steps: list[PlannedFire | _Gap], instant: Micros, verdict: Verdict, reason: str | None = None) -> None:
    """Add a fire that does not become a run to `steps`: to the last gap if that has the same verdict and reason, else
    as a new gap."""
    if steps and isinstance(gap := steps[-1], _Gap) and gap.verdict is verdict and gap.reason == reason:
        gap.last = instant
        gap.count += 1
    else:
        steps.append(_Gap(instant, instant, 1, verdict, reason))


def _excluded(job: Job, closure: Closure) -> str:
    if job.spec.excluded == "skip":
        return closure.reason
    if job.spec.ends is not None and closure.end > job.spec.ends:
        return f"{closure.reason}; the closure ends after endAt"
    if not closure.sure:
        return f"{closure.reason}; the job runs once when the closure ends"
    return f"{closure.reason}; the job runs once when the closure ends, at {render(closure.end)}"


def set_back(job: Job, now: Micros, back: Micros, given_back: int, taken: frozenset[Micros]) -> Job:
    """Return a job as it has to be after the clock of the store, which was ahead by `back` microseconds, was set back
    to `now`: it is planned again from now on. `given_back` is the number of its runs that were deleted; the fires of
    these runs are planned again. The fires in `taken` have a verdict, or a run that has started; they are not planned
    again.
    """
    job = job.with_(fired=max(0, job.fired - given_back))
    if isinstance(job.spec.schedule, Immediate):
        return job
    if job.deferred_fire is not None and job.deferred_fire > now:
        job = job.with_(deferred_fire=None)
    following = job.next_fire_at
    if job.spec.follows is not None:
        following = following - back if following is not None and following > now else following
    elif following is None or following > now:
        if job.spec.starts is None and job.anchor > now:
            job = job.with_(anchor=job.anchor - back)
        following = None if job.exhausted else next(without(taken, fires(job, now)), None)
    looks = job.state is JobState.ACTIVE and (following is not None or job.plan_at is not None)
    return job.with_(next_fire_at=following, plan_at=now if looks else None, last_span=None)


def may_have_restarted(job: Job) -> bool:
    """True if an edit may have set `next_fire_at` back before fires that already became runs: a fire becomes a run up
    to `HORIZON` before its time. A user may have cancelled such a run, and then its fire must not be planned again."""
    return job.version > 1 and job.next_fire_at is not None and job.next_fire_at <= job.updated_at + HORIZON


def first_fire(job: Job, now: Micros) -> Micros:
    """Return the first fire of a schedule that is set now. Raise `InvalidSchedule` with the reason if there is none."""
    spec = job.spec
    first = schedule.first(spec.schedule, now, job.spread, anchor=job.anchor, ends=spec.ends)
    if first is None:
        endless = schedule.first(spec.schedule, now, job.spread, anchor=job.anchor)
        if endless is not None:
            detail = f"this schedule never fires: its first fire would be at {render(endless)}, after endAt"
            raise InvalidSchedule(detail, "/endAt")
        raise InvalidSchedule("this schedule never fires", "/startAt" if spec.start_at else "/schedule/expression")
    if spec.one_shot and spec.start_deadline is not None and CatchUpRule(job, now).verdict(first, None) is not None:
        detail = f"this schedule never fires: {render(first)} is longer ago than startDeadline, {spec.start_deadline}"
        raise InvalidSchedule(detail, "/startDeadline")
    return first


def _look_again(job: Job, upcoming: Micros | None, last_run: Micros | None, now: Micros) -> Micros | None:
    if job.spec.follows is not None:
        return look_after(job, upcoming, now)
    if upcoming is None and not job.serial:
        return None  # nothing is left to plan, and no overlap has to be decided when the last fire is due
    if upcoming is not None and upcoming <= now:
        return now  # more fires are overdue: they are planned after the other jobs that wait
    return plan_at(upcoming, last_run)


def look_after(job: Job, upcoming: Micros | None, now: Micros) -> Micros | None:
    """Return when to plan a job that follows another job again: at its next known fire or at its `endAt`, whichever is
    first; None if there is neither."""
    ends = job.spec.ends
    looks = [max(upcoming, now)] if upcoming is not None else []
    return min([*looks, *([ends] if ends is not None and ends > now else [])], default=None)


def _skip_missed(
    upcoming: Micros, ahead: Iterator[Micros], before: Micros, limit: int
) -> tuple[_Gap, Micros, Iterator[Micros]]:
    """Skip the oldest fires after a long outage quickly: fires that are followed by another fire before the instant
    `before`, at most `limit` of them. Return their gap, the first fire that was not skipped, and the iterator of the
    fires after it."""
    first = last = upcoming
    count = 0
    for following in islice(ahead, limit):
        if following >= before:
            ahead = chain((following,), ahead)
            break
        last, upcoming = upcoming, following
        count += 1
    return _Gap(first, last, count, Verdict.MISSED), upcoming, ahead


def _done(job: Job, steps: Sequence[PlannedFire | _Gap]) -> tuple[PlannedFire | Span, ...]:
    return tuple([_span(job.spec, step) if isinstance(step, _Gap) else step for step in steps])


def _span(spec: JobSpec, gap: _Gap) -> Span:
    if gap.reason is not None:
        return Span(gap.first, gap.last, gap.count, gap.verdict, gap.reason)
    if gap.verdict is Verdict.SKIPPED:
        reason = f"not running at the time, and its startDeadline of {spec.start_deadline} has passed"
    elif spec.catch_up == "all":
        reason = f"not running at the time, and older than the catch-up window of {spec.catch_up_window}"
    else:
        reason = f"not running at the time, and catchUp is {spec.catch_up}"
    return Span(gap.first, gap.last, gap.count, gap.verdict, reason)
