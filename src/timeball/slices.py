"""Divides long work on the event loop into slices of a few milliseconds. Between two slices the event loop makes a
turn: it runs each other task that is ready once (promise I28 in `docs/design/promises.md`).

A thread does not help with long work: a call into C holds the interpreter lock until it returns. So long work is
divided into steps, and after the step with which the time of a slice is used up, the event loop makes a turn.

In each turn of the event loop only one task gets a slice, however many requests have long work. So a turn does not get
longer with their number, and jobs start in time.

Work in pure Python that cannot be divided runs in one thread that all such work shares (`beside`). So the event loop
shares the interpreter lock with one thread, not with one per request.
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

SLICE_LENGTH: Final[Micros] = 5 * MILLISECOND
"""The length of a slice while at most `MAX_LONG_SLICES` tasks have long work. A batch of 1,000 jobs takes about 25 ms.
With 5 slices instead of 25, claims and settlements of a worker in the same process interrupt the batch less often, and
each of them handles more runs."""
SHORT_SLICE_LENGTH: Final[Micros] = 1 * MILLISECOND
"""The length of a slice while more than `MAX_LONG_SLICES` tasks have long work. The dispatcher needs about ten turns of
the event loop for one batch of runs: with 5 ms, jobs started up to 400 ms late when an attack of the load test (`make
soak`) began, with 1 ms up to 160 ms."""
MAX_LONG_SLICES: Final = 2

SHORT_LOCK_SECONDS: Final = 0.0002
"""Maximum number of seconds for which the thread of `beside` keeps the interpreter lock while the event loop waits for
it.
"""

FEW: Final = 32
"""Number of steps, of a few microseconds each, that are done between two readings of the clock."""

Steps = Generator[None, None, Result]
"""Work that yields between its steps. The caller decides whether other tasks get a turn then."""


class TurnQueue:
    """Tasks that wait for turns of the event loop. One of them continues per turn, in the order of arrival."""

    __slots__ = ("_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    async def turn(self) -> None:
        turn = self._loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._next)
        await turn

    def _next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # the future is done if its task was cancelled
                turn.set_result(None)
                break
        if self._waiting:
            self._loop.call_soon(self._next)


_slices: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, TurnQueue]] = WeakKeyDictionary()


async def wait_for_slice() -> None:
    """Wait for the next slice. All other tasks get a turn of the event loop; of the tasks that wait here, one continues
    per turn.
    """
    loop = asyncio.get_running_loop()
    if (queue := _slices.get(loop)) is None:
        queue = _slices[loop] = TurnQueue(loop)
    await queue.turn()


class Slice:
    """The current slice of the calling task."""

    __slots__ = ("_clock", "_until")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = clock.monotonic() + _slice_length()

    @property
    def is_over(self) -> bool:
        return self._clock.monotonic() >= self._until

    async def next(self) -> None:
        """Give the event loop a turn, and begin the next slice."""
        await wait_for_slice()
        self._until = self._clock.monotonic() + _slice_length()


def _slice_length() -> Micros:
    """Return the length of the slice that begins now in the calling task."""
    queue = _slices.get(asyncio.get_running_loop())
    is_full = queue is not None and len(queue) >= MAX_LONG_SLICES
    return SHORT_SLICE_LENGTH if is_full else SLICE_LENGTH


async def in_slices(steps: Steps[Result], clock: Clock) -> Result:
    """Run a computation in steps, and yield to the event loop after each slice. Return its result."""
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
    """Call a long function in the one thread that all such calls share. The calls run one after the other."""
    return await asyncio.get_running_loop().run_in_executor(
        _thread(), partial(_with_short_switch_interval, function, *args, **kwargs)
    )


def _with_short_switch_interval(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Call a function with a short switch interval of the interpreter lock. The thread of the event loop releases the
    lock with each system call, and waits up to one interval to get it back: with the usual 5 ms, a turn of the event
    loop that answers 20 requests takes 100 ms.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SHORT_LOCK_SECONDS)
    try:
        return function(*args, **kwargs)
    finally:
        sys.setswitchinterval(usual)


async def first_found(steps: Iterator[Item | None]) -> Item | None:
    """Return the first result of a computation that yields None after each slice; None if it ends without a result."""
    for found in steps:
        if found is not None:
            return found
        await wait_for_slice()
    return None


def at_once(steps: Steps[Result]) -> Result:
    """Run all steps of a computation one after the other, without yielding to the event loop. Return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


async def let_go(items: list[Item], clock: Clock) -> None:
    """Remove the items of a list in slices, so that they are freed: freeing millions of objects takes as long as
    creating them.
    """
    current = Slice(clock)
    while items:
        items.pop()
        if current.is_over:
            await current.next()


async def map_in_slices(
    function: Callable[[Sequence[Item]], list[Result]], items: Sequence[Item], clock: Clock, *, together: int = FEW
) -> list[Result]:
    """Return `function(items)`, computed with `together` items at a time. The clock is read after each call. The
    function takes a sequence, because one call per item would take longer than the work on the items of an ordinary
    batch.
    """
    if len(items) <= together:
        return function(items)
    results: list[Result] = []
    current = Slice(clock)
    for start in range(0, len(items), together):
        results += function(items[start : start + together])
        if current.is_over:
            await current.next()
    return results
