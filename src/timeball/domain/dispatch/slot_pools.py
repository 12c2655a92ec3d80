"""Slot pools: how many of a worker's slots may execute runs that cost more than waiting.

A coroutine or an HTTP call waits most of its time, so a worker executes hundreds of them at once. A thread costs a
stack and waits for the lock of the interpreter, and a process costs memory and a CPU. So a worker has one number of
slots for all of its runs, and pools that bound how many of these runs execute in threads and in processes. A run of a
pool takes a slot of the worker and one of the pool. A pool that is full does not keep the worker from other runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Final

from msgspec import Meta, Struct

from timeball.domain.dispatch.slot_bounds import SlotBounds
from timeball.domain.task.kinds import FUNCTION_POOLS, PROCESSES, TASK_KINDS, THREADS

MAX_POOLS: Final = 16
MAX_POOLED: Final = 10_000
"""Maximum number of functions of a pool."""

NO_POOLS: Final[Mapping[str, int]] = MappingProxyType({})
"""The free slots by pool of a worker without pools."""

PoolName = Annotated[str, Meta(pattern=r"^[a-z_]{1,50}$(?!\n)")]


class SlotPool(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of the slots of a worker, and the runs that need one of them."""

    name: PoolName
    slots: Annotated[int, Meta(ge=1, le=100_000)]
    kinds: Annotated[list[Annotated[str, Meta(max_length=50)]], Meta(max_length=50)] = []
    """The task kinds whose runs are in the pool."""
    functions: Annotated[list[Annotated[str, Meta(max_length=200)]], Meta(max_length=MAX_POOLED)] = []
    """The names of the Python functions whose runs are in the pool."""


class SlotPools:
    """The pools of a worker, by the runs that they bound."""

    def __init__(self, pools: Sequence[SlotPool]) -> None:
        self.slots: Final[Mapping[str, int]] = {pool.name: pool.slots for pool in pools}
        """The number of slots of each pool."""
        self._by_kind = {kind: pool.name for pool in pools for kind in pool.kinds}
        self._by_function = {function: pool.name for pool in pools for function in pool.functions}

    def of(self, kind: str, function: str | None) -> str | None:
        """Return the pool of a run with a task of this kind; `function` is the name of its Python function, if it has
        one. None: only the slots of the worker bound such runs."""
        return self._by_kind.get(kind) if function is None else self._by_function.get(function)

    def taken(self, pool: str, slots: int) -> int:
        """Return how many slots of a pool a run takes that takes `slots` slots of the worker. A run that takes more
        slots than the pool has takes all of the pool, and has to wait until the pool is empty."""
        return min(slots, self.slots[pool])


class PoolRoom(Struct):
    """The free slots in the pools of a worker."""

    pools: SlotPools
    left: dict[str, int]
    """The free slots by pool. A pool that is not named is not bounded."""

    @classmethod
    def none(cls) -> PoolRoom:
        return cls(SlotPools(()), {})

    def exceeds(self, before: PoolRoom) -> bool:
        """True if a pool has more free slots than it has in `before`, the earlier room of the worker."""
        return any(slots > before.left.get(pool, 0) for pool, slots in self.left.items())

    def copy(self) -> PoolRoom:
        return PoolRoom(self.pools, dict(self.left))

    def has(self, pool: str | None, slots: int = 1) -> bool:
        """True if the pool has room for a run that takes `slots` slots of the worker, or does not bound its runs."""
        left = None if pool is None else self.left.get(pool)
        return left is None or pool is None or self.pools.taken(pool, slots) <= left

    def take(self, pool: str | None, slots: int = 1) -> None:
        if pool is not None and pool in self.left:
            self.left[pool] -= self.pools.taken(pool, slots)


def pools_of(bounds: SlotBounds, modes: Mapping[str, str], kinds: Sequence[str] | None = None) -> list[SlotPool]:
    """Return the pools of a worker with these bounds: those that have fewer slots than the worker, and may get runs.
    `modes` has the mode of each Python function of the worker by name; `kinds` are the task kinds that the worker
    accepts, None: all of them."""
    pools: list[SlotPool] = []
    for name, slots in ((THREADS, bounds.threads), (PROCESSES, bounds.processes)):
        within = [kind.name for kind in TASK_KINDS if kind.pool == name and (kinds is None or kind.name in kinds)]
        functions = [each for each, mode in modes.items() if FUNCTION_POOLS.get(mode) == name]
        if slots < bounds.slots and (within or functions):
            pools.append(SlotPool(name, slots, within, sorted(functions)[:MAX_POOLED]))
    return pools
