"""Splits the delay between the due time of a run and its start into the parts that caused it."""

from __future__ import annotations

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.run.run import Attempt, Run


class Lateness(Struct, frozen=True):
    """The delay of a run in microseconds, as consecutive parts. Their sum is the whole delay."""

    scheduler: Micros
    """The time from the due time until the run was created: the planner was late, or the job was paused."""
    blocked: Micros
    """The time from the creation until the run could be claimed: an earlier run, the ordering key or a limit blocked
    it."""
    queue: Micros
    """The time from the instant at which the run could be claimed until a worker with a free slot claimed it."""
    worker: Micros
    """The time from the claim until the worker started the run."""

    @property
    def parts(self) -> tuple[Micros, Micros, Micros, Micros]:
        return self.scheduler, self.blocked, self.queue, self.worker

    @property
    def total(self) -> Micros:
        return sum(self.parts)


def split(run: Run, first: Attempt | None = None) -> Lateness | None:
    """Return the lateness of a run that has started; None if it has not. `first` is its first attempt, if other
    attempts followed.

    A run may be claimed shortly before its time, and the clocks of servers differ slightly: instants are therefore
    limited to the time between the due time and the start.
    """
    if run.started_at is None:
        return None
    claimed_at, eligible_at = run.claimed_at, run.eligible_at
    if first is not None:
        claimed_at, eligible_at = first.claimed_at, first.eligible_at
    return split_times(run.due, run.created_at, eligible_at, claimed_at, run.started_at)


def split_times(
    due: Micros, created_at: Micros, eligible_at: Micros | None, claimed_at: Micros | None, started_at: Micros
) -> Lateness:
    """Return the lateness of a run from the instants of its first attempt."""
    started = max(started_at, due)
    planned = _within(created_at, due, started)
    claimable = _within(eligible_at, planned, started)
    claimed = started if claimed_at is None else _within(claimed_at, claimable, started)
    return Lateness(planned - due, claimable - planned, claimed - claimable, started - claimed)


def _within(at: Micros | None, low: Micros, high: Micros) -> Micros:
    return low if at is None else min(max(at, low), high)
