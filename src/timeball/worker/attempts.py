"""All attempts that a worker holds: those that wait for their start, those that execute or are to stop, and those that
have ended and whose end the server has not confirmed yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, assert_never

from timeball.domain import duration
from timeball.domain.dispatch import preemption
from timeball.domain.dispatch.slot_pools import SlotPool
from timeball.domain.instant import MAX, MILLISECOND, MINUTE, SECOND, Micros
from timeball.domain.run.lifecycle import Cancelled, Failed, Failure, Outcome, Released, Succeeded
from timeball.ports.clock import Clock
from timeball.ports.executor import Executor, OutOfResources, TryLater
from timeball.ports.worker_protocol import Assignment
from timeball.worker.assignment import Reader
from timeball.worker.attempt import NO_ADDRESSES, AddressesByTenant, HeldAttempt, Stop, SuspendedSlots
from timeball.worker.occupied_slots import OccupiedSlots
from timeball.worker.output import sendable
from timeball.worker.report_queue import ReportQueue
from timeball.worker.runner import Runner
from timeball.worker.timers import Timers

STARTED_AFTER: Final = 100 * MILLISECOND
"""An attempt that still executes after this time is reported as started. Shorter ones are reported only by their
outcome.
"""
LOOK_EVERY: Final = 50 * MILLISECOND
"""Microseconds between two checks for attempts that have executed for longer than `STARTED_AFTER`."""
ASK_AGAIN: Final = SECOND
"""An attempt in the event loop that ignores its cancellation is cancelled again after this time, or after its grace if
that is longer.
"""
SHORTAGE_PAUSE: Final = SECOND
"""How long a worker whose machine lacks a resource accepts no new attempts, and how long the runs that it released
wait.
"""
POOL_REFUSAL_DELAY: Final = SECOND
"""How long a run waits that a worker returned to the queue because its pool was full."""
CROWDED_PAUSE: Final = MINUTE
"""How long a worker offers as many slots as its smallest pool has, after a server assigned too many runs of a pool."""

log = logging.getLogger("timeball.worker")


class Attempts:
    """Starts attempts when they are due, stops them on order, and passes their outcomes to the report queue."""

    def __init__(
        self,
        *,
        slots: int,
        pools: Sequence[SlotPool] = (),
        executors: Mapping[str, Executor],
        clock: Clock,
        alarms: Timers,
        outbox: ReportQueue,
        may_start: Callable[[Micros], bool],
        kinds: Collection[str] | None = None,
    ) -> None:
        """`may_start` is called right before an attempt starts; it returns False if the session of the worker has
        ended. `kinds` are the task kinds that the worker accepts; None accepts all.
        """
        self.occupied = OccupiedSlots(slots, pools)
        self._reader = Reader(executors, kinds, self.occupied.pools)
        self._clock = clock
        self._alarms = alarms
        self._outbox = outbox
        self._may_start = may_start
        self._lanes = Runner(self._begin, self._executed, self._return_to_queue, clock)
        self._held: dict[int, HeldAttempt] = {}
        self._suspended: dict[int, HeldAttempt] = {}
        """Suspended attempts by token, in the order in which they are resumed."""
        self._watched = False
        """True if a timer is set that reports attempts as started."""
        self._short_until: Micros = 0
        """The machine lacked a resource to start an attempt: no new attempts are accepted before this instant. 0: no
        shortage.
        """
        self._crowded_until: Micros = 0
        """Before this instant, the worker offers as many slots as its smallest pool has. 0: it offers all."""
        self._idle = asyncio.Event()
        self._idle.set()
        self.closed = False
        """True if the worker accepts no new attempts. Assignments that still arrive are released."""

    @property
    def free(self) -> int:
        if self.closed or self._outbox.congested or self._short_until:
            return 0
        if self._crowded_until:
            return self.occupied.free_in_each_pool
        return self.occupied.free

    @property
    def room(self) -> dict[str, int]:
        """Return the number of free slots of each pool."""
        return self.occupied.room

    @property
    def is_overloaded(self) -> bool:
        """True if attempts are due that have not started yet, because the event loop was busy."""
        return self._lanes.is_overloaded

    def tokens(self) -> list[int]:
        """Return the fencing tokens of all held attempts, including ended ones until the server has confirmed their
        end.
        """
        return list(self._held)

    def stops_by(self) -> Micros:
        """Return the earliest instant at which a running attempt must have ended by its timeout and grace; 0 if an
        attempt is being stopped; `MAX` if no running attempt has a timeout. Another thread may call this method.
        """
        running = [attempt for attempt in list(self._held.values()) if attempt.runs]
        if any(attempt.stop is not None for attempt in running):
            return 0
        limits = (attempt.ends_by + attempt.grace for attempt in running if attempt.ends_by is not None)
        return min(limits, default=MAX)

    async def idle(self) -> None:
        """Wait until no slot is occupied."""
        await self._idle.wait()

    def take(self, assignments: list[Assignment], arrived: Micros, addresses: AddressesByTenant = NO_ADDRESSES) -> None:
        for assignment in assignments:
            if assignment.token in self._held:
                continue
            work = self._reader.read(assignment)
            attempt = self._held[assignment.token] = HeldAttempt.of(assignment, work, self._outbox, addresses)
            fits = self.occupied.fits_pool(work)
            self.occupied.take(work)
            if self.closed or self.occupied.overbooked:
                self._end(attempt, Released())
            elif not fits:
                self._refuse(attempt)
            elif assignment.delay > 0:
                # Wait a thousandth longer than ordered: the server's clock may run that much slower than this one.
                due = arrived + assignment.delay + assignment.delay // 1000 + 1
                attempt.alarm = self._alarms.at(due, partial(self._lanes.put, attempt))
            else:
                self._lanes.put(attempt)
        if self.occupied.any:
            self._idle.clear()
        for suspended in self._suspended.values():
            if suspended.suspension is not None and not self.occupied.fits(suspended.work):
                suspended.suspension.taken = True

    def confirm(self, attempts: list[HeldAttempt]) -> None:
        """Drop ended attempts, because the server has confirmed their end."""
        for attempt in attempts:
            self._held.pop(attempt.token, None)

    def stop(self, token: int, reason: Stop) -> None:
        """Stop the attempt for this reason. Tokens of attempts that have ended or are not held are ignored, except that
        `Stop.LOST` also drops an attempt that has ended."""
        attempt = self._held.get(token)
        if attempt is None:
            return
        if reason is Stop.LOST:
            del self._held[token]
            self._outbox.forget(token)
        if attempt.outcome is None and (attempt.stop is None or reason > attempt.stop):
            self._take_back(attempt)
            attempt.stop = reason
            if attempt.started_at is None:
                self._end(attempt, self._verdict(attempt, Released()))
            else:
                attempt.tell_to_stop()
                self._watch_stopping(attempt)

    def make_room(self, token: int, number: int) -> None:
        """Execute a preemption order: suspend the attempt, so that its slots become free. An attempt that cannot be
        suspended but may be repeated is returned to the queue; otherwise it keeps its slots."""
        attempt = self._held.get(token)
        if attempt is None or not attempt.runs or attempt.stop is not None or number <= attempt.asked:
            return
        attempt.asked = number
        if attempt.suspend is not None and not self.closed:
            self._suspend(attempt, attempt.suspend)
        elif attempt.suspend is None and attempt.spec.delivery != "at_most_once":
            self.stop(token, Stop.YIELD)
        else:
            # A draining worker accepts no attempts for the slots; the next worker that gets the run may be asked again.
            self._outbox.pausing(attempt, "resumed" if self.closed else "refused")

    def let_all_go_on(self) -> None:
        """Resume all suspended attempts, because no attempt will arrive to use their slots."""
        for attempt in list(self._suspended.values()):
            self._go_on(attempt)

    def _suspend(self, attempt: HeldAttempt, suspend: Callable[[], None]) -> None:
        now = self._clock.monotonic()
        suspend()
        left = None if attempt.ends_by is None else max(0, attempt.ends_by - now)
        if attempt.alarm is not None:
            self._alarms.cancel(attempt.alarm)
            attempt.alarm = None
        unused, enough = now + preemption.UNUSED_SLOTS_TIMEOUT, now + preemption.MAX_PREEMPTION_DURATION
        attempt.suspension = SuspendedSlots(
            since=now,
            left=left,
            alarms=[
                self._alarms.at(unused, partial(self._go_on_if_unused, attempt)),
                self._alarms.at(enough, partial(self._go_on, attempt)),
            ],
        )
        self._suspended[attempt.token] = attempt
        self.occupied.leave(attempt.work)
        self._outbox.pausing(attempt, "paused")

    def _go_on_if_unused(self, attempt: HeldAttempt) -> None:
        if attempt.suspension is not None and not attempt.suspension.taken:
            self._go_on(attempt)

    def _go_on(self, attempt: HeldAttempt) -> None:
        suspension = attempt.suspension
        if suspension is None or attempt.outcome is not None:
            return
        self._take_back(attempt)
        if attempt.resume is not None:
            attempt.resume()
        if suspension.left is not None:
            self._limit(attempt, self._clock.monotonic() + suspension.left)
        self._outbox.pausing(attempt, "resumed")

    def _take_back(self, attempt: HeldAttempt) -> None:
        """Give an attempt its slots back, even while another attempt uses them. The worker then offers fewer free
        slots.
        """
        suspension, attempt.suspension = attempt.suspension, None
        if suspension is not None:
            for alarm in suspension.alarms:
                self._alarms.cancel(alarm)
            del self._suspended[attempt.token]
            self.occupied.take(attempt.work)
            self._idle.clear()

    def _limit(self, attempt: HeldAttempt, ends_by: Micros) -> None:
        attempt.ends_by = ends_by
        attempt.alarm = self._alarms.at(ends_by, partial(self.stop, attempt.token, Stop.TIMEOUT))

    def stop_all(self, reason: Stop) -> None:
        """Stop all attempts that have not ended. Outcomes that are not confirmed yet are kept."""
        for attempt in list(self._held.values()):
            if attempt.outcome is None:
                self.stop(attempt.token, reason)

    def lose_all(self) -> list[HeldAttempt]:
        """Drop all attempts, ended ones included, because the session is lost. Return those that still execute; they
        are being killed.
        """
        running = [attempt for attempt in self._held.values() if attempt.runs]
        for token in list(self._held):
            self.stop(token, Stop.LOST)
        return running

    def release_waiting(self) -> None:
        """Return attempts that have not started to the queue."""
        for attempt in list(self._held.values()):
            if attempt.started_at is None:
                self.stop(attempt.token, Stop.RELEASE)

    def longest_grace(self) -> Micros:
        """Return the longest grace of the attempts that execute."""
        running = [attempt for attempt in self._held.values() if attempt.runs]
        return max((attempt.grace for attempt in running), default=0)

    def close(self) -> None:
        """Cancel the attempts that still execute, start no others, and drop the outcomes of those in the background."""
        self.closed = True
        self._lanes.close()

    def _begin(self, attempt: HeldAttempt, now: Micros) -> Executor | None:
        if attempt.outcome is not None or attempt.stop is not None or not self._may_start(now):
            return None
        attempt.alarm = None
        work = attempt.work
        if work.unfit is not None:
            self._end(attempt, work.unfit)
            return None
        attempt.started_at = now
        if work.timeout is not None:
            self._limit(attempt, now + work.timeout)
        if not self._watched:
            self._watched = True
            self._alarms.at(now + STARTED_AFTER, self._report_started)
        return work.executor

    def _report_started(self) -> None:
        """Report attempts that execute for longer than `STARTED_AFTER` as started. It runs rarely: most attempts have
        ended by then, and cost nothing.
        """
        now = self._clock.monotonic()
        starting = [
            attempt
            for attempt in self._held.values()
            if attempt.outcome is None and attempt.started_at is not None and not attempt.reported_start
        ]
        for attempt in starting:
            if attempt.started_at is not None and attempt.started_at + STARTED_AFTER <= now:
                attempt.reported_start = True
                self._outbox.started(attempt)
        self._watched = any(not attempt.reported_start for attempt in starting)
        if self._watched:
            self._alarms.at(now + LOOK_EVERY, self._report_started)

    def _watch_stopping(self, attempt: HeldAttempt) -> None:
        """Repeat the order to stop to an attempt until the attempt has ended."""

        def again() -> None:
            if attempt.outcome is None:
                attempt.tell_to_stop()
                self._watch_stopping(attempt)

        self._alarms.at(self._clock.monotonic() + max(attempt.grace, ASK_AGAIN), again)

    def _executed(self, attempt: HeldAttempt, outcome: Outcome) -> None:
        self._end(attempt, outcome if attempt.stop is None else self._verdict(attempt, outcome))

    def _return_to_queue(self, attempt: HeldAttempt, error: OutOfResources) -> Outcome:
        """Return the outcome of an attempt that could not start because the machine lacks a resource: released, as not
        started. The worker then accepts nothing new for `SHORTAGE_PAUSE`, since the next start would fail as well. With
        `TryLater`, only this run has to wait.
        """
        attempt.started_at = None
        if isinstance(error, TryLater):
            return Released(wait=error.wait, begun=False)
        if not self._short_until:
            self._short_until = self._clock.monotonic() + SHORTAGE_PAUSE
            self._alarms.at(self._short_until, self._take_again)
            log.warning("runs are returned to the queue: this machine lacks the resources to start them: %s", error)
        return Released(wait=SHORTAGE_PAUSE, begun=False)

    def _refuse(self, attempt: HeldAttempt) -> None:
        """Return an attempt to the queue because its pool is full. Only servers that know no pools assign such ones."""
        self._end(attempt, Released(POOL_REFUSAL_DELAY))
        if not self._crowded_until:
            self._crowded_until = self._clock.monotonic() + CROWDED_PAUSE
            self._alarms.at(self._crowded_until, self._offer_all_again)
            self._outbox.amend()

    def _offer_all_again(self) -> None:
        self._crowded_until = 0
        self._outbox.amend()

    def _take_again(self) -> None:
        self._short_until = 0
        self._outbox.amend()

    def _verdict(self, attempt: HeldAttempt, outcome: Outcome) -> Outcome:
        """Return the outcome to report for an attempt that was ordered to stop. The outcome follows from the reason of
        the stop, not from how the attempt ended, except that a preempted attempt may still succeed, and that an attempt
        which never began does not count as begun."""
        begun = not isinstance(outcome, Released) or outcome.begun
        match attempt.stop:
            case None | Stop.LOST:
                return outcome
            case Stop.CANCEL | Stop.KILL:
                return Cancelled()
            case Stop.YIELD:
                return outcome if isinstance(outcome, Succeeded) else Released(begun=begun)
            case Stop.RELEASE | Stop.STOP_NOW:
                return Released(begun=begun)
            case Stop.TIMEOUT if not begun:
                return outcome
            case Stop.TIMEOUT:
                limit = attempt.spec.timeout
                rendered = duration.render(duration.parse(limit)) if limit is not None else "its time limit"
                return Failed(Failure(kind="timeout", message=f"stopped after {rendered}: its timeout has passed"))
            case _:
                assert_never(attempt.stop)

    def _end(self, attempt: HeldAttempt, outcome: Outcome) -> None:
        attempt.ended_at = self._clock.monotonic()
        if attempt.alarm is not None:
            self._alarms.cancel(attempt.alarm)
            attempt.alarm = None
        attempt.outcome = sendable(outcome) if type(outcome) is Failed else outcome
        if attempt.stop is not Stop.LOST:
            self._outbox.ended(attempt)
        if attempt.suspension is not None:
            self._take_back(attempt)
        self.occupied.leave(attempt.work)
        if self._suspended:
            self._let_go_on()
        if not self.occupied.any and not self._suspended:
            self._idle.set()

    def _let_go_on(self) -> None:
        """Resume suspended attempts whose slots are free again, the longest suspended first."""
        for attempt in list(self._suspended.values()):
            taken = attempt.suspension is not None and attempt.suspension.taken
            if taken and self.occupied.fits(attempt.work):
                self._go_on(attempt)
