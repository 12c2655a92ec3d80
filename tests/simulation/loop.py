"""An asyncio event loop on virtual time: if nothing is ready, it jumps to the next timer.

Every callback belongs to the node in whose context it runs. The callbacks of a dead node are dropped, those of a paused
node are kept until it continues. So a whole process can die or freeze between any two steps.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeVar, TypeVarTuple, Unpack

from timeball.slices import TurnQueue

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")
Micros = int


class Fate:
    """Whether the callbacks of a node run, wait, or are dropped."""

    __slots__ = ("backlog", "dead", "paused")

    def __init__(self) -> None:
        self.dead = False
        self.paused = False
        self.backlog: list[Handle] = []


FATE: ContextVar[Fate | None] = ContextVar("fate", default=None)


class Handle:
    """Replaces `asyncio.Handle` and `TimerHandle` in this loop."""

    __slots__ = ("_cancelled", "_when", "args", "callback", "context")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context, when: float) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self._when = when
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled

    def when(self) -> float:
        return self._when


class Deadlock(Exception):
    """Raised if nothing is ready and no timer is set: every task would wait forever."""


class Unexpected(Exception):
    """Raised if a callback or an unobserved task failed: a bug in the code under test or in the simulator."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """Single-threaded. Every step takes a little virtual time, so that no code can loop without time passing."""

    def __init__(self, rng: Random, *, step: Micros = 5, coarse: bool = False) -> None:
        self.now: Micros = 0
        self.steps = 0
        self.tasks: list[asyncio.Task[Any]] = []
        """All tasks that were ever created: a dropped task must not be finalised during the simulation."""
        self.failures: list[str] = []
        self._rng = rng
        self._step = step
        self._coarse = coarse
        """True: round delays to milliseconds as uvloop does, which may fire half a millisecond early."""
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[Micros, int, Handle]] = []
        self._count = 0

    # --- running -----------------------------------------------------------------------------------------------

    def run_until(self, over: Callable[[], bool], most_steps: int = 600_000) -> None:
        """Run until `over` returns True; it is called after every step."""
        ready, timers = self._ready, self._timers
        asyncio._set_running_loop(self)
        try:
            while not over():
                if not ready:
                    if not timers:
                        raise Deadlock("nothing is ready and no timer is set")
                    if timers[0][0] > self.now:
                        self.now = timers[0][0]
                while timers and timers[0][0] <= self.now:
                    handle = heappop(timers)[2]
                    if not handle._cancelled:
                        ready.append(handle)
                if ready:
                    self._run(ready.popleft())
                if self.steps > most_steps:
                    raise Deadlock(f"no end after {most_steps} steps: some code loops")
        finally:
            asyncio._set_running_loop(None)

    def _run(self, handle: Handle) -> None:
        if handle._cancelled:
            return
        context = handle.context
        fate = context.get(FATE)
        if fate is not None:
            if fate.dead:
                return
            if fate.paused:
                fate.backlog.append(handle)
                return
        self.steps += 1
        self.now += self._step
        try:
            context.run(handle.callback, *handle.args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except Exception as error:
            self.failures.append(f"callback {handle.callback!r}: {error!r}")

    def resume(self, fate: Fate) -> None:
        """Let a paused node continue with all callbacks that it missed, in order."""
        fate.paused = False
        self._ready.extend(fate.backlog)
        fate.backlog.clear()

    # --- what asyncio asks of a loop ---------------------------------------------------------------------------

    def time(self) -> float:
        return self.now / 1e6

    def call_soon(
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> Any:
        if context is None:
            # All nodes share one loop, and so its queue of turns: it must not stand still with the node that began it.
            is_shared = isinstance(getattr(callback, "__self__", None), TurnQueue)
            context = Context() if is_shared else copy_context()
        handle = Handle(callback, args, context, 0.0)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> Any:
        if self._coarse:
            delay = round(delay, 3) or 0.0001
        return self.call_at(self.now / 1e6 + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> Any:
        handle = Handle(callback, args, copy_context() if context is None else context, when)
        self._count += 1
        heappush(self._timers, (max(self.now, int(when * 1e6)), self._count, handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        self.tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def close(self) -> None:
        """Finalise tasks that never ended, without reporting: effects of their `finally` clauses do not count."""
        self._ready.clear()
        self._timers.clear()
        for task in self.tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(Exception):
                    task.get_coro().close()
            elif not task.cancelled():
                task.exception()
        self.tasks.clear()

    def unobserved(self) -> list[str]:
        """Return the errors of tasks that failed and that no other task awaited."""
        return [
            f"{task.get_name()}: {error!r}"
            for task in self.tasks
            if task.done()
            and getattr(task, "_log_traceback", False)
            and not task.cancelled()
            and (error := task.exception()) is not None
        ]
