"""From a job's next fire to run rows and ledger spans: what the planner writes in one transaction.

Overdue instants go through the catch-up rule and the start deadline here. Overlap is decided later, by the store,
under a lock on the job.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, takewhile
from typing import Final

from msgspec import Struct

from timeball.domain import duration, schedule
from timeball.domain.errors import InvalidSchedule
from timeball.domain.instant import Micros, render
from timeball.domain.job import HORIZON, Job, JobSpec, jitter_of, plan_at
from timeball.domain.ledger import TOLERANCE, Origin, Verdict

MOST_RUNS: Final = 500
"""Runs one plan may hold: a long absence is worked off in bounded transactions."""
MOST_INSTANTS: Final = 5_000
"""Instants one plan may look at: these cost CPU but, missed, share one row."""


class Fire(Struct, frozen=True):
    """One due instant that becomes a run."""

    fire_time: Micros
    origin: Origin
    eligible_at: Micros
    """From when it may be claimed; also what its rank counts from."""


class Span(Struct, frozen=True):
    """Consecutive instants that never become a run, sharing one ledger row."""

    first: Micros
    last: Micros
    count: int
    verdict: Verdict
    reason: str


class Plan(Struct, frozen=True):
    """What to write for one job; applies only where `version` and `next_fire_at` still are what was read."""

    job: Job
    steps: tuple[Fire | Span, ...]
    """In the order of their instants."""
    next_fire_at: Micros | None
    plan_at: Micros | None


class _Rules(Struct, frozen=True):
    """What lateness means for a job, seen from one moment. It counts from when a fire should start: with its jitter."""

    late: Micros
    """What was to start before this is late."""
    dropped: Micros
    """What was to start before this is missed, unless it is the newest that is late."""
    expired: Micros
    """What was to start before this must not start any more."""
    surely_dropped: Micros
    """Instants before this are missed whatever their jitter is, if another such instant follows."""
    newest_runs: bool


class _Gap(Struct):
    """A span in the making."""

    first: Micros
    last: Micros
    count: int
    verdict: Verdict


def plan(job: Job, now: Micros, *, most_runs: int = MOST_RUNS, most_instants: int = MOST_INSTANTS) -> Plan:
    """Everything that is due, by the catch-up rule, and at most one future fire within the horizon."""
    spec = job.spec
    if spec.max_runs is not None:
        most_runs = min(most_runs, spec.max_runs - job.fired)
    rules = _rules(spec, now)
    steps: list[Fire | _Gap] = []
    runs = looked_at = 0
    last_run: Micros | None = None
    ahead = instants(job)
    upcoming = next(ahead, None)
    while upcoming is not None and upcoming <= now + HORIZON and runs < most_runs and looked_at < most_instants:
        instant, upcoming = upcoming, next(ahead, None)
        looked_at += 1
        if upcoming is not None and upcoming < rules.surely_dropped:
            verdict: Verdict | None = Verdict.MISSED
        else:
            verdict = _verdict(job, instant, upcoming, rules)
        if verdict is None:
            late = instant + jitter_of(job, instant) < rules.late
            steps.append(Fire(instant, Origin.CATCH_UP if late else Origin.SCHEDULE, max(instant, now)))
            runs += 1
            last_run = instant
            if instant > now:
                break
        elif steps and isinstance(gap := steps[-1], _Gap) and gap.verdict is verdict:
            gap.last = instant
            gap.count += 1
        else:
            steps.append(_Gap(instant, instant, 1, verdict))
    if spec.max_runs is not None and job.fired + runs >= spec.max_runs:
        upcoming = None
    done = tuple(_span(spec, step) if isinstance(step, _Gap) else step for step in steps)
    return Plan(job, done, upcoming, _look_again(job, upcoming, last_run, now))


def instants(job: Job) -> Iterator[Micros]:
    """The instants that are neither a run nor a span yet, in order."""
    if job.next_fire_at is None:
        return iter(())
    return chain((job.next_fire_at,), fires(job, job.next_fire_at))


def fires(job: Job, after: Micros) -> Iterator[Micros]:
    """The instants of a job's schedule after a moment, in order, whatever became of them."""
    return schedule.fires(job.spec.schedule, job.anchor, after, job.spread, ends=job.spec.ends)


