"""Decides from paired measurements whether a revision is as fast as another one. Pure: it measures nothing.

Each turn measures both revisions, one directly after the other, and gives one ratio (new / base), from which the speed
of the machine cancels out. The median of these ratios is judged, together with its 90 % confidence interval, which
follows from the order statistics of the ratios and assumes nothing about their distribution.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

CONFIDENCE = 0.90
MAX_HALF_WIDTH = 0.04
"""Maximum half width of an interval around 1 that counts as proof of equality."""
MIN_TURNS = 9
MAX_TURNS = 31


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "FAILED"
    UNDECIDED = "undecided"
    """More turns may decide it."""


@dataclass(frozen=True)
class Bounds:
    """The limits within which two revisions count as equally fast."""

    min_rate: float
    max_cpu: float


AGAINST_PARENT = Bounds(min_rate=0.97, max_cpu=1.03)
AGAINST_BASE = Bounds(min_rate=0.95, max_cpu=1.05)
"""The limits against the commit in `bench/BASE`: small losses of many commits must not add up to more than this."""


@dataclass(frozen=True)
class MedianRatio:
    median: float
    low: float
    high: float
    turns: int

    @property
    def shows_equality(self) -> bool:
        return self.low <= 1 <= self.high and (self.high - self.low) / 2 <= MAX_HALF_WIDTH

    def verdict(self, within_bound: bool) -> Verdict:
        if within_bound or self.shows_equality:
            return Verdict.PASSED
        return Verdict.UNDECIDED if self.low <= 1 <= self.high else Verdict.FAILED

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} - {self.high:.3f})"


def median_ratio(ratios: Sequence[float]) -> MedianRatio:
    """Return the median and the narrowest interval between two order statistics that covers it with `CONFIDENCE`."""
    ordered = sorted(ratios)
    low = _rank(len(ordered))
    return MedianRatio(statistics.median(ordered), ordered[low], ordered[-1 - low], len(ordered))


def _rank(count: int) -> int:
    """Return how many of the smallest and of the largest values are outside of the interval."""
    outside, tail = 0, 0.5**count
    while tail <= (1 - CONFIDENCE) / 2 and outside < count // 2:
        outside += 1
        tail += math.comb(count, outside) * 0.5**count
    return max(outside - 1, 0)


@dataclass(frozen=True)
class Sample:
    """One measurement: one revision, one case, one turn."""

    rate: float
    """Jobs per second."""
    cpu: float
    """Microseconds of CPU per job, of all processes but the load generator."""


@dataclass(frozen=True)
class Throughput:
    """The turns of one case: pairs of (new, base)."""

    pairs: Sequence[tuple[Sample, Sample]]

    @property
    def rate(self) -> MedianRatio:
        return median_ratio([new.rate / base.rate for new, base in self.pairs])

    @property
    def cpu(self) -> MedianRatio:
        return median_ratio([new.cpu / base.cpu for new, base in self.pairs])

    def verdict(self, bounds: Bounds, *, last: bool = False) -> Verdict:
        """Return the verdict on rate and CPU together. `last`: no turn follows, so a rate that is still undecided
        counts as equal if the CPU per job is decided; an undecided CPU never passes.
        """
        rate, cpu = self.rate, self.cpu
        of_rate = rate.verdict(rate.median >= bounds.min_rate)
        of_cpu = cpu.verdict(cpu.median <= bounds.max_cpu)
        if Verdict.FAILED in (of_rate, of_cpu):
            return Verdict.FAILED
        if of_cpu is Verdict.UNDECIDED:
            return Verdict.FAILED if last else Verdict.UNDECIDED
        return Verdict.PASSED if last else of_rate


@dataclass(frozen=True)
class Lateness:
    """The turns of one case: pairs of (new, base) of the same percentile, in milliseconds."""

    pairs: Sequence[tuple[float, float]]
    max_factor: float
    max_more_ms: float
    """A percentile may grow by the factor or by this many milliseconds, whichever is more."""

    @property
    def new(self) -> float:
        return statistics.median(new for new, _ in self.pairs)

    @property
    def base(self) -> float:
        return statistics.median(base for _, base in self.pairs)

    @property
    def limit(self) -> float:
        return max(self.base * self.max_factor, self.base + self.max_more_ms)

    @property
    def verdict(self) -> Verdict:
        return Verdict.PASSED if self.new <= self.limit else Verdict.FAILED
