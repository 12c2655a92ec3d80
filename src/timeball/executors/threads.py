"""Threads for functions that block: up to a maximum number, and none of them prevents the process from exiting.

Calls go to the threads in batches, and their results come back in batches. All threads take calls from one deque, so a
call never waits behind a long one while another thread is idle.

To wake a thread costs more than a short call, and two threads that execute Python code at the same time take turns at
the interpreter, which costs more than the calls themselves. So while calls are short, one thread is woken for a batch,
and the event loop wakes more threads if calls still wait a millisecond later. It then also looks for results by itself:
a thread reports a result only if no other call is waiting. While calls are long, each call that waits wakes a thread at
once, and each result is reported at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, TypeVar

from timeball.executors.shortage import beginning

T = TypeVar("T")

SHORT_CALL: Final = 0.000_2
"""A call that takes less than this many seconds is short. In that time, two threads take turns at the interpreter a few
times."""
MEMORY: Final = 16
"""Bound of the counter that each short call increases and each long call decreases."""
LOOK_AGAIN: Final = 0.001
"""Seconds after which the event loop looks again for calls that wait and for results, while calls are short."""


async def in_own_thread(call: Callable[[], T]) -> T:
    """Run a call of the worker itself in a thread of its own. The threads of the event loop are shared with the jobs,
    which may occupy all of them. A cancellation does not end the call.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def deliver(settle: Callable[[Any], None], with_what: Any) -> None:
        if not result.done():
            settle(with_what)

    def run() -> None:
        settle: Callable[[Any], None] = result.set_result
        outcome: Any
        try:
            outcome = call()
        except BaseException as error:
            settle, outcome = result.set_exception, error
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(deliver, settle, outcome)

    threading.Thread(target=run, name="timeball-aside", daemon=True).start()
    return await result


class Threads:
    """Runs calls in daemon threads. The standard thread pool would wait at exit for a job that never ends."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._threads = 0
        self._busy = 0
        """Number of calls whose results were not delivered yet."""
        self._ready: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._ended: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._idle: deque[threading.Lock] = deque()
        """The locks of idle threads, each of which waits for its own. The last one is woken first."""
        self._short_calls = 0
        """Recent calls that were short, minus those that were long. An average would not do: a short call seems long if
        another thread gets the interpreter in its middle. The threads change the number without a lock."""
        self._looks = False
        """True while the event loop looks for results by itself. A thread that reads False reports its result."""
        self._reported = False
        """True if the event loop was asked to deliver results, and has not begun to."""
        self._waking = False
        """True if a callback is scheduled that wakes threads."""
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, call: Callable[[], T], deliver: Callable[[T], None]) -> None:
        """Run a call in a thread, then pass its result to `deliver` in the event loop. The call must not raise. Raises
        `OutOfResources` if no thread can be started; the call is then not made.
        """
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        if self._busy >= self._threads and self._threads < self._size:
            with beginning():
                threading.Thread(target=self._serve, name=f"timeball-job-{self._threads + 1}", daemon=True).start()
            self._threads += 1
        self._busy += 1
        self._ready.append((call, deliver))
        if not self._waking:
            self._waking = True
            self._loop.call_soon(self._wake)

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call in a thread and return its result. A cancellation does not end the call."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def deliver(value: T) -> None:
            if not result.done():
                result.set_result(value)

        self.start(call, deliver)
        return await result

    def close(self) -> None:
        """End idle threads now, and busy ones after their call."""
        self._closed = True
        self._wake_idle(self._threads)

    # --- in the event loop ------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Wake threads for the calls that were added in this turn of the event loop."""
        self._waking = False
        if self._short_calls <= 0:
            self._wake_idle(len(self._ready))
        else:
            self._wake_idle(1)
            self._look_later(1)

    def _wake_idle(self, count: int) -> None:
        try:
            for _ in range(count):
                self._idle.pop().release()
        except IndexError:  # all threads are awake
            return

    def _look_later(self, woken: int) -> None:
        if not self._looks and self._loop is not None:
            self._looks = True
            self._loop.call_later(LOOK_AGAIN, self._look, woken)

    def _look(self, woken: int) -> None:
        """Deliver results, and wake twice as many threads as the last time if calls still wait."""
        self._looks = False  # set before the results are read, so that a thread that ends a call later reports it
        anything = bool(self._ended)
        self._deliver()
        more = min(2 * woken, self._size)
        if self._ready:
            self._wake_idle(more)
        if anything or self._ready:
            self._look_later(more)

    def _deliver(self) -> None:
        self._reported = False  # set before the results are read, for the same reason
        ended = self._ended
        try:
            while ended:
                deliver, value = ended.popleft()
                self._busy -= 1
                deliver(value)
        finally:
            if ended:  # `deliver` raised an error
                self._report()

    # --- in the threads ---------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        wakeup = threading.Lock()
        wakeup.acquire()
        ready, ended, idle = self._ready, self._ended, self._idle
        while True:
            began = perf_counter()
            while True:
                try:
                    call, deliver = ready.popleft()
                except IndexError:
                    break
                ended.append((deliver, call()))
                # As a local variable, the result of a call would live as long as the thread waits for the next one.
                del call, deliver
                now = perf_counter()
                if now - began < SHORT_CALL:
                    self._short_calls = min(self._short_calls + 1, MEMORY)
                else:
                    self._short_calls = max(self._short_calls - 1, -MEMORY)
                began = now
                if not (ready and self._looks):
                    self._report()
            if self._closed:
                return
            idle.append(wakeup)
            if ready or self._closed:  # a call was added later, and its wakeup may have found no idle thread
                try:
                    idle.remove(wakeup)
                    continue
                except ValueError:  # this thread was woken for it
                    pass
            wakeup.acquire()

    def _report(self) -> None:
        """Ask the event loop to deliver the results, unless it was asked already."""
        loop = self._loop
        if not self._reported and loop is not None:
            self._reported = True
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(self._deliver)
