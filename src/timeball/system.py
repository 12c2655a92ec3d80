"""The real clock and the real dice: the only module that reads either. Everything else is handed them."""

from __future__ import annotations

import os
import random
import secrets
import struct
import time
from functools import cache
from typing import Final

from timeball.domain.instant import SECOND, Micros

RESERVE_WORDS: Final = 512
"""Random numbers of 64 bits that are fetched at once."""


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


class _SystemDice(random.SystemRandom):
    """The operating system's generator: one that has a state gives it away with 624 outputs, and every id to come with
    it. The 64 bits of an id come from a reserve, since a system call for each takes longer than all the rest of it."""

    def __init__(self) -> None:
        super().__init__()
        self._reserve: list[int] = []
        os.register_at_fork(after_in_child=self._reserve.clear)

    def getrandbits(self, k: int, /) -> int:
        if k != 64:
            return super().getrandbits(k)
        try:
            return self._reserve.pop()
        except IndexError:  # each thread that finds it empty fetches numbers
            number, *others = struct.unpack(f"{RESERVE_WORDS}Q", os.urandom(8 * RESERVE_WORDS))
            self._reserve += others
            return int(number)


@cache
def dice() -> random.Random:
    """For ids and jitter: no number can be told from those before. One for the whole process and all its threads: what
    it registers for forks stays for ever."""
    return _SystemDice()


def seeded_dice(seed: int) -> random.Random:
    """Dice that fall the same way every time."""
    return random.Random(seed)


def secret() -> str:
    """A fresh key: 256 bits that nobody can guess."""
    return f"tb_{secrets.token_urlsafe(32)}"
