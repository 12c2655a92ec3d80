"""Where attempts are executed: tasks that take one attempt after the other.

An attempt that never has to wait costs no task and no turn of the event loop: the lane it runs in goes straight on to
the next one. When it does wait, another lane has already been called for the rest. Compared with stepping coroutines
by hand this keeps `asyncio.current_task()` true for the job's code, on which time-outs and HTTP clients rely.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Final

from timeball.domain.instant import MILLISECOND, Micros
from timeball.domain.run.lifecycle import Failed, Failure, Outcome
from timeball.ports.clock import Clock
from timeball.ports.executor import Executor, OutOfResources
from timeball.worker.attempt import HeldAttempt

TURN: Final = 5 * MILLISECOND
"""How long a lane goes on from one attempt to the next before it lets the event loop turn, and another lane go on.
Long enough for all short attempts of a poll: so their slots are offered, and their outcomes told, at once."""
KEPT: Final = 64
"""Idle lanes that are kept for later."""


class Runner:
    """Executes attempts in the order they are put, as many at a time as are put."""

    def __init__(
        self,
        begin: Callable[[HeldAttempt, Micros], Executor | None],
        finish: Callable[[HeldAttempt, Outcome], None],
        short: Callable[[HeldAttempt, OutOfResources], Outcome],
        clock: Clock,
    ) -> None:
        """`begin` is told the time and says who executes the attempt, or None if it is not to start any more; `finish`
        notes when it ended; `short` says what becomes of an attempt for which the machine lacks something."""
        self._clock = clock
        self._begin = begin
        self._finish = finish
        self._short = short
        self._ready: deque[HeldAttempt] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._context: Context | None = None
        """What a lane starts with; no job has touched it."""
        self._called = False
        """Whether a lane is on its way that will look at what is ready."""

    @property
    def pressed(self) -> bool:
        """Whether there is more to begin than one turn of the loop had time for."""
        return bool(self._ready)

    def put(self, attempt: HeldAttempt) -> None:
        self._ready.append(attempt)
        if not self._called:
            self._call()

    def close(self) -> None:
        """Interrupt everything. Nothing starts any more."""
        self._ready.clear()
        for task in self._tasks:
            task.cancel()

    def _call(self) -> None:
        self._called = True
        while self._idle:
            turn = self._idle.pop()
            if not turn.done():
                turn.set_result(None)
                return
        if self._context is None:
            self._context = copy_context()
        task = asyncio.get_running_loop().create_task(self._lane(), name="timeball lane", context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _lane(self) -> None:
        loop = asyncio.get_running_loop()
        me = asyncio.current_task()
        untouched = copy_context()
        ready = self._ready
        while True:
            self._called = False
            now = self._clock.monotonic()
            until = now + TURN
            while ready:
                attempt = ready.popleft()
                executor = self._begin(attempt, now)
                if executor is None:
                    continue
                if ready and not self._called:
                    self._call()
                attempt.lane = me
                try:
                    outcome = await executor.execute(attempt)
                except asyncio.CancelledError:
                    attempt.lane = None
                    if me is not None and me.cancelling() and not attempt.cancelled:
                        raise
                    outcome = _INTERRUPTED
                except OutOfResources as error:
                    outcome = self._short(attempt, error)
                except Exception as error:
                    outcome = Failed(Failure(kind="worker", message=_described(error)))
                attempt.lane = None
                self._finish(attempt, outcome)
                if attempt.cancelled or copy_context() != untouched:
                    # A lane that was interrupted, or whose context variables a job changed, serves nobody else.
                    if ready and not self._called:
                        self._call()
                    return
                now = attempt.ended_at  # also when the next one begins: it was ready before
                if now >= until:
                    break
            if ready and not self._called:
                self._call()
            if len(self._idle) >= KEPT:
                return
            turn = loop.create_future()
            self._idle.append(turn)
            await turn


def _described(error: Exception) -> str:
    """Never raises: a lane that died here would keep its slot for ever."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


_INTERRUPTED: Final = Failed(
    Failure(
        kind="exception",
        message="CancelledError: the job cancelled itself",
        exceptions=("CancelledError", "asyncio.exceptions.CancelledError"),
    )
)
