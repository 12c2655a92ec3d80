"""Executes attempts in lanes. A lane is an asyncio task that executes one attempt after the other.

An attempt in the background (in a thread, or an HTTP call) needs no lane: the lane that begins it continues at once. An
attempt that never awaits costs no task and no turn of the event loop either: its lane continues with the next attempt
at once. When an attempt does await, another lane executes the attempts behind it. The alternative, to step the
coroutines of jobs without a task, would give the code of a job a wrong `asyncio.current_task()`; timeouts and HTTP
clients rely on it.
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
"""Time for which a lane executes attempts before it yields to the event loop and to other lanes. It is long enough for
all short attempts of a poll, so that their slots are offered and their outcomes reported together."""
KEPT: Final = 64
"""Maximum number of idle lanes that are kept for reuse."""


class Runner:
    """Starts attempts in the order of the calls of `put`. Any number of attempts execute at the same time."""

    def __init__(
        self,
        begin: Callable[[HeldAttempt, Micros], Executor | None],
        finish: Callable[[HeldAttempt, Outcome], None],
        short: Callable[[HeldAttempt, OutOfResources], Outcome],
        clock: Clock,
    ) -> None:
        """`begin` gets the time and returns the executor of the attempt, or None if it must not start any more.
        `finish` gets the outcome. `short` returns the outcome of an attempt that could not start because the machine
        lacks a resource.
        """
        self._clock = clock
        self._begin = begin
        self._finish = finish
        self._short = short
        self._ready: deque[HeldAttempt] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._context: Context | None = None
        """The context variables that each lane starts with, before any job could change them."""
        self._called = False
        """True if a lane was scheduled that will take the ready attempts."""
        self._closed = False

    @property
    def is_overloaded(self) -> bool:
        """True if more attempts are ready than one turn of the event loop could start."""
        return bool(self._ready)

    def put(self, attempt: HeldAttempt) -> None:
        self._ready.append(attempt)
        if not self._called:
            self._call()

    def close(self) -> None:
        """Cancel all lanes. No attempt starts any more, and the outcomes of those in the background are dropped."""
        self._closed = True
        self._ready.clear()
        for task in self._tasks:
            task.cancel()

    def _ended_in_background(self, attempt: HeldAttempt, outcome: Outcome | OutOfResources) -> None:
        if not self._closed and attempt.outcome is None:  # an executor that failed may end an attempt twice
            self._finish(attempt, self._short(attempt, outcome) if isinstance(outcome, OutOfResources) else outcome)

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
                if (background := attempt.work.background) is not None:
                    try:
                        background.start(attempt, self._ended_in_background)
                    except OutOfResources as error:
                        self._finish(attempt, self._short(attempt, error))
                    except Exception as error:
                        if attempt.outcome is None:
                            self._finish(attempt, Failed(Failure(kind="worker", message=_described(error))))
                    now = self._clock.monotonic()
                    if now >= until:
                        break
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
                if attempt.stop is not None or copy_context() != untouched:
                    # A lane that was cancelled, or whose context variables a job changed, is not used again.
                    if ready and not self._called:
                        self._call()
                    return
                now = attempt.ended_at  # also the start of the next attempt, which was ready before
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
    """Describe an error. Never raises, because a lane that failed here would occupy its slot until the worker ends."""
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
