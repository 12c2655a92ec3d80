"""The base class of the background loops of a server: it defines how a loop starts, stops and repeats its turns.

`start` and `stop` may be called in any order, any number of times. After `stop` has returned, nothing of the loop runs.
A turn is one call of `Loop.turn`. A turn that fails is logged and repeated, so a loop never dies silently.
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
"""Maximum number of microseconds that a loop sleeps between two turns, also if a wakeup was lost."""
MAX_TIME_WITHOUT_SUCCESS: Final = 10 * SECOND
"""Microseconds without a successful turn after which a loop counts as failed. A loop may define another value."""
FAILURES_PER_REPORT: Final = 60
"""A loop that fails again and again with the same error logs the first failure, and then one of this many: about one a
minute."""
_log = structlog.get_logger()


def kind_of_error(error: BaseException) -> str:
    """Return the name of an error without its message: `SQLITE_FULL`, `DiskFullError`, `ZeroDivisionError`. The message
    may name files, hosts or users.
    """
    cause = error.__cause__ or error
    return str(getattr(cause, "sqlite_errorname", type(cause).__name__))


class Loop(ABC):
    name: ClassVar[str]
    is_required: ClassVar[bool] = True
    """True if jobs, runs or clients depend on the loop. The server is not ready while such a loop fails."""
    serves_requests: ClassVar[bool] = False
    """True if the clients and workers that are connected to this server need the loop. A server that is started without
    loops runs it as well."""
    max_time_without_success: ClassVar[Micros] = MAX_TIME_WITHOUT_SUCCESS
    topics: ClassVar[tuple[Topic, ...]] = ()

    def __init__(self, clock: Clock, wakeups: LocalWakeups) -> None:
        self._clock = clock
        self._wakeups = wakeups
        self._task: asyncio.Task[None] | None = None
        self._subscription = Subscription()
        self.succeeded_at: Micros | None = None
        """The end of the last successful turn, in microseconds of the monotonic clock."""
        self._started_at = clock.monotonic()
        self.succeeded_turns = 0
        """Number of successful turns."""
        self.failed_turns = 0
        self._failure = ""
        """The kind of error of the failed turns since the last success; empty if there was none."""

    @abstractmethod
    async def turn(self) -> Micros:
        """Do work that is due. Return the number of microseconds to sleep before the next turn. The loop sleeps at most
        `TICK` (one second), and a wakeup ends the sleep early.
        """

    @property
    def time_without_success(self) -> Micros:
        """The time since the end of the last successful turn, or since the start if there was none."""
        last = self._started_at if self.succeeded_at is None else self.succeeded_at
        return self._clock.monotonic() - last

    def problem(self) -> str:
        """Return why the loop counts as failed, or an empty string if its last success is recent."""
        now, last = self._clock.monotonic(), self.succeeded_at
        if last is None:
            return self._failure or "no turn has ended yet"
        if now - last <= self.max_time_without_success:
            return ""
        return f"no success for {(now - last) // SECOND} s: {self._failure or 'its turn does not end'}"

    def start(self) -> None:
        if self._task is None:
            for topic in self.topics:
                self._wakeups.subscribe(topic, self._subscription)
            self._subscription.set()
            self._task = asyncio.create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        for topic in self.topics:
            self._wakeups.unsubscribe(topic, self._subscription)
        task.cancel()
        await asyncio.wait([task])

    def wake(self) -> None:
        """Start the next turn now instead of sleeping: there is work to do."""
        self._subscription.set()

    async def _run(self) -> None:
        failures = 0
        me = asyncio.current_task()
        # A turn can lose a cancellation: `wait_for` drops one that arrives together with the result that it waits for.
        while self._task is me:
            self._subscription.clear()
            try:
                delay = min(TICK, await self.turn())
                failures = 0
                self._failure = ""
                self.succeeded_turns += 1
                self.succeeded_at = self._clock.monotonic()
            except Exception as error:
                failures += 1
                self.failed_turns += 1
                delay = min(TICK, 50 * MILLISECOND << min(failures, 5))
                self._report(error, failures)
            if self._task is me:
                await self._subscription.wait(delay)

    def _report(self, error: Exception, failures: int) -> None:
        """Log a failed turn. An unavailable store is logged once per outage; any other error is logged when its kind
        changes, and then once per `FAILURES_PER_REPORT` failures.
        """
        kind = kind_of_error(error)
        is_new = kind != self._failure
        self._failure = kind
        if isinstance(error, Unavailable):
            if failures == 1:
                _log.warning("the store does not answer", loop=self.name, error=str(error))
        elif is_new or failures % FAILURES_PER_REPORT == 0:
            _log.error("a turn failed and is repeated", loop=self.name, failures=failures, exc_info=error)
