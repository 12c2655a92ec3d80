"""Work on the event loop in slices of a few milliseconds, with a turn for everything else between two of them (I28).

A thread is no remedy for long work: a call into C holds the interpreter's lock until it returns. So what is long is cut
into pieces, and after the piece with which a slice is over the event loop has a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import Final, TypeVar

from timeball.domain.instant import MILLISECOND, Micros
from timeball.ports.clock import Clock

Item = TypeVar("Item")
Result = TypeVar("Result")

SLICE_LENGTH: Final[Micros] = 5 * MILLISECOND

FEW: Final = 32
"""Pieces of microseconds between two looks at the clock."""

Steps = Generator[None, None, Result]
"""Work that stops between its pieces. Its callers decide whether anything else has a turn there."""


class Slice:
    """The slice that the calling task is in."""

    __slots__ = ("_clock", "_until")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = clock.monotonic() + SLICE_LENGTH

    @property
    def is_over(self) -> bool:
        return self._clock.monotonic() >= self._until

    async def next(self) -> None:
        """Give the event loop a turn, and begin the next slice."""
        await asyncio.sleep(0)
        self._until = self._clock.monotonic() + SLICE_LENGTH


async def in_slices(steps: Steps[Result], clock: Clock) -> Result:
    """Do work that stops between its pieces."""
    current = Slice(clock)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        if current.is_over:
            await current.next()


def at_once(steps: Steps[Result]) -> Result:
    """Do work that stops between its pieces without a turn for anything else."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


async def let_go(items: list[Item], clock: Clock) -> None:
    """Free the items of a list that nothing else holds: to free millions of objects takes as long as to make them."""
    current = Slice(clock)
    while items:
        items.pop()
        if current.is_over:
            await current.next()


async def map_in_slices(
    function: Callable[[Item], Result], items: Sequence[Item], clock: Clock, *, each: bool
) -> list[Result]:
    """`[function(item) for item in items]`. Each of them may take long, or many of them take microseconds."""
    results: list[Result] = []
    current = Slice(clock)
    step = 1 if each else FEW
    for start in range(0, len(items), step):
        results += [function(item) for item in items[start : start + step]]
        if current.is_over:
            await current.next()
    return results
