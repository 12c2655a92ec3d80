"""Where the time went between the moment a run should have started and the moment it did."""

from __future__ import annotations

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.run.run import Attempt, Run


class Lateness(Struct, frozen=True):
    """One part after the other; together they are the whole."""

    scheduler: Micros
    """Until there was a run: nobody planned it in time, or its job was paused."""
    blocked: Micros
    """Until it could be claimed: an earlier run, its turn or a limit held it back."""
    queue: Micros
    """Until a worker had room for it."""
    worker: Micros
    """Until its worker started it."""

    @property
    def total(self) -> Micros:
        return self.scheduler + self.blocked + self.queue + self.worker


def split(run: Run, first: Attempt | None = None) -> Lateness | None:
    """The lateness of a run that has started; `first` is its first attempt, if others followed.

    A fire is claimed a moment ahead of its time, and clocks of servers differ a little: what lies outside the time
    between due and started does not count.
    """
    if run.started_at is None:
        return None
    claimed_at, eligible_at = run.claimed_at, run.eligible_at
    if first is not None:
        claimed_at, eligible_at = first.claimed_at, first.eligible_at
    started = max(run.started_at, run.due)
    planned = _within(run.created_at, run.due, started)
    claimable = _within(eligible_at, planned, started)
    claimed = started if claimed_at is None else _within(claimed_at, claimable, started)
    return Lateness(planned - run.due, claimable - planned, claimed - claimable, started - claimed)


def _within(at: Micros | None, low: Micros, high: Micros) -> Micros:
    return low if at is None else min(max(at, low), high)
