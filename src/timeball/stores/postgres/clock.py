"""An estimate of the clock of the PostgreSQL server, without a query for each reading."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from timeball.domain.instant import Micros

SAMPLES: Final = 8
DRIFT: Final = 5_000
"""The monotonic clock of a machine gains or loses at most one part in this many."""


class ServerClock:
    """A lower bound of the clock of the PostgreSQL server. It never runs backwards.

    If an answer with the server's time `t` arrived at `m` by the monotonic clock, then the server's clock has passed `t
    + (now - m)`. From that bound, the time that the monotonic clock may have gained since `m` is subtracted. Of the
    last 8 answers, the one with the largest bound is used. All bounds grow at the same rate, so that answer is chosen
    once, when a new one arrives.

    If an answer is below the bound that was valid when the server was asked, the answer comes from another clock: a
    replica took over, or the clock was set back. That clock decides from then on what is due, so older answers are
    dropped.
    """

    def __init__(self, monotonic: Callable[[], Micros]) -> None:
        self._monotonic = monotonic
        self._samples: deque[tuple[Micros, Micros]] = deque(maxlen=SAMPLES)
        self._best: tuple[Micros, Micros] | None = None
        self._answered: Micros = 0

    def sample(self, server_time: Micros, proven_before: Micros = 0) -> None:
        """Add an answer of the server. `proven_before` is the value of this clock when the server was asked."""
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
    """Return the value by which answers are compared: the bound that an answer gives for the instant 0 of the monotonic
    clock, times `DRIFT`. The answer with the largest value gives the largest bound at every instant."""
    server_time, arrived = sample
    return server_time * DRIFT - arrived * (DRIFT - 1)
