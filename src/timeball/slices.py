"""Work on the event loop in slices of a millisecond, with a turn for everything else between two of them (I28).

A thread is no remedy for long work: a call into C holds the interpreter's lock until it returns. So what is long is cut
into pieces, and after the piece with which a slice is over the event loop has a turn. However many requests have long
work, one of them has a slice per turn: a turn does not get longer with their number, and jobs start in time.

Work in pure Python that cannot be cut goes to one thread for all of it (`beside`): the event loop shares the
interpreter's lock with that thread, and not with as many threads as there are requests.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from timeball.domain.instant import MILLISECOND, Micros
from timeball.ports.clock import Clock

Item = TypeVar("Item")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

SLICE_LENGTH: Final[Micros] = 1 * MILLISECOND
"""The dispatcher needs about ten turns of the event loop for one batch of runs: with slices of 5 ms beside it, jobs
started up to 400 ms late when an attack of `make soak` began, with 1 ms 160 ms. Batches are read as fast as before."""

SHORT_LOCK_SECONDS: Final = 0.0002
"""How long the thread beside the event loop keeps the interpreter's lock while the event loop wants it."""

FEW: Final = 32
"""Pieces of microseconds between two looks at the clock."""

Steps = Generator[None, None, Result]
"""Work that stops between its pieces. Its callers decide whether anything else has a turn there."""


class TurnQueue:
    """Tasks that wait for turns of the event loop: one of them per turn, in the order of asking."""

    __slots__ = ("_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        turn = self._loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._next)
        await turn

    def _next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # its task was not cancelled
                turn.set_result(None)
                break
        if self._waiting:
            self._loop.call_soon(self._next)


_slices: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, TurnQueue]] = WeakKeyDictionary()


async def give_way() -> None:
    """Wait for the next slice: everything else has a turn of the event loop, and then one task per turn."""
    loop = asyncio.get_running_loop()
    if (queue := _slices.get(loop)) is None:
        queue = _slices[loop] = TurnQueue(loop)
    await queue.turn()


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
        await give_way()
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


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="beside")


async def beside(function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """Call a function that takes long in the thread for such work, one call after the other."""
    return await asyncio.get_running_loop().run_in_executor(_thread(), partial(_politely, function, *args, **kwargs))


def _politely(function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """Call a function with short turns of the interpreter's lock. The event loop's thread gives the lock away with each
    system call, and has to wait for one such turn to get it back: with the usual 5 ms, a turn of the event loop that
    answers 20 requests takes 100 ms."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SHORT_LOCK_SECONDS)
    try:
        return function(*args, **kwargs)
    finally:
        sys.setswitchinterval(usual)


async def first_found(steps: Iterator[Item | None]) -> Item | None:
    """The first result of a computation that yields None after each slice; None: it ended without one."""
    for found in steps:
        if found is not None:
            return found
        await give_way()
    return None


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
    function: Callable[[Sequence[Item]], list[Result]], items: Sequence[Item], clock: Clock, *, together: int = FEW
) -> list[Result]:
    """`function(items)`, called with `together` items at a time; the clock is read after each call. The function takes
    a sequence, because one call per item would cost an ordinary batch more than the items themselves."""
    if len(items) <= together:
        return function(items)
    results: list[Result] = []
    current = Slice(clock)
    for start in range(0, len(items), together):
        results += function(items[start : start + together])
        if current.is_over:
            await current.next()
    return results
