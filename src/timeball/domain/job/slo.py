"""The lateness objective of a job: which share of its runs has to start in time, and how fast its error budget is used.

A run counts as late if it had not started `startWithin` after it was due, even if it never started later. Missed fires
count as late. Runs that were cancelled or skipped before that time, without a start, do not count at all; neither do
runs of backfills.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from timeball.domain import duration
from timeball.domain.duration import Duration
from timeball.domain.instant import DAY, HOUR, Micros
from timeball.domain.task.task import check_duration

WINDOWS: Final[tuple[tuple[str, Micros], ...]] = (
    ("1h", HOUR),
    ("6h", 6 * HOUR),
    ("1d", DAY),
    ("7d", 7 * DAY),
    ("30d", 30 * DAY),
)
"""The windows of time for which starts are counted. The error budget is that of the last one."""


class Slo(Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    start_within: Duration
    objective: Annotated[float, Meta(gt=0, lt=100)]
    """The share of runs that has to start in time, in per cent."""

    def __post_init__(self) -> None:
        check_duration("slo.startWithin", self.start_within, shortest=1)

    @property
    def within(self) -> Micros:
        return duration.parse(self.start_within)

    @property
    def allowed(self) -> float:
        """The share of runs that may start late, from 0 to 1."""
        return 1 - self.objective / 100


class Starts(Struct, frozen=True):
    """The runs in a window of time that had to start."""

    count: int = 0
    late: int = 0
    budget: float = 0.0
    """The number of runs that may start late."""

    def plus(self, other: Starts) -> Starts:
        return Starts(self.count + other.count, self.late + other.late, self.budget + other.budget)

    @property
    def burn_rate(self) -> float | None:
        """How many times faster than allowed the error budget is used; None if no run had to start."""
        return self.late / self.budget if self.budget else None

    @property
    def budget_left(self) -> float | None:
        """The share of the error budget that is left. It is negative if the objective is not met."""
        return 1 - self.late / self.budget if self.budget else None
