"""The real clocks and the real source of random numbers. Other modules get them from here, mostly as parameters; only
the code around job processes (`executors/guard`, `executors/sandbox`) calls the module `time` itself."""

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
"""Number of random 64-bit numbers that one system call fetches."""


def wall() -> Micros:
    """Return the wall clock of this machine, in microseconds since 1970."""
    return time.time_ns() // 1_000


def monotonic() -> Micros:
    """Return the monotonic clock of this machine in microseconds, rounded down."""
    return time.monotonic_ns() // 1_000


class SystemClock:
    """Implements `ports.clock.Clock` on the running event loop."""

    monotonic = staticmethod(monotonic)

    async def sleep(self, length: Micros) -> None:
        import asyncio  # imported here, so that commands that only read the time start 25 ms earlier

        until = monotonic() + length
        # A timer of the event loop may fire early by up to its resolution; this function never returns early.
        while (left := until - monotonic()) > 0:
            await asyncio.sleep(left / SECOND)


class _SystemRng(random.SystemRandom):
    """The random numbers of the operating system. Ids do not come from Python's own generator, because an observer of
    624 of its numbers can compute all later ones. The 64 bits of an id come from a reserve, because a system call for
    each id would take longer than the other steps of generating it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._reserve: list[int] = []
        os.register_at_fork(after_in_child=self._reserve.clear)

    def getrandbits(self, k: int, /) -> int:
        if k != 64:
            return super().getrandbits(k)
        try:
            return self._reserve.pop()
        except IndexError:  # each thread that finds the reserve empty fetches new numbers
            number, *others = struct.unpack(f"{RESERVE_WORDS}Q", os.urandom(8 * RESERVE_WORDS))
            self._reserve += others
            return int(number)


@cache
def rng() -> random.Random:
    """Return the random numbers for ids and jitter; no number can be predicted from earlier ones. There is one instance
    for the whole process and all its threads, because the function that it registers for forks is never removed.
    """
    return _SystemRng()


def seeded_rng(seed: int) -> random.Random:
    """Return random numbers that are the same for every call with this seed."""
    return random.Random(seed)


def secret() -> str:
    """Return a new API key with 256 random bits."""
    return f"tb_{secrets.token_urlsafe(32)}"
