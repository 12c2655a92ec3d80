"""What time it is at the server, without asking it every time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from timeball.domain.instant import Micros

SAMPLES: Final = 8
DRIFT: Final = 5_000
"""A node's steady clock is trusted to within one part in this many."""


class ServerClock:
    """A lower bound of the server's clock that never runs backwards.

    An answer that says `t` and arrived at `m` proves that the server's clock is past `t + (now - m)`. The best of the
    last few answers counts, less what the steady clock may have run too fast since. Which one is the best does not
    change as time goes by.

    An answer below what was proven before the question was asked comes from another clock: that of a replica which took
    over, or one that was set back. What is due is due by that clock from now on, so nothing older counts any more.
    """

    def __init__(self, monotonic: Callable[[], Micros]) -> None:
        self._monotonic = monotonic
        self._samples: deque[tuple[Micros, Micros]] = deque(maxlen=SAMPLES)
        self._best: tuple[Micros, Micros] | None = None
        self._answered: Micros = 0

    def sample(self, server_time: Micros, proven_before: Micros = 0) -> None:
        """`proven_before` is what this clock said when the server was asked."""
        if server_time < proven_before:
            self._samples.clear()
            self._answered = 0
        self._samples.append((server_time, self._monotonic()))
        self._best = max(self._samples, key=_earliest_possible_time)

    def __call__(self) -> Micros:
        if self._best is not None:
            server_time, arrived = self._best
            age = self._monotonic() - arrived
            self._answered = max(self._answered, server_time + age - age // DRIFT)
        return self._answered


def _earliest_possible_time(sample: tuple[Micros, Micros]) -> Micros:
    """The larger it is, the more a sample proves: the server's time when it answered, less what clocks drift."""
    server_time, arrived = sample
    return server_time * DRIFT - arrived * (DRIFT - 1)
