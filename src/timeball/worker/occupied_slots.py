"""The slots of a worker that its attempts occupy, and those of its pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from timeball.domain.dispatch.slot_pools import SlotPool, SlotPools
from timeball.worker.assignment import AssignedWork


class OccupiedSlots:
    """Counts occupied slots. It may count more than there are: a suspended attempt takes its slots back when it is
    resumed, although other attempts use them."""

    def __init__(self, slots: int, pools: Sequence[SlotPool] = ()) -> None:
        self.pools: Final = SlotPools(pools)
        self._slots = slots
        self._occupied = 0
        self._by_pool = dict.fromkeys(self.pools.slots, 0)

    @property
    def any(self) -> bool:
        return self._occupied > 0

    @property
    def free(self) -> int:
        return max(0, self._slots - self._occupied)

    @property
    def overbooked(self) -> bool:
        """True if more slots are occupied than the worker has."""
        return self._occupied > self._slots

    @property
    def use(self) -> dict[str, tuple[int, int]]:
        """The number of slots, and of occupied ones: of each pool, and of the whole worker with the name `all`."""
        pools = {pool: (slots, self._by_pool[pool]) for pool, slots in self.pools.slots.items()}
        return {"all": (self._slots, self._occupied), **pools}

    @property
    def room(self) -> dict[str, int]:
        """The number of free slots of each pool."""
        return {pool: max(0, slots - self._by_pool[pool]) for pool, slots in self.pools.slots.items()}

    @property
    def free_in_each_pool(self) -> int:
        """The number of attempts that the worker can take, whatever their pools are."""
        return min([self.free, *self.room.values()])

    def fits(self, work: AssignedWork) -> bool:
        return self._occupied + work.slots <= self._slots and self.fits_pool(work)

    def fits_pool(self, work: AssignedWork) -> bool:
        """True if the pool of the attempt has enough free slots, or if it has no pool."""
        pool = work.pool
        return pool is None or self._by_pool[pool] + self.pools.taken(pool, work.slots) <= self.pools.slots[pool]

    def take(self, work: AssignedWork) -> None:
        self._occupied += work.slots
        if work.pool is not None:
            self._by_pool[work.pool] += self.pools.taken(work.pool, work.slots)

    def leave(self, work: AssignedWork) -> None:
        self._occupied -= work.slots
        if work.pool is not None:
            self._by_pool[work.pool] -= self.pools.taken(work.pool, work.slots)
