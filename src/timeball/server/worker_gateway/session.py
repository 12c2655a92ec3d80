"""A worker's session, as one server knows it: its newest poll, the claims made for it, and the orders to send.

                 poll_arrived                    wait
      ┌──────┐ ───────────────▶ ┌─────────┐ ─────────────▶ ┌─────────┐ ◀─┐ slots_changed
      │ AWAY │                  │ ARRIVED │                │ WAITING │ ──┘
      └──────┘ ◀─────────────── └─────────┘                └─────────┘
         ▲ ▲    assign, orders:                                 │ answer: deliver, order_cancel, order_pause,
         │ │    the answer is ready                             │ order_drain, mark_uncertain, beat_arrived,
         │ │                                                    │ poll_arrived (a newer poll), close, end,
         │ └────────────────────────────────────────────────────┘ time limit of the poll. No answer: stop_waiting
         │
         └─ EXPECTED: AWAY, with slots that the last answer left free. For `RETURN_TIME` the server claims for the next
            poll as well; `deliver` keeps such claims until that poll arrives.

    IN DOUBT, in each state: the store may have claims for the session that its worker does not know of.
      ──▶ opened by another server, mark_uncertain, beat_arrived (the store has claims that the worker does not
          hold), poll_arrived (polls are missing, or the worker does not hold what it was assigned), drop
      ◀── verified: the poll that finds the session in doubt releases all claims that its worker does not name;
          beat_arrived (the worker holds all that the store has claimed for it)

    DRAINING, in each state, after order_drain: the session offers no slots, so nothing is claimed for it. It is final.

Invariants. Only this module changes the fields that they are about:

1. At most one poll is pending, the newest one. An older poll that arrives later gets an empty answer.
2. A claim is delivered to the poll it was made for, or to none; `deliver` refuses it after that poll was answered.
3. The server's table `polling` has a session while it is WAITING, its table `expected` at least while it is EXPECTED.
4. A cancel is sent with one answer, and with a second one if it became a kill; beats repeat it from the store. The
   order to drain is sent with one answer; beats repeat it, too.

A server may lose this state: the store has each claim, and a session that a server does not know is in doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Container, Iterable, Mapping, Sequence, Set
from typing import Final

from msgspec import Struct

from timeball.domain.dispatch.slot_pools import NO_POOLS, PoolRoom, SlotPool, SlotPools
from timeball.domain.instant import MILLISECOND, Micros
from timeball.domain.job.large_values import LARGE
from timeball.ports.store.runs import Claim
from timeball.ports.worker_protocol import Ended, LogChunk, PollResponse
from timeball.server.worker_gateway import assignments

RETURN_TIME: Final = 100 * MILLISECOND
"""For how long the server expects the next poll of a session, after an answer that left some of its slots free."""


class PendingPoll(Struct, eq=False):
    """A poll that was not answered yet. `free` is the number of idle slots of its worker, and `room` that of the idle
    slots in its pools."""

    owner: WorkerSession
    seq: int
    free: int
    room: PoolRoom | None
    answer: asyncio.Future[PollResponse]


class SpareSlots(Struct, eq=False):
    """Slots that the answer to a poll left free, until an instant of the monotonic clock. 0 slots: the next poll has
    arrived, claims have filled the slots, the session drains, or the server stops."""

    owner: WorkerSession
    next_poll: int
    slots: int
    room: PoolRoom | None
    until: Micros
    has_claims: bool = False
    """True if claims wait for the next poll."""


class WorkerSession:
    __slots__ = (
        "_cancelling",
        "_draining",
        "_expected",
        "_handed",
        "_heard_at",
        "_in_doubt",
        "_kept",
        "_key",
        "_left",
        "_offered",
        "_polled",
        "_polling",
        "_pools",
        "_printed",
        "_spare",
        "_to_cancel",
        "_to_drain",
        "_to_pause",
        "_waiting",
        "has_grown",
        "id",
        "worker",
    )

    def __init__(
        self,
        session_id: str,
        worker: str,
        key: str | None,
        pools: Sequence[SlotPool] = (),
        *,
        polling: dict[str, PendingPoll],
        expected: dict[str, SpareSlots],
        now: Micros,
        in_doubt: bool = False,
        draining: bool = False,
    ) -> None:
        """`polling` and `expected` are the tables of all sessions of the server; `now` is an instant of the monotonic
        clock.
        """
        self.id: Final = session_id
        self.worker: Final = worker
        self._pools: Final = SlotPools(pools) if pools else None
        self._key: Final = key
        """The API key that registered the session. None: registered by an older version, which did not store the key.
        """
        self._polling: Final = polling
        self._expected: Final = expected
        self._heard_at = now
        self._polled = 0
        """The number of the newest poll of the worker; 0 if there was none."""
        self._waiting: PendingPoll | None = None
        self._offered: tuple[int, int, Mapping[str, int]] = (0, 0, NO_POOLS)
        """The number of a poll, and the free slots, also by pool, that a later report stated for it. The report may
        arrive before the poll."""
        self._left = PoolRoom.none()
        """The free slots of the pools by the last message, without those of the claims after it."""
        self.has_grown = True
        """False if no pool has more free slots by the last message than were left before it."""
        self._spare: SpareSlots | None = None
        self._kept: list[Claim] = []
        """Claims that wait for the next poll."""
        self._handed: set[int] = set()
        """Tokens of attempts that were assigned and whose end was not reported yet."""
        self._in_doubt = in_doubt
        self._to_cancel: dict[int, bool] = {}
        """Cancel orders for the next answer, by token. True means kill. They wait here, because the worker may have no
        pending poll."""
        self._cancelling: dict[int, bool] = {}
        """Cancel orders that were sent, by token. True means kill."""
        self._to_pause: dict[int, int] = {}
        """The number of the preemption order for the next answer, by token."""
        self._printed: dict[int, int] = {}
        """Number of characters of output that this server received, by token."""
        self._draining = draining
        self._to_drain = draining
        """True if the next answer has the order to drain."""

    def belongs_to(self, key: str) -> bool:
        """True if the session was opened with this API key, or by an older version, which did not store the key."""
        return self._key is None or self._key == key

    def heard(self, key: str, now: Micros) -> bool:
        """Record that a message arrived. Return False, and record nothing, if it has another API key than the
        session."""
        if not self.belongs_to(key):
            return False
        self._heard_at = now
        return True

    def is_silent_since(self, instant: Micros) -> bool:
        return self._waiting is None and self._heard_at < instant

    # --- polls -------------------------------------------------------------------------------------------------

    def poll_arrived(self, seq: int, held: Collection[int]) -> list[Claim] | None:
        """Record a new poll of the worker, which holds the attempts with these tokens. Return the claims that were kept
        for this poll, or None if a newer poll arrived before it.
        """
        if seq <= self._polled:
            return None
        claims, self._kept = self._kept, []
        if self._spare is not None:
            self._spare.slots, self._spare = 0, None
        if seq != self._polled + 1:  # the polls between these two went to another server or were lost
            claims, self._in_doubt = [], True
        self._polled = seq
        if self._waiting is not None:
            self.answer(PollResponse())  # a worker that polls again has given up its previous poll
        if self._in_doubt or not self._handed.issubset(held):
            # An answer did not arrive. A worker never acts on the answer to a poll that it gave up, so no attempt
            # executes that was claimed for earlier polls and is not among `held`.
            self._in_doubt = True
            self._cancelling.clear()
            self._handed.intersection_update(held)
        return claims

    @property
    def in_doubt(self) -> bool:
        return self._in_doubt

    def verified(self) -> None:
        """Record that the store has released all claims for earlier polls that the worker does not hold."""
        self._in_doubt = False

    def is_newest(self, seq: int) -> bool:
        return seq == self._polled

    def drop(self, claims: Sequence[Claim]) -> None:
        """Drop claims that were kept for a poll, because a newer poll replaced it or the server stops. The next poll
        releases them in the store.
        """
        if claims:
            self._in_doubt = True

    def assign(
        self, claims: Sequence[Claim], free: int, now: Micros, steady_now: Micros, room: Mapping[str, int] = NO_POOLS
    ) -> PollResponse:
        """Return the answer to the newest poll, which has `free` slots and those of the pools: these runs, and the
        orders that are due. `now` is the store's time, `steady_now` that of the monotonic clock.
        """
        offered = None if self._pools is None else self._offered_room(free, room)
        answer = self._assign(claims, free, offered, now, steady_now)
        return self._with_orders(answer) if self._to_cancel or self._to_pause or self._to_drain else answer

    def orders(self) -> PollResponse | None:
        """Return an answer to the newest poll with the orders that are due, or None if there are none."""
        has_orders = self._to_cancel or self._to_pause or self._to_drain
        return self._with_orders(PollResponse()) if has_orders else None

    def wait(
        self, seq: int, free: int, answer: asyncio.Future[PollResponse], room: Mapping[str, int] = NO_POOLS
    ) -> PendingPoll:
        """Keep the newest poll pending, because there is no answer yet."""
        if self._offered[0] == seq:
            _, free, room = self._offered
        if self._draining:
            free = 0
        left = None if self._pools is None else self._offered_room(free, room)
        self._waiting = self._polling[self.id] = PendingPoll(self, seq, free, left, answer)
        return self._waiting

    def answer(self, response: PollResponse, only: PendingPoll | None = None) -> None:
        """Answer the pending poll, if there is one. With `only`, answer it only if it is that poll. Orders that are
        due are added to the response."""
        waiting = self._waiting
        if waiting is None or (only is not None and waiting is not only):
            return
        self._waiting = None
        self._polling.pop(self.id, None)
        if not waiting.answer.done():
            has_orders = self._to_cancel or self._to_pause or self._to_drain
            waiting.answer.set_result(self._with_orders(response) if has_orders else response)

    def stop_waiting(self, poll: PendingPoll) -> None:
        """Forget a pending poll whose HTTP request ended without an answer."""
        if self._waiting is poll:
            self._waiting = None
            self._polling.pop(self.id, None)

    # --- claims ------------------------------------------------------------------------------------------------

    def deliver(self, poll: int, claims: Sequence[Claim], now: Micros, steady_now: Micros) -> bool:
        """Answer the poll that these runs were claimed for, or keep them if that poll is the next one. Return False if
        the poll was answered or replaced by a newer one, which may already have released the claims.
        """
        waiting = self._waiting
        if waiting is not None and waiting.seq == poll and not waiting.answer.done():
            self.answer(self._assign(claims, waiting.free, waiting.room, now, steady_now))
            return True
        spare = self._spare
        slots = sum([claim.slots for claim in claims])
        if spare is None or spare.next_poll != poll or spare.slots < slots:
            return False
        self._kept += claims
        spare.slots -= slots
        if spare.room is not None:
            spare.room = assignments.room_without(spare.room, claims)
        spare.has_claims = True
        return True

    def mark_uncertain(self) -> None:
        """Record that the store's answer to a claim for this session was lost."""
        self._in_doubt = True
        self.answer(PollResponse())  # the next poll releases the claims that the worker did not receive

    # --- reports and beats -------------------------------------------------------------------------------------

    def slots_changed(self, seq: int, free: int, room: Mapping[str, int] = NO_POOLS) -> bool:
        """Record the free slots that a report states for a poll, and those by pool. Return True if that poll is pending
        and its slots changed, and some are free."""
        self._offered = (seq, free, room)
        waiting = self._waiting
        if waiting is None or waiting.seq != seq or self._draining:
            return False
        if waiting.free == free and (waiting.room is None or waiting.room.left == room):
            return False
        waiting.free = free
        if self._pools is not None:
            waiting.room = self._offered_room(free, room)
        return free > 0

    def printed(self, chunks: Iterable[LogChunk], stale: Container[int]) -> None:
        """Add the size of the stored output of attempts to their counts. `stale` has the tokens of attempts that the
        session does not hold any more; their output was not stored."""
        for chunk in chunks:
            if chunk.token not in stale:
                self._printed[chunk.token] = self._printed.get(chunk.token, 0) + len(chunk.text)

    def ended(self, attempts: Sequence[Ended]) -> list[Ended]:
        """Record the reported ends of attempts. Return those with large output."""
        tokens = [each.token for each in attempts]
        self._handed.difference_update(tokens)
        if self._to_cancel or self._cancelling:
            for token in tokens:
                self._to_cancel.pop(token, None)
                self._cancelling.pop(token, None)
        return [each for each in attempts if self._printed.pop(each.token, 0) > LARGE] if self._printed else []

    def beat_arrived(self, held: Set[int], claimed: Set[int]) -> None:
        """Compare the attempts that the worker holds with those that the store has claimed for it. If the worker does
        not hold one of these, the session is in doubt, and a pending poll is answered so that the worker polls
        again."""
        self._in_doubt = not claimed <= held
        if self._in_doubt:
            self.answer(PollResponse())  # the next poll releases the claims that the worker does not hold

    # --- orders ------------------------------------------------------------------------------------------------

    def order_cancel(self, token: int, at_once: bool) -> None:
        """Send a cancel order: now, if a poll is pending, otherwise with the next answer. Each order is sent once, once
        more if a cancel became a kill, and again after the session was in doubt."""
        sent = self._cancelling.get(token)
        if sent is None or (at_once and not sent):
            self._to_cancel[token] = at_once
            self.answer(PollResponse())

    def order_pause(self, token: int, number: int) -> None:
        self._to_pause[token] = number
        self.answer(PollResponse())

    def order_drain(self) -> None:
        """Send the order to drain with the next answer, once, and offer no slots any more. Claims that wait for the
        next poll are sent with it: the worker releases them.
        """
        if not self._draining:
            self._draining = self._to_drain = True
            if self._spare is not None:
                self._spare.slots = 0
            self.answer(PollResponse())

    # --- the end -----------------------------------------------------------------------------------------------

    def close(self) -> list[Claim]:
        """Return the claims that wait for the next poll, and accept no more: the server stops, and the worker sends its
        next poll to another server. The pending poll still has to be answered.
        """
        claims, self._kept = self._kept, []
        if self._spare is not None:
            self._spare.slots, self._spare = 0, None
        return claims

    def end(self) -> None:
        """End the session: its worker left, or its lease lapsed. The pending poll is answered."""
        self._expected.pop(self.id, None)
        self.answer(PollResponse())

    # --- within ------------------------------------------------------------------------------------------------

    def _offered_room(self, free: int, left: Mapping[str, int]) -> PoolRoom | None:
        """Return the free slots of the pools that a message states. Compare them with those known before."""
        if self._pools is None or not left:
            return None
        room = PoolRoom(self._pools, {pool: min(free, slots) for pool, slots in left.items()})
        self.has_grown, self._left = room.exceeds(self._left), room
        return room

    def _assign(
        self, claims: Sequence[Claim], free: int, room: PoolRoom | None, now: Micros, steady_now: Micros
    ) -> PollResponse:
        self._handed.update([claim.token for claim in claims])
        slots = free - sum([claim.slots for claim in claims])
        if room is not None:
            room = self._left = assignments.room_without(room, claims)
        if slots > 0 and not self._draining:
            until = steady_now + RETURN_TIME
            self._spare = self._expected[self.id] = SpareSlots(self, self._polled + 1, slots, room, until)
        return PollResponse(assignments=[assignments.assignment_of(claim, now) for claim in claims])

    def _with_orders(self, response: PollResponse) -> PollResponse:
        drain, self._to_drain = self._to_drain, False
        cancels, self._to_cancel = self._to_cancel, {}
        pauses, self._to_pause = self._to_pause, {}
        self._cancelling |= cancels
        return PollResponse(
            assignments=response.assignments,
            pause=sorted(pauses.items()),
            cancel=sorted(token for token, at_once in cancels.items() if not at_once),
            kill=sorted(token for token, at_once in cancels.items() if at_once),
            drain=drain,
        )
