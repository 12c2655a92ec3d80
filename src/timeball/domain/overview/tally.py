"""Statistics of the runs that ended in an interval of time: counts by status, and a histogram of lateness. The
statistics of several intervals can be added up.

Bucket 0 of the histogram has everything below 1 ms. The upper bound of each other bucket is 19 % above its lower bound:
the bounds double every four buckets. So a percentile above 1 ms is off by about 9 % at most. The runs of a minute on a
busy server fill about ten buckets, and the intervals of a day are added up within milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from timeball.domain.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Micros
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.status import RAN, SUCCESSFUL, Status

FINE_WIDTH: Final = 10 * SECOND
COARSE_WIDTH: Final = MINUTE
WIDTHS: Final = (FINE_WIDTH, COARSE_WIDTH)
"""The lengths of the intervals for which the store keeps statistics, in microseconds."""
WIDTH_LIFE: Final = {FINE_WIDTH: 2 * HOUR, COARSE_WIDTH: DAY + HOUR}
"""Microseconds for which the store keeps the statistics of an interval, by the length of the interval."""
MISSED: Final = Verdict.MISSED.value
"""The key in `RunTally.ends` for fires with the verdict `missed`. Their status is `skipped`."""
BUCKETS_PER_OCTAVE: Final = 4
MAX_BUCKET: Final = 1 + BUCKETS_PER_OCTAVE * 37
"""The number of the last bucket, for a lateness of more than four years."""


class RunTally(Struct, omit_defaults=True):
    ends: dict[str, int] = {}
    """Number of runs by terminal status. A fire that never became a run counts as `skipped` or `missed`."""
    late: dict[int, int] = {}
    """Number of ended runs that had started, without those of backfills, by the bucket of their lateness."""

    def count(self, what: str, times: int = 1) -> None:
        self.ends[what] = self.ends.get(what, 0) + times

    def count_late(self, bucket: int, times: int = 1) -> None:
        self.late[bucket] = self.late.get(bucket, 0) + times

    def add(self, other: RunTally) -> None:
        ends, late = self.ends, self.late
        for what, times in other.ends.items():
            ends[what] = ends.get(what, 0) + times
        for bucket, times in other.late.items():
            late[bucket] = late.get(bucket, 0) + times

    @property
    def finished(self) -> int:
        """Number of runs that ended. Skipped runs, and fires that never became a run, are not counted."""
        return sum(self.ends.values()) - self.ends.get(Status.SKIPPED, 0) - self.ends.get(MISSED, 0)

    @property
    def success_rate(self) -> float | None:
        """The share of successes among the runs that ended as succeeded, failed or dead; None if there are no such
        runs."""
        ran = sum(self.ends.get(status, 0) for status in RAN)
        return sum(self.ends.get(status, 0) for status in SUCCESSFUL) / ran if ran else None


RunTallies = dict[tuple[str, Micros], RunTally]
"""Tallies by tenant and by the first instant of an interval of length `FINE_WIDTH`."""


def tally_at(tallies: RunTallies, tenant: str, finished_at: Micros) -> RunTally:
    """Return the tally in which a run that ended at this instant is counted."""
    key = (tenant, finished_at // FINE_WIDTH * FINE_WIDTH)
    found = tallies.get(key)
    if found is None:
        found = tallies[key] = RunTally()
    return found


def ended_as(status: str, verdict: str) -> str:
    """Return the key in `RunTally.ends` under which a history row with this status and verdict is counted."""
    return MISSED if verdict == MISSED else status


def lateness(origin: str, due: Micros, started_at: Micros | None) -> Micros | None:
    """Return how late a run started; None if it did not start, or if a backfill created it."""
    return None if started_at is None or origin == Origin.BACKFILL else max(0, started_at - due)


def bucket_of(late: Micros) -> int:
    if late < MILLISECOND:
        return 0
    return min(MAX_BUCKET, 1 + int(math.log2(late / MILLISECOND) * BUCKETS_PER_OCTAVE))


def milliseconds(bucket: int) -> float:
    """Return the lateness that represents a bucket, in milliseconds: the geometric mean of its bounds, and 0.5
    for bucket 0."""
    return 0.5 if bucket == 0 else round(2 ** ((bucket - 0.5) / BUCKETS_PER_OCTAVE), 2)


_MILLISECONDS: Final = tuple(map(milliseconds, range(MAX_BUCKET + 1)))


def percentiles(late: Mapping[int, int], *shares: float) -> list[float | None]:
    """Return the lateness in milliseconds that each of the given shares of runs did not exceed. The shares are in
    ascending order. None if no run started."""
    if not late:
        return [None] * len(shares)
    runs = sum(late.values())
    found: list[float | None] = []
    ranks = iter([math.ceil(runs * share) for share in shares])
    rank, seen = next(ranks), 0
    for bucket in sorted(late):
        seen += late[bucket]
        while seen >= rank:
            found.append(_MILLISECONDS[min(bucket, MAX_BUCKET)])
            rank = next(ranks, runs + 1)
    return found
