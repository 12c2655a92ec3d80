"""The free slots in the pools of the workers of one claim, as the claim fills them.

No worker gets more runs of a pool than the pool has free slots. A run that would fit if its pool had a free slot is set
aside: it waits in a queue of its pool. There it blocks no run of another pool, and no claim reads it while the pool is
full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from timeball.domain.dispatch import placement
from timeball.domain.dispatch.placement import PLAIN, Need, Offer
from timeball.domain.dispatch.slot_pools import PoolRoom

TaskSort = tuple[str, str | None]
"""The task kind of a run, and the name of its Python function, if it has one."""


class ClaimRooms:
    def __init__(self, rooms: Mapping[str, PoolRoom | None]) -> None:
        """`rooms` has the free slots in the pools of each worker, by session; None for a worker without pools."""
        self._rooms = {session: room.copy() for session, room in rooms.items() if room is not None}
        self._queues: dict[tuple[TaskSort, Need, str | None, int], str] = {}
        self._bounded: dict[TaskSort, bool] = {}
        """Whether any worker has a pool for runs of this sort."""
        self._suiting: dict[Need, list[Offer]] = {}
        """The offers of the workers that could execute runs with these requirements if they executed nothing else."""

    def __bool__(self) -> bool:
        return bool(self._rooms)

    def open_to(self, sort: TaskSort, need: Need, offers: Sequence[Offer]) -> Sequence[Offer]:
        """Return the offers of the workers that suit a run and whose pools have a free slot for it. `offers` are the
        same in all calls, so what does not change in a claim is computed once."""
        suiting = self._suiting.get(need)
        if suiting is None:
            suiting = self._suiting[need] = [offer for offer in offers if offer.suits(need)]
        bounded = self._bounded.get(sort)
        if bounded is None:
            bounded = any(room.pools.of(*sort) is not None for room in self._rooms.values())
            self._bounded[sort] = bounded
        if not bounded:
            return suiting
        return [
            offer
            for offer in suiting
            if (room := self._rooms.get(offer.session)) is None or room.has(room.pools.of(*sort), need.slots)
        ]

    def take(self, sort: TaskSort, need: Need, session: str) -> None:
        room = self._rooms.get(session)
        if room is not None:
            room.take(room.pools.of(*sort), need.slots)

    @property
    def queues(self) -> dict[tuple[TaskSort, int], str]:
        """The queues in which runs of this claim have to wait for a slot of their pool, as placement profiles, by task
        sort and priority. Only the queues of runs that need one slot and nothing else."""
        found = self._queues.items()
        return {(sort, level): queue for (sort, need, profile, level), queue in found if need == PLAIN and not profile}

    def known_queue(self, sort: TaskSort, need: Need, profile: str | None, level: int) -> str | None:
        """Return the placement profile of the queue in which an earlier, equal run of this claim has to wait for a free
        slot of its pool; None if there is no such run. This run has to wait there as well, because free slots only
        become fewer during a claim."""
        return self._queues.get((sort, need, profile, level)) if self._queues else None

    def crowded(
        self, sort: TaskSort, need: Need, profile: str | None, level: int, offers: Sequence[Offer]
    ) -> str | None:
        """Return the placement profile of the queue in which a run has to wait for a free slot of its pool. None if no
        worker would fit even if all its pools had free slots. `profile` is the placement profile of the run now,
        `level` its priority."""
        offer = placement.choose(need, profile, offers)
        room = None if offer is None else self._rooms.get(offer.session)
        pool = None if room is None else room.pools.of(*sort)
        if pool is None:
            return None
        queue = str(placement.profile(need.in_pool(sort[0], pool), level))
        if queue != profile:
            self._queues[sort, need, profile, level] = queue
        return queue

    def may_serve(self, profile: str, offers: Sequence[Offer]) -> bool:
        """True if one of these workers may have a free slot for the runs of a profile."""
        need = placement.need_of(profile)
        return any(offer.may_suit(need) and self._left(need, offer) > 0 for offer in offers)

    def limit(self, profile: str, offers: Sequence[Offer]) -> int | None:
        """Return the number of free slots that these workers have for the runs of a profile: no claim takes more of
        these runs. None if the profile is not that of a queue of a pool."""
        need = placement.need_of(profile)
        if not self._rooms or need.pool is None:
            return None
        return sum(min(self._left(need, offer), offer.slots) for offer in offers if offer.may_suit(need))

    def _left(self, need: Need, offer: Offer) -> int:
        room = self._rooms.get(offer.session)
        return offer.slots if room is None or need.pool is None else room.left.get(need.pool, offer.slots)
