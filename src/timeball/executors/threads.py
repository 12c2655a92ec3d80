"""Threads for functions that block: up to a maximum number, and none of them prevents the process from exiting."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from timeball.executors.shortage import beginning

T = TypeVar("T")

_Work = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


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
        self._work: SimpleQueue[_Work | None] = SimpleQueue()

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call in a thread. The call must not raise. A cancellation does not end it: the thread continues. Raises
        `OutOfResources` if no thread can be started.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        if self._busy >= self._threads and self._threads < self._size:
            with beginning():
                threading.Thread(target=self._serve, name=f"timeball-job-{self._threads + 1}", daemon=True).start()
            self._threads += 1
        self._busy += 1
        self._work.put((call, loop, result))
        return await result

    def close(self) -> None:
        """End idle threads now, and busy ones after their call."""
        for _ in range(self._threads):
            self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            call, loop, result = work
            value = call()
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._deliver, result, value)

    def _deliver(self, result: asyncio.Future[Any], value: Any) -> None:
        self._busy -= 1
        if not result.done():
            result.set_result(value)
