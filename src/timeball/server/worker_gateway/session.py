"""What a server remembers of a worker's session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from timeball.domain.instant import Micros
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.worker_protocol import PollResponse


@dataclass(slots=True)
class PendingPoll:
    """A poll that hangs."""

    seq: int
    free: int
    answer: asyncio.Future[PollResponse]


@dataclass(slots=True)
class WorkerSession:
    id: str
    worker: str
    key: str | None
    """The key that opened it; None: a server opened it that did not know keys of sessions yet."""
    handed: set[int] = field(default_factory=set)
    """Tokens that were handed out and whose end was not yet reported."""
    to_cancel: dict[int, bool] = field(default_factory=dict)
    """Tokens whose cancel goes out with the next answer, and whether it is to be at once: there may be no poll to
    answer right now."""
    cancelling: dict[int, bool] = field(default_factory=dict)
    """Tokens whose cancel went out with an answer, and whether at once; beats repeat the order."""
    to_pause: dict[int, int] = field(default_factory=dict)
    """Tokens that are to make room, with the number of the order: it goes out with the next answer."""
    waiting: PendingPoll | None = None
    polled: int = 0
    """The number of its newest poll. Messages overtake each other: an older one is of no interest any more."""
    offered: tuple[int, int] = (0, 0)
    """A poll's number, and the free slots that a report sent after it told: it may arrive before that poll."""
    spare: int = 0
    """Slots that the answer to its newest poll left free, until `spare_until` on the steady clock."""
    spare_until: Micros = 0
    pending: list[Claim] = field(default_factory=list)
    """What was claimed for its next poll."""
    heard_at: Micros = 0
    """When it last said something, on this node's steady clock."""
    printed: dict[int, int] = field(default_factory=dict)
    """How much attempts printed, by their tokens, as far as this server knows."""
    unverified: bool = False
    """Whether the store may know of claims that are not in `handed`: those of another server that the worker left."""

    def belongs_to(self, key: str) -> bool:
        """Whether a message that came with this key is its worker's."""
        return self.key is None or self.key == key


def expected_want(session: WorkerSession) -> SlotRequest:
    return SlotRequest(session.id, session.worker, session.spare, session.polled + 1)


def with_cancels(session: WorkerSession, orders: PollResponse) -> PollResponse:
    """The orders, with the cancels that wait for an answer to go out with."""
    if not session.to_cancel and not session.to_pause:
        return orders
    told, session.to_cancel = session.to_cancel, {}
    pauses, session.to_pause = session.to_pause, {}
    session.cancelling |= told
    return PollResponse(
        assignments=orders.assignments,
        pause=sorted(pauses.items()),
        cancel=sorted(token for token, at_once in told.items() if not at_once),
        kill=sorted(token for token, at_once in told.items() if at_once),
    )


def by_poll(claims: Sequence[Claim]) -> dict[tuple[str, int], list[Claim]]:
    grouped: dict[tuple[str, int], list[Claim]] = {}
    for claim in claims:
        grouped.setdefault((claim.session, claim.poll), []).append(claim)
    return grouped
