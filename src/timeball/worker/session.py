"""One session of a worker with the servers: it polls, sends beats and reports until the session is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from timeball.domain.errors import Forbidden, Invalid, TooLarge, Unauthorized, Unavailable
from timeball.domain.instant import MILLISECOND, SECOND, Micros
from timeball.ports.clock import Clock, Rng
from timeball.ports.worker_protocol import (
    Beat,
    Poll,
    PollResponse,
    Report,
    ServerFault,
    SessionLost,
    WorkerProtocol,
    WorkerRegistered,
)
from timeball.worker.report_queue import ReportContent, ReportQueue
from timeball.worker.timers import Timer, Timers

WAIT: Final = 10 * SECOND
"""Maximum number of microseconds that a server may keep a poll of this worker pending."""
ANSWER: Final = 10 * SECOND
"""Microseconds that the answer to a poll may take beyond `WAIT`. After that, the call counts as lost."""
MARGIN: Final = SECOND
"""Attempts are killed this long before the lease lapses."""
FIRST_RETRY: Final = 50 * MILLISECOND
MAX_RETRY_DELAY: Final = SECOND
POLL_RETRY_DELAY: Final = 20 * MILLISECOND
"""Microseconds between a poll that was answered at once without an assignment, and the next poll."""
MAX_EQUAL_FAULTS: Final = 3
"""Number of equal errors in a row after which the report counts as their cause and is split."""
MAX_TURNS: Final = 4
"""Maximum number of event loop turns for which the next poll is delayed, while new attempts wait to be started. One
poll that offers nearly all slots is better than one that offers a few, followed by another that offers the others."""

log = logging.getLogger("timeball.worker")


class Backoff:
    """Growing delays between retries, with random jitter, so that the workers of a fleet do not retry at the same
    moment.
    """

    def __init__(self, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._rng = rng
        self._next = FIRST_RETRY

    async def pause(self) -> None:
        length, self._next = self._next, min(self._next * 2, MAX_RETRY_DELAY)
        await self._clock.sleep(length // 2 + int(self._rng.random() * length / 2))

    def reset(self) -> None:
        self._next = FIRST_RETRY


class Faults:
    """Counts the errors of one report, to decide whether the content of the report is their cause.

    The same error each time means that the report may contain something that can never be stored. An unreachable or
    slow server says nothing about the report. Once a report was found to be the cause, one error is enough to split a
    part of it further. A part with a single item gets as many tries as the whole report had.
    """

    def __init__(self) -> None:
        self._words = ""
        self._count = 0
        self._splitting = False

    def suspects(self, batch: ReportContent, error: Exception) -> bool:
        if isinstance(error, TimeoutError) or (isinstance(error, Unavailable) and not isinstance(error, ServerFault)):
            self._count = 0
            return False
        words = error_text(error)
        self._count = self._count + 1 if words == self._words else 1
        self._words = words
        return self._count >= MAX_EQUAL_FAULTS or (self._splitting and batch.size > 1)

    def confirmed(self) -> None:
        self._count = 0
        self._splitting = True


class Holder(Protocol):
    """The part of the worker that its session uses."""

    @property
    def free(self) -> int: ...

    @property
    def room(self) -> dict[str, int]:
        """The number of free slots of each pool."""
        ...

    @property
    def is_overloaded(self) -> bool:
        """True if attempts are due that have not started yet, because the event loop was busy."""
        ...

    def tokens(self) -> list[int]: ...

    def apply(self, orders: PollResponse, arrived: Micros) -> bool:
        """Apply an answer of the server: start, cancel, kill or suspend attempts. Return True if it had assignments."""
        ...

    def confirmed(self, batch: ReportContent) -> None: ...

    def refused(self, tokens: list[int]) -> None: ...


class ServerSession:
    """Polls, sends beats and reports until the session is lost: a server refused it, or its lease was not renewed in
    time.
    """

    def __init__(
        self,
        registered: WorkerRegistered,
        registered_at: Micros,
        *,
        dispatch: WorkerProtocol,
        clock: Clock,
        rng: Rng,
        alarms: Timers,
        outbox: ReportQueue,
        holder: Holder,
        renewed: Callable[[Micros], None],
    ) -> None:
        """`renewed` is called after each renewal of the lease, with the instant at which all job processes must have
        ended even if the worker dies.
        """
        self.id = registered.session
        self._beat_every = registered.beat_every
        self._lease = registered.lease
        self.margin = min(MARGIN, registered.lease // 5)
        """Microseconds between the loss of this session and the end of its lease, after which other workers may get its
        attempts.
        """
        self._dispatch = dispatch
        self._clock = clock
        self._rng = rng
        self._alarms = alarms
        self._outbox = outbox
        self._holder = holder
        self._renewed = renewed
        self._poll_seq = 0
        self._lapse: Timer | None = None
        self._awake_at = registered_at
        """The time at which the event loop last ran the beat task. A loop that is not blocked runs it once per beat."""
        self.lost = False
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.deadline: Micros = 0
        """When the session counts as lost, with all attempts that it holds, unless a beat is answered before."""
        self._renew(registered_at)

    def lose(self) -> None:
        self.lost = True
        if not self._over.done():
            self._over.set_result(None)

    async def run(self) -> None:
        """Poll, send beats and report until the session is lost. Raise an error that a new session would not solve,
        such as a refused API key."""
        loops = [asyncio.ensure_future(loop) for loop in (self._polls(), self._beats(), self._reports())]
        try:
            await asyncio.wait([*loops, self._over], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.lose()
            if self._lapse is not None:
                self._alarms.cancel(self._lapse)
            for loop in loops:
                loop.cancel()
        for ended in await asyncio.gather(*loops, return_exceptions=True):
            if isinstance(ended, Exception) and not isinstance(ended, SessionLost):
                raise ended

    def _renew(self, sent_at: Micros) -> None:
        self._renewed(self._extend(sent_at))
        if self._lapse is not None:
            self._alarms.cancel(self._lapse)
        self._lapse = self._alarms.at(self.deadline, self._lapsed)

    def _extend(self, sent_at: Micros) -> Micros:
        """Extend the lease after an answered beat that was sent at this instant. Return the instant at which all job
        processes must have ended. It is later than the worker's own deadline, so that the worker does not report
        attempts as failed that the guard killed.
        """
        self.deadline = max(self.deadline, sent_at + self._lease - self.margin)
        return self.deadline + self.margin // 2

    def _lapsed(self) -> None:
        """End the session, unless a thread renewed the lease while the event loop was blocked."""
        if self._clock.monotonic() < self.deadline:
            self._lapse = self._alarms.at(self.deadline, self._lapsed)
        else:
            self.lose()

    # The following methods are called by the heartbeat thread. It may see slightly old values. It changes only the
    # deadline, which only grows.

    def stalled_since(self, now: Micros) -> Micros | None:
        """Return the time since which the event loop is blocked, or None if its beats are on time."""
        return self._awake_at if now - self._awake_at > self._beat_every + self._beat_every // 2 else None

    def renewed_from_thread(self, sent_at: Micros) -> Micros:
        """Record the answer to a beat that a thread sent. Return the instant at which all job processes must have
        ended."""
        return self._extend(sent_at)

    async def _polls(self) -> None:
        backoff = Backoff(self._clock, self._rng)
        while True:
            self._poll_seq += 1
            holder = self._holder
            poll = Poll(
                session=self.id,
                seq=self._poll_seq,
                free=holder.free,
                room=holder.room,
                held=holder.tokens(),
                wait=WAIT,
            )
            sent = self._clock.monotonic()
            try:
                async with asyncio.timeout((WAIT + ANSWER) / SECOND):
                    orders = await self._dispatch.poll(poll)
            except (SessionLost, Unauthorized, Forbidden):
                raise
            except Exception as error:
                log.warning("poll failed: %s", error_text(error))
                await backoff.pause()
                continue
            backoff.reset()
            arrived = self._clock.monotonic()
            if not self.lost:
                busy = holder.apply(orders, arrived)
                await self._let_short_ones_end()
                if not busy and arrived - sent < POLL_RETRY_DELAY:
                    await self._clock.sleep(POLL_RETRY_DELAY)

    async def _let_short_ones_end(self) -> None:
        """Wait until short attempts have ended before the next poll is sent. Most attempts end within the next turn of
        the event loop and are reported in the turn after it. The poll is sent between the two, and offers their slots.
        A server on another machine then claims first, and settles while the new attempts execute; a server in this
        process claims and settles in one commit."""
        for _ in range(MAX_TURNS):
            await asyncio.sleep(0)
            if not self._holder.is_overloaded:
                return

    async def _beats(self) -> None:
        pause = self._beat_every
        while True:
            self._awake_at = self._clock.monotonic()
            await self._clock.sleep(pause)
            sent = self._awake_at = self._clock.monotonic()
            try:
                async with asyncio.timeout(self._beat_every / SECOND):
                    orders = await self._dispatch.beat(Beat(session=self.id, held=self._holder.tokens()))
            except (SessionLost, Unauthorized, Forbidden):
                raise
            except Exception as error:
                log.warning("beat failed: %s", error_text(error))
                pause = min(self._beat_every, MAX_RETRY_DELAY) // 2
                continue
            pause = self._beat_every
            if not self.lost:
                self._renew(sent)
                self._holder.apply(orders, sent)

    async def _reports(self) -> None:
        backoff = Backoff(self._clock, self._rng)
        while True:
            unsent = [await self._outbox.next()]
            faults = Faults()
            while unsent:
                batch = unsent[0]
                now = self._clock.monotonic()
                # after a stall: an attempt that the guard has killed must not be reported as failed
                if now >= self.deadline:
                    return
                report = batch.report(self.id, self._poll_seq, self._holder.free, self._holder.room, now)
                try:
                    async with asyncio.timeout(ANSWER / SECOND):
                        ack = await self._dispatch.report(report)
                except (SessionLost, Unauthorized, Forbidden):
                    raise
                except (Invalid, TooLarge) as error:
                    log.warning("report with %d events refused: %s", batch.size, error_text(error))
                    unsent[:1] = batch.parts(error.detail)
                    if batch.size <= 1:
                        await backoff.pause()
                    continue
                except Exception as error:
                    log.warning("report failed: %s", error_text(error))
                    if faults.suspects(batch, error) and await self._takes_reports():
                        faults.confirmed()
                        unsent[:1] = self._outbox.apart(batch, error_text(error))
                    await backoff.pause()
                    continue
                backoff.reset()
                del unsent[0]
                if not self.lost:
                    self._holder.confirmed(batch)
                    self._holder.refused(ack.stale)
            if not self.lost:
                self._outbox.confirm()

    async def _takes_reports(self) -> bool:
        """True if the server accepts an empty report. Then the content of the failed report is part of the cause."""
        holder = self._holder
        report = Report(session=self.id, poll_seq=self._poll_seq, free=holder.free, room=holder.room)
        try:
            async with asyncio.timeout(ANSWER / SECOND):
                await self._dispatch.report(report)
        except (SessionLost, Unauthorized, Forbidden):
            raise
        except Exception as error:
            log.warning("an empty report failed, too: %s", error_text(error))
            return False
        return True


def error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
