"""Time and randomness as protocols, so that the simulator can replace both."""

from __future__ import annotations

from typing import Protocol

from timeball.domain.instant import Micros


class Clock(Protocol):
    """The monotonic clock of one process. Use it for timeouts and delays. Whether a run is due, or a lease has lapsed,
    is decided on the store's clock only.
    """

    def monotonic(self) -> Micros:
        """Return microseconds on a clock that never jumps. The value has no meaning on another machine."""
        ...

    async def sleep(self, length: Micros) -> None:
        """Sleep for at least `length` microseconds, measured by `monotonic`."""
        ...


class Rng(Protocol):
    """A source of random numbers; `random.Random` implements it."""

    def random(self) -> float: ...
    def getrandbits(self, k: int, /) -> int: ...
