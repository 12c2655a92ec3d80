"""Fair shares: in which order a claim considers the runs of several tenants.

Every tenant with ready runs has a mark: the slots that it got, divided by its weight. The tenant with the lowest mark
is next, and its run of the best rank is considered. So tenants that always have ready runs get slots in the ratio of
their weights, and the priorities of one tenant do not concern the others. A tenant that had no ready runs begins at the
lowest mark of the tenants that wait: it gets no slots for the time before, and waits for no more than one run of each
other tenant. A slot that no waiting run of another tenant could use does not change the mark: the slots of a worker
that serves only one tenant do not count against the share of this tenant in the other workers.
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
    """The weight of a tenant when tenants compete for slots, and its limit of running runs."""

    weight: float = 1.0
    concurrent_runs: int | None = None
    """Maximum number of running runs of the tenant; None: no limit."""


_EQUAL: Final = TenantShare()


class _OfTenant(Protocol):
    @property
    def tenant(self) -> str: ...


_Each = TypeVar("_Each", bound=_OfTenant)


class FairShares:
    """The marks of the tenants, which each server keeps in memory. They are lost when the server ends, which
    delays no tenant by more than one run of each other tenant."""

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
        """Return how many runs of each of these tenants a claim reads to fill a number of slots: one more than twice
        the largest share, because some tenants may have fewer runs than their share. Never more than `slots`."""
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
        # A mark that is not above `_served` has no effect: `_mark` returns `_served` for its tenant, too.
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
        """Add the slots that a run of a tenant got on a worker to the mark of the tenant. `serves` tells whether the
        worker could execute runs of a tenant. If it serves none of the other waiting tenants, the mark does not
        change."""
        if not any(serves(other) for _, _, other in self._line):
            return
        mark = self._mark(tenant)
        self._served = max(self._served, min(mark, self._line[0][0]))
        self._marks[tenant] = mark + round(slots * UNIT / self.share(tenant).weight)

    def _mark(self, tenant: str) -> int:
        return max(self._marks.get(tenant, 0), self._served)
