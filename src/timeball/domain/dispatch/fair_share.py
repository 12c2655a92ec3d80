"""Fair shares: in which order a claim considers the runs of several tenants.

Every tenant with ready runs has a mark: the slots that it got, divided by its weight. The tenant with the lowest mark
is next, and its run of the best rank is considered. So tenants that always have ready runs get slots in the ratio of
their weights, and the priorities of one tenant do not concern the others. A tenant that had no ready runs begins at the
mark of the tenants that wait: it saves no claim to slots up, and waits for no more than one run of each other tenant.
A slot that no waiting run of another tenant could use moves no mark: those of a worker that serves one tenant only say
nothing about the share of this tenant in the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, Protocol, TypeVar

from msgspec import Struct

UNIT: Final = 1_000_000
"""The distance by which one slot moves the mark of a tenant with the weight 1."""


class TenantShare(Struct, frozen=True):
    """How a tenant shares the workers with others."""

    weight: float = 1.0
    concurrent_runs: int | None = None
    """Maximum number of running runs of the tenant; None: no limit."""


_EQUAL: Final = TenantShare()


class _OfTenant(Protocol):
    @property
    def tenant(self) -> str: ...


_Each = TypeVar("_Each", bound=_OfTenant)


class FairShares:
    """The marks of the tenants, as one server knows them. They are lost when it ends, which costs no tenant more than
    one run."""

    def __init__(self) -> None:
        self.shares: Mapping[str, TenantShare] = {}
        """The shares of the tenants that have rules. Every other tenant has the weight 1 and no limit."""
        self._marks: dict[str, int] = {}
        self._served: int = 0
        """The lowest mark of the tenants that waited when the last slot was given."""
        self._line: list[tuple[int, int, str]] = []
        """The other tenants whose runs `in_turn` has not yielded yet: mark, turn and name, the lowest mark first."""

    def share(self, tenant: str) -> TenantShare:
        return self.shares.get(tenant, _EQUAL)

    def limits(self, tenants: Sequence[str]) -> dict[str, int]:
        """Return the maximum numbers of running runs of those of these tenants that have one."""
        found = ((tenant, self.share(tenant).concurrent_runs) for tenant in tenants)
        return {tenant: limit for tenant, limit in found if limit is not None}

    def quota(self, slots: int, tenants: Sequence[str]) -> int:
        """Return a number of runs of each tenant that is enough for a claim of so many slots. It is twice the largest
        share, because some tenants may have fewer runs."""
        weights = [self.share(tenant).weight for tenant in tenants]
        return min(slots, 1 + int(2 * slots * max(weights) / sum(weights))) if weights else slots

    def in_turn(self, runs: Sequence[_Each]) -> Iterator[_Each]:
        """Yield runs in fair order. `runs` are sorted by rank. The caller charges the tenant of each run that gets
        slots."""
        line: list[tuple[int, int, str]] = []
        self._line = line
        queues: dict[str, deque[_Each]] = {}
        for run in runs:
            queues.setdefault(run.tenant, deque()).append(run)
        if len(queues) < 2:
            yield from runs
            return
        # Every other mark has been overtaken, and does not matter any more.
        self._marks = {tenant: mark for tenant, mark in self._marks.items() if mark > self._served}
        for turn, tenant in enumerate(queues):
            heappush(line, (self._mark(tenant), turn, tenant))
        turn = len(queues)
        while line:
            _, _, tenant = heappop(line)
            yield queues[tenant].popleft()
            if queues[tenant]:
                turn += 1
                heappush(line, (self._mark(tenant), turn, tenant))

    def charge(self, tenant: str, slots: int, serves: Callable[[str], bool]) -> None:
        """Add slots that a tenant got of a worker to the tenant's mark. `serves` is whether the worker could execute
        runs of a tenant: if it serves none of the other waiting tenants, the mark does not change."""
        if not any(serves(other) for _, _, other in self._line):
            return
        mark = self._mark(tenant)
        self._served = max(self._served, min(mark, self._line[0][0]))
        self._marks[tenant] = mark + round(slots * UNIT / self.share(tenant).weight)

    def _mark(self, tenant: str) -> int:
        return max(self._marks.get(tenant, 0), self._served)
