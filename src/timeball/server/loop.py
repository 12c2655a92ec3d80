"""One background duty: the start/stop contract that all loops of a server share.

`start` and `stop` may be called in any order, any number of times; after `stop` returned nothing of the loop runs.
A turn that fails is logged and repeated: a loop never dies silently.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import ClassVar, Final

import structlog

from timeball.domain.errors import Unavailable
from timeball.domain.instant import MILLISECOND, SECOND, Micros
from timeball.ports.clock import Clock
from timeball.ports.wakeups import Topic
from timeball.server.wakeups import LocalWakeups, Subscription

TICK: Final = SECOND
"""The longest a loop rests. Only lost hints make it matter."""
MAX_TIME_WITHOUT_SUCCESS: Final = 10 * SECOND
"""Microseconds without a successful turn after which a loop counts as failed, unless the loop says otherwise."""
FAILURES_PER_REPORT: Final = 60
"""Of the same failure of a loop, in a row, one in so many is logged: about one a minute."""
_log = structlog.get_logger()


def kind_of_error(error: BaseException) -> str:
    """What an error is called, without its message, which may name files, hosts or users: `SQLITE_FULL`,
    `DiskFullError`, `ZeroDivisionError`."""
    cause = error.__cause__ or error
    return str(getattr(cause, "sqlite_errorname", type(cause).__name__))


class Loop(ABC):
    name: ClassVar[str]
    is_required: ClassVar[bool] = True
    """Whether jobs, runs or clients wait for it: if it fails, the server is not ready."""
    max_time_without_success: ClassVar[Micros] = MAX_TIME_WITHOUT_SUCCESS
    topics: ClassVar[tuple[Topic, ...]] = ()

    def __init__(self, clock: Clock, wakeups: LocalWakeups) -> None:
        self._clock = clock
        self._wakeups = wakeups
        self._task: asyncio.Task[None] | None = None
        self._nudge = Subscription()
        self.succeeded_at: Micros | None = None
        """When the last successful turn ended, on the node's steady clock."""
        self._failure = ""
        """The kind of error of the turns since then."""

    @abstractmethod
    async def turn(self) -> Micros:
        """Do what there is to do; answers how long to rest before the next turn, unless woken."""

    def problem(self) -> str:
        """Why the loop counts as failed; empty: its last success is recent."""
        now, last = self._clock.monotonic(), self.succeeded_at
        if last is None:
            return self._failure or "no turn has ended yet"
        if now - last <= self.max_time_without_success:
            return ""
        return f"no success for {(now - last) // SECOND} s: {self._failure or 'its turn does not end'}"

    def start(self) -> None:
        if self._task is None:
            for topic in self.topics:
                self._wakeups.subscribe(topic, self._nudge)
            self._nudge.set()
            self._task = asyncio.create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        for topic in self.topics:
            self._wakeups.unsubscribe(topic, self._nudge)
        task.cancel()
        await asyncio.wait([task])

    def nudge(self) -> None:
        """Do not rest; there is something to do."""
        self._nudge.set()

    async def _run(self) -> None:
        failures = 0
        me = asyncio.current_task()
        # A cancel may get lost in a turn: `wait_for` forgets one that comes together with what it waits for.
        while self._task is me:
            self._nudge.clear()
            try:
                rest = min(TICK, await self.turn())
                failures = 0
                self._failure = ""
                self.succeeded_at = self._clock.monotonic()
            except Exception as error:
                failures += 1
                rest = min(TICK, 50 * MILLISECOND << min(failures, 5))
                self._report(error, failures)
            if self._task is me:
                await self._nudge.wait(rest)

    def _report(self, error: Exception, failures: int) -> None:
        """Log a failed turn: the first of an outage, and every one that is unexpected in another way than the last."""
        kind = kind_of_error(error)
        is_new = kind != self._failure
        self._failure = kind
        if isinstance(error, Unavailable):
            if failures == 1:
                _log.warning("the store does not answer", loop=self.name, error=str(error))
        elif is_new or failures % FAILURES_PER_REPORT == 0:
            _log.error("a turn failed and is repeated", loop=self.name, failures=failures, exc_info=error)
