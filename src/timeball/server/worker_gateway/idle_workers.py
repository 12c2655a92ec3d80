"""The idle workers of a server: sessions with a pending poll and free slots, and sessions whose next poll is expected
soon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from timeball.domain.dispatch.slot_pools import SlotPool
from timeball.ports.clock import Clock
from timeball.ports.store.runs import SlotRequest
from timeball.ports.worker_protocol import PollResponse
from timeball.server.worker_gateway.session import PendingPoll, SpareSlots, WorkerSession


class IdleSessions:
    """The two tables of idle sessions. Each `WorkerSession` adds and removes its own entries; `_coming` also removes
    expected sessions whose time is over or whose slots are taken."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._polling: dict[str, PendingPoll] = {}
        """Pending polls by session id, in order of arrival. Most sessions of a busy server have none."""
        self._expected: dict[str, SpareSlots] = {}
        self._withheld: set[tuple[str, int]] = set()
        """Pairs of session id and poll number for which nothing is claimed now, because their answer waits for large
        parameters.
        """
        self.on_demand: Callable[[bool], None] = lambda has_grown: None
        """Called when a worker has free slots. The dispatcher sets it."""

    def open(
        self,
        session_id: str,
        worker: str,
        key: str | None,
        pools: Sequence[SlotPool] = (),
        *,
        in_doubt: bool = False,
        draining: bool = False,
    ) -> WorkerSession:
        return WorkerSession(
            session_id,
            worker,
            key,
            pools,
            polling=self._polling,
            expected=self._expected,
            now=self._clock.monotonic(),
            in_doubt=in_doubt,
            draining=draining,
        )

    @property
    def has_demand(self) -> bool:
        return any(True for _ in self._pending())

    def wants(self) -> list[SlotRequest]:
        """Return the pending polls with free slots."""
        return list(self._pending())

    def wants_soon(self, limit: int) -> list[SlotRequest]:
        """Return at most `limit` pending polls with free slots, and at most `limit` polls that are expected soon."""
        return [*islice(self._pending(), limit), *[_next_poll(each) for each in islice(self._coming(), limit)]]

    def wants_ahead(self) -> list[SlotRequest]:
        """Return the pending polls with free slots, and the expected polls for which nothing was claimed yet. A second
        claim for an expected poll might arrive after the poll was answered with the first one.
        """
        return [*self._pending(), *[_next_poll(each) for each in self._coming() if not each.has_claims]]

    def withhold(self, polls: set[tuple[str, int]]) -> None:
        """Claim nothing more for these polls until `offer_again` is called."""
        self._withheld |= polls

    def offer_again(self, polls: set[tuple[str, int]]) -> None:
        self._withheld -= polls

    def answer_all(self) -> None:
        """Answer each pending poll without assignments, only with the orders that are due."""
        for poll in list(self._polling.values()):
            poll.owner.answer(PollResponse())

    def _pending(self) -> Iterator[SlotRequest]:
        return (
            SlotRequest(poll.owner.id, poll.owner.worker, poll.free, poll.seq, poll.room)
            for poll in self._polling.values()
            if poll.free > 0 and (not self._withheld or (poll.owner.id, poll.seq) not in self._withheld)
        )

    def _coming(self) -> Iterator[SpareSlots]:
        now = self._clock.monotonic()
        for spare in list(self._expected.values()):
            if spare.slots <= 0 or now >= spare.until:
                del self._expected[spare.owner.id]
        return (
            spare
            for spare in self._expected.values()
            if not self._withheld or (spare.owner.id, spare.next_poll) not in self._withheld
        )


def _next_poll(spare: SpareSlots) -> SlotRequest:
    return SlotRequest(spare.owner.id, spare.owner.worker, spare.slots, spare.next_poll, spare.room)
