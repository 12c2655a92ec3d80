"""The quotas of running runs of tenants, as a claim checks them.

The running runs are counted from their rows, so that a quota cannot leak, however an attempt ends. Only one claim at a
time counts the runs of a tenant: it locks the tenant. Installations without such quotas execute no statement for this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from timeball.domain.dispatch.fair_share import FairShares
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.statements import query

LOCK_TENANTS = query("lock_tenants")
RUNNING_OF_TENANTS = query("running_of_tenants")


class Room:
    """How many more runs of each tenant with a quota of running runs a claim may assign."""

    def __init__(self, left: Mapping[str, int]) -> None:
        self._left = dict(left)
        self.is_short = False
        """True if `has` refused a run."""

    def has(self, tenant: str) -> bool:
        if self._left.get(tenant, 1) > 0:
            return True
        self.is_short = True
        return False

    def take(self, tenant: str) -> None:
        if tenant in self._left:
            self._left[tenant] -= 1


async def room(tx: Tx, sharing: FairShares, tenants: Iterable[str]) -> Room:
    """Lock the tenants of waiting runs that have a quota of running runs, and return how many more of their runs may be
    assigned: none for a tenant that another claim has locked."""
    if not sharing.shares:
        return Room({})
    limits = sharing.limits(sorted(set(tenants)))
    if not limits:
        return Room({})
    locked = [tenant for (tenant,) in await tx.fetch(LOCK_TENANTS, b=list(limits))]
    count = await running(tx, locked) if locked else {}
    left = {tenant: limits[tenant] - count.get(tenant, 0) for tenant in locked}
    return Room({tenant: left.get(tenant, 0) for tenant in limits})


async def running(tx: Tx, tenants: Sequence[str]) -> dict[str, int]:
    """Return the numbers of running runs of tenants, without tenants that have none."""
    return dict(await tx.fetch(RUNNING_OF_TENANTS, b=list(tenants)))
