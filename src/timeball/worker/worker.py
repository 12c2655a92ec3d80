"""The worker: polls servers for attempts through the worker protocol, executes them, and reports their outcomes.

It holds attempts in a session with the servers. When the session is lost, all its attempts are killed, their outcomes
are dropped, and the worker registers again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import structs

from timeball.domain.errors import Forbidden, Unauthorized
from timeball.domain.instant import MINUTE, SECOND, Micros
from timeball.ports.clock import Clock, Rng
from timeball.ports.executor import Executor, ExecutorAttempt
from timeball.ports.process_guard import Guard
from timeball.ports.telemetry.tracing import Tracing
from timeball.ports.worker_protocol import Beat, PollResponse, RegisterWorker, WorkerProtocol
from timeball.worker.attempt import HeldAttempt, Stop
from timeball.worker.attempt_spans import ExecuteSpans
from timeball.worker.attempts import Attempts
from timeball.worker.report_queue import ReportContent, ReportQueue
from timeball.worker.session import ANSWER, Backoff, ServerSession, error_text
from timeball.worker.timers import Timers

FLUSH_TIMEOUT: Final = 5 * SECOND
"""Maximum number of microseconds that a stopping worker waits for its last report, and for its goodbye."""
KILL_TIMEOUT: Final = 2 * SECOND
"""Maximum number of microseconds that killed attempts may take to end."""
LOOP_STALL_LIMIT: Final = 5 * MINUTE
"""How long the lease of a worker is renewed while its event loop is blocked. A function that blocks the loop for longer
costs the worker its session: for the servers, a worker whose event loop stays blocked is dead.
"""
STABLE_SESSION: Final = 5 * SECOND
"""A session that lasted longer than this counts as established. After shorter ones, the delay before the next
registration grows.
"""

log = logging.getLogger("timeball.worker")


class Worker:
    """A worker starts once and ends once: `start`, then `drain` (gracefully) or `stop` (at once), at any time and any
    number of times. A server may order it to drain as well; `wait` returns when it has left.

    It uses one event loop and starts no thread; time and randomness come from `clock` and `rng`. `guard` is None if no
    executor starts processes.
    """

    def __init__(
        self,
        dispatch: WorkerProtocol,
        executors: Mapping[str, Executor],
        clock: Clock,
        hello: RegisterWorker,
        *,
        rng: Rng,
        guard: Guard | None = None,
        on_outlived: Callable[[Sequence[ExecutorAttempt]], None] | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        """`on_outlived` is called with the attempts of a lost session that still execute when the lease of the session
        is about to lapse. Spans go to `tracing`.
        """
        self._dispatch = dispatch
        self._clock = clock
        self._hello = hello
        self._rng = rng
        self._guard = guard
        self._outlived = on_outlived
        self._spans = None if tracing is None else ExecuteSpans(tracing, clock, hello.name)
        self._alarms = Timers(clock)
        self._outbox = ReportQueue(clock, self._alarms)
        self._attempts = Attempts(
            slots=hello.slots,
            pools=hello.pools,
            executors=executors,
            clock=clock,
            alarms=self._alarms,
            outbox=self._outbox,
            may_start=self._may_start,
            kinds=None if hello.kinds is None else frozenset(hello.kinds),
        )
        self._session: ServerSession | None = None
        self._life: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        """Set once a server has ordered the worker to drain."""
        self._ended = asyncio.Event()
        self._failure: Exception | None = None
        self.opened_sessions = 0
        self.taken_attempts = 0
        self.registered = asyncio.Event()
        """Set once a server has accepted the worker."""

    @property
    def version(self) -> str:
        return self._hello.version

    @property
    def slots(self) -> dict[str, tuple[int, int]]:
        """The number of slots, and of occupied ones, by pool (`OccupiedSlots.use`)."""
        return self._attempts.occupied.use

    @property
    def is_connected(self) -> bool:
        return self._session is not None and not self._session.lost and not self._ended.is_set()

    @property
    def is_draining(self) -> bool:
        return self._attempts.closed

    @property
    def session(self) -> str | None:
        """The id of the current session; None if the worker has no session."""
        return self._session.id if self._session is not None else None

    async def start(self) -> None:
        """Start the worker and return at once. The servers may become reachable later."""
        if self._life is None and self._stopping is None:
            self._life = asyncio.create_task(self._live(), name="timeball worker")

    async def wait(self) -> None:
        """Wait until the worker has drained or stopped. Raises the error of servers that refuse this worker, such as a
        refused API key.
        """
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure

    async def drain(self, timeout: Micros) -> None:
        """Accept nothing new, let attempts finish for at most `timeout`, return the others to the queue without a
        failed attempt, then stop.
        """
        if self._life is None or self._stopping is not None:
            await self.stop()
            return
        self._take_nothing_new()
        await self._within(timeout, self._attempts.idle())
        self._attempts.stop_all(Stop.RELEASE)
        await self._within(self._attempts.longest_grace() + 2 * FLUSH_TIMEOUT, self._attempts.idle())
        await self.stop()

    def _take_nothing_new(self) -> None:
        """Release attempts that have not started, resume suspended ones, and accept no others."""
        self._attempts.closed = True
        self._attempts.release_waiting()
        self._attempts.let_all_go_on()
        if self._session is not None:
            self._outbox.amend()

    async def _leave(self) -> None:
        """Drain by the order of a server: accept nothing new, let all attempts finish however long they take, report
        them, then stop.
        """
        self._take_nothing_new()
        await self._attempts.idle()
        await self._outbox.flushed()
        log.warning("all runs have ended: the worker leaves")
        await self.stop()

    async def stop(self) -> None:
        """Kill all attempts, report their outcomes, send a goodbye if both succeeded in time, and end. This continues
        if the caller is cancelled.
        """
        if self._ended.is_set():
            return
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(), name="timeball worker stopping")
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        self._attempts.closed = True
        self._attempts.stop_all(Stop.STOP_NOW)
        if self._guard is not None:
            self._guard.kill_all()
        gone = await self._within(KILL_TIMEOUT, self._attempts.idle())
        session = self._session
        flushed = session is not None and await self._flush(session)
        if self._life is not None:
            self._life.cancel()
            await asyncio.wait([self._life])
        # A goodbye returns all attempts to the queue at once, as not started. So it is sent only if nothing executes
        # here any more and all outcomes were reported.
        if session is not None and gone and flushed:
            await self._within(FLUSH_TIMEOUT, self._dispatch.goodbye(session.id))
        if self._leaving is not None:
            self._leaving.cancel()
        self._attempts.close()
        self._alarms.clear()
        self._ended.set()

    async def _flush(self, session: ServerSession) -> bool:
        """Wait at most `FLUSH_TIMEOUT` until all events were reported. Return True if they were; False after that time,
        or if the session is lost, which drops unreported events.
        """
        return not session.lost and await self._within(FLUSH_TIMEOUT, self._outbox.flushed()) and not session.lost

    async def _live(self) -> None:
        backoff = Backoff(self._clock, self._rng)
        try:
            while self._leaving is None:  # a draining worker without a session holds nothing, and ends
                self._session = session = await self._register(backoff)
                self.registered.set()
                self.opened_sessions += 1
                began = self._clock.monotonic()
                try:
                    await session.run()
                    log.warning("session %s is lost: all its attempts are killed", session.id)
                except (Unauthorized, Forbidden):
                    raise
                except Exception:
                    log.exception("session %s failed: all its attempts are killed", session.id)
                self._kill_everything()
                if self._clock.monotonic() - began > STABLE_SESSION:
                    backoff.reset()
                await backoff.pause()
        except (Unauthorized, Forbidden) as error:
            self._failure = error
            self._kill_everything()
            self._attempts.close()
            self._ended.set()

    async def _within(self, timeout: Micros, doing: Awaitable[None]) -> bool:
        """Wait for an awaitable. Return True if it finished within this time, without an error."""
        try:
            async with asyncio.timeout(timeout / SECOND):
                await doing
        except Exception as error:
            log.info("stopped waiting: %s", error_text(error))
            return False
        return True

    async def _register(self, backoff: Backoff) -> ServerSession:
        while True:
            sent_at = self._clock.monotonic()
            try:
                async with asyncio.timeout(ANSWER / SECOND):
                    registered = await self._dispatch.hello(structs.replace(self._hello, after=self.session))
            except (Unauthorized, Forbidden):
                raise
            except Exception as error:
                log.warning("cannot register with a server yet: %s", error_text(error))
                await backoff.pause()
                continue
            return ServerSession(
                registered,
                sent_at,
                dispatch=self._dispatch,
                clock=self._clock,
                rng=self._rng,
                alarms=self._alarms,
                outbox=self._outbox,
                holder=self,
                renewed=self._renewed,
            )

    def _kill_everything(self) -> None:
        lost = self._attempts.lose_all()
        if self._spans is not None:
            self._spans.lost()
        if self._guard is not None:
            self._guard.kill_all()
        self._outbox.clear()
        if lost and self._outlived is not None and self._session is not None:
            # The guard has killed its processes by this instant at the latest.
            at = self._clock.monotonic() + self._session.margin // 2
            self._alarms.at(at, partial(self._look_after, lost))

    def _look_after(self, lost: list[HeldAttempt]) -> None:
        remaining = [attempt for attempt in lost if attempt.outcome is None]
        if remaining and self._outlived is not None:
            self._outlived(remaining)

    def _may_start(self, now: Micros) -> bool:
        """True if the session is valid. After a long stop (SIGSTOP, a suspended machine), attempts may be due here that
        another worker already has.
        """
        session = self._session
        if session is None or session.lost:
            return False
        if now < session.deadline:
            return True
        session.lose()
        return False

    def _renewed(self, deadline: Micros) -> None:
        if self._guard is not None:
            self._guard.renew(deadline)

    # The following methods are called by the heartbeat thread, which stands in for a blocked event loop: see
    # `bootstrap.heartbeat_thread`.

    def beat_for_stalled_loop(self) -> Beat | None:
        """Return the beat that the blocked event loop has missed; None if it missed none, or if there is no session.
        Also None once the event loop is blocked for longer than `LOOP_STALL_LIMIT`, or an attempt has to be stopped:
        without the event loop, only the end of the lease stops an attempt.
        """
        session, now = self._session, self._clock.monotonic()
        since = None if session is None or session.lost else session.stalled_since(now)
        if session is None or since is None or now - since > LOOP_STALL_LIMIT or now >= self._attempts.stops_by():
            return None
        return Beat(session=session.id, held=self._attempts.tokens())

    def beat_was_answered(self, beat: Beat, sent_at: Micros) -> None:
        session = self._session
        if session is None or session.id != beat.session or session.lost:
            return
        deadline = session.renewed_from_thread(sent_at)
        if self._guard is not None:
            self._guard.renew_from_thread(deadline)

    # The following members implement `Holder` for the session.

    @property
    def free(self) -> int:
        return self._attempts.free

    @property
    def room(self) -> dict[str, int]:
        return self._attempts.room

    @property
    def is_overloaded(self) -> bool:
        return self._attempts.is_overloaded

    def tokens(self) -> list[int]:
        return self._attempts.tokens()

    def apply(self, orders: PollResponse, arrived: Micros) -> bool:
        if orders.drain and self._leaving is None and self._stopping is None:
            log.warning("a server ordered this worker to drain: it takes nothing new, finishes its runs and leaves")
            self._leaving = asyncio.create_task(self._leave(), name="timeball worker leaving")
            self._attempts.closed = True  # assignments of the same answer are released
        self.taken_attempts += len(orders.assignments)
        assignments = orders.assignments if self._spans is None else self._spans.assigned(orders.assignments)
        self._attempts.take(assignments, arrived, orders.addresses)  # first: this answer may cancel new attempts
        for token in orders.lost:
            self._attempts.stop(token, Stop.LOST)
        for token in orders.cancel:
            self._attempts.stop(token, Stop.CANCEL)
        for token in orders.kill:
            self._attempts.stop(token, Stop.KILL)
        for token, number in orders.pause:
            self._attempts.make_room(token, number)
        return bool(orders.assignments)

    def confirmed(self, batch: ReportContent) -> None:
        self._attempts.confirm(batch.ended)
        if self._spans is not None and batch.ended:
            self._spans.ended(batch.ended)

    def refused(self, tokens: list[int]) -> None:
        for token in tokens:
            self._attempts.stop(token, Stop.LOST)
        if self._spans is not None:
            self._spans.lost(tokens)