def coming(job: Job, after: Micros) -> Iterator[Micros]:
    """The fires to expect after a moment: those that are runs already, and as many more as the job may have."""
    if job.spec.max_runs is None or job.next_fire_at is None:
        return fires(job, after)
    following = job.next_fire_at
    planned = takewhile(lambda at: at < following, fires(job, after))
    return chain(planned, islice(fires(job, max(after, following - 1)), job.spec.max_runs - job.fired))


def first_fire(job: Job, now: Micros) -> Micros:
    """The first fire of a schedule that is set now. If there is none, the error says what leaves none."""
    spec = job.spec
    first = schedule.first(spec.schedule, now, job.spread, anchor=job.anchor, ends=spec.ends)
    if first is None:
        endless = schedule.first(spec.schedule, now, job.spread, anchor=job.anchor)
        if endless is not None:
            detail = f"this schedule never fires: its first fire would be at {render(endless)}, after endAt"
            raise InvalidSchedule(detail, "/endAt")
        raise InvalidSchedule("this schedule never fires", "/startAt" if spec.start_at else "/schedule/expression")
    if spec.one_shot and first + jitter_of(job, first) < _rules(spec, now).expired:
        detail = f"this schedule never fires: {render(first)} is longer ago than startDeadline, {spec.start_deadline}"
        raise InvalidSchedule(detail, "/startDeadline")
    return first


def _look_again(job: Job, upcoming: Micros | None, last_run: Micros | None, now: Micros) -> Micros | None:
    if upcoming is None and not job.serial:
        return None  # nothing is left to plan, and no overlap to decide when the last fire falls due
    if upcoming is not None and upcoming <= now:
        return now  # there is more to work off: after the others who wait
    return plan_at(upcoming, last_run)


def _rules(spec: JobSpec, now: Micros) -> _Rules:
    """One-shots run however late they are, unless they have a deadline."""
    expired = 0 if spec.start_deadline is None else now - duration.parse(spec.start_deadline)
    if spec.one_shot:
        return _Rules(late=0, dropped=0, expired=expired, surely_dropped=0, newest_runs=True)
    late = now - TOLERANCE
    dropped = min(late, now - duration.parse(spec.catch_up_window)) if spec.catch_up == "all" else late
    most_jitter = 0 if spec.jitter is None else duration.parse(spec.jitter)
    return _Rules(late, dropped, expired, dropped - most_jitter, spec.catch_up != "none")


def _verdict(job: Job, instant: Micros, upcoming: Micros | None, rules: _Rules) -> Verdict | None:
    """Why an instant becomes no run; None: it becomes one."""
    due_at = instant + jitter_of(job, instant)
    if due_at < rules.dropped and not (rules.newest_runs and _is_newest(job, upcoming, rules.late)):
        return Verdict.MISSED
    return Verdict.SKIPPED if due_at < rules.expired else None


def _is_newest(job: Job, upcoming: Micros | None, late: Micros) -> bool:
    """Whether nothing is late of what follows an instant that is. With jitter, instants may change places."""
    if upcoming is None or upcoming >= late:
        return True
    following = chain((upcoming,), fires(job, upcoming))
    return not any(at + jitter_of(job, at) < late for at in takewhile(lambda at: at < late, following))


def _span(spec: JobSpec, gap: _Gap) -> Span:
    if gap.verdict is Verdict.SKIPPED:
        reason = f"not running at the time, and its startDeadline of {spec.start_deadline} has passed"
    elif spec.catch_up == "all":
        reason = f"not running at the time, and older than the catch-up window of {spec.catch_up_window}"
    else:
        reason = f"not running at the time, and catchUp is {spec.catch_up}"
    return Span(gap.first, gap.last, gap.count, gap.verdict, reason)
