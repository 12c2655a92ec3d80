"""Time and patience, injected everywhere so that the simulator can own them."""

from __future__ import annotations

from typing import Protocol

from timeball.domain.instant import Micros


class Clock(Protocol):
    """A node's own clock. Good for time-outs; never for a decision about what is due or whose lease lapsed."""

    def monotonic(self) -> Micros:
        """Microseconds on a clock that never jumps and means nothing on another machine."""
        ...

    async def sleep(self, length: Micros) -> None:
        """At least this long, by `monotonic`."""
        ...


class Dice(Protocol):
    """Where randomness comes from; `random.Random` is one."""

    def random(self) -> float: ...
    def getrandbits(self, k: int, /) -> int: ...
