"""The real clock and the real dice: the only module that reads either. Everything else is handed them."""

from __future__ import annotations

import random
import secrets
import time

from timeball.domain.instant import SECOND, Micros


def wall() -> Micros:
    """The node's wall clock."""
    return time.time_ns() // 1_000


def monotonic() -> Micros:
    """The node's steady clock, rounded down."""
    return time.monotonic_ns() // 1_000


class SystemClock:
    """`ports.clock.Clock` on the running event loop."""

    def monotonic(self) -> Micros:
        return monotonic()

    async def sleep(self, length: Micros) -> None:
        import asyncio  # here: commands that only ask for the time start 25 ms sooner

        until = monotonic() + length
        # An event loop's timer may fire up to its resolution early; whoever sleeps was promised the whole length.
        while (left := until - monotonic()) > 0:
            await asyncio.sleep(left / SECOND)


def dice() -> random.Random:
    """For ids and jitter. From the operating system: a generator of its own gives its state away with 624 outputs, and
    with it every id to come. An id costs 0.8 µs more this way."""
    return random.SystemRandom()


def seeded_dice(seed: int) -> random.Random:
    """Dice that fall the same way every time."""
    return random.Random(seed)


def secret() -> str:
    """A fresh key: 256 bits that nobody can guess."""
    return f"tb_{secrets.token_urlsafe(32)}"
