"""From a job's next fire to run rows and ledger spans: what the planner writes in one transaction.

Overdue instants go through the catch-up rule here. Overlap is decided later, by the store, under a lock on the job.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from msgspec import Struct

from timeball.domain import duration, schedule
from timeball.domain.instant import Micros
from timeball.domain.job import HORIZON, Job, plan_at
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


def plan(job: Job, now: Micros) -> Plan:
    """Everything that is due, by the catch-up rule, and at most one future fire within the horizon."""
    steps: list[Fire | Span] = []
    runs = looked_at = 0
    last_run: Micros | None = None
    ahead = instants(job)
    upcoming = next(ahead, None)
    while upcoming is not None and upcoming <= now + HORIZON and runs < MOST_RUNS and looked_at < MOST_INSTANTS:
        instant, upcoming = upcoming, next(ahead, None)
        looked_at += 1
        newest_missed = upcoming is None or upcoming > now - TOLERANCE
        if not _is_missed(job, instant, now, newest_missed):
            late = instant < now - TOLERANCE and not job.spec.one_shot
            origin = Origin.CATCH_UP if late else Origin.SCHEDULE
            steps.append(Fire(instant, origin, max(instant, now) if instant <= now else instant))
            runs += 1
            last_run = instant
            if instant > now:
                break
        elif steps and isinstance(steps[-1], Span):
            span = steps[-1]
            steps[-1] = Span(span.first, instant, span.count + 1, span.verdict, span.reason)
        else:
            steps.append(Span(instant, instant, 1, Verdict.MISSED, _missed_reason(job)))
    look_again = plan_at(upcoming, last_run)
    if upcoming is None and not job.serial:
        look_again = None  # nothing is left to plan, and no overlap to decide when the last fire falls due
    return Plan(job, tuple(steps), upcoming, look_again)


def instants(job: Job) -> Iterator[Micros]:
    """The instants that are neither a run nor a span yet, in order."""
    if job.next_fire_at is None:
        return iter(())
    later = schedule.fires(job.spec.schedule, job.anchor, job.next_fire_at, job.spread)
    return chain((job.next_fire_at,), later)


def _is_missed(job: Job, instant: Micros, now: Micros, newest: bool) -> bool:
    """Whether the catch-up rule drops an instant. One-shots run however late they are."""
    if instant >= now - TOLERANCE or job.spec.one_shot:
        return False
    match job.spec.catch_up:
        case "all":
            return not newest and instant < now - duration.parse(job.spec.catch_up_window)
        case "last":
            return not newest
        case "none":
            return True


def _missed_reason(job: Job) -> str:
    if job.spec.catch_up == "all":
        return f"not running at the time, and older than the catch-up window of {job.spec.catch_up_window}"
    return f"not running at the time, and catchUp is {job.spec.catch_up}"
