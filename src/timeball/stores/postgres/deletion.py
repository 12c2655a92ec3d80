"""The end of the deletion of a tenant on PostgreSQL, where other transactions insert jobs at the same time."""

from __future__ import annotations

from typing import Final

from timeball.ports.store.maintenance import Lead
from timeball.stores.postgres.partitions import NO_WAITING, not_waiting
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.maintenance.tenant_deletion import TenantDeletions

EXCLUDE_SUBMITS: Final = Query("exclude_submits", "LOCK TABLE jobs IN SHARE MODE")


class LockedTenantDeletions(TenantDeletions):
    async def end_deletion(self, lead: Lead, tenant: str) -> bool:
        async with not_waiting():
            return await super().end_deletion(lead, tenant)

    async def _exclude_submits(self, tx: Tx) -> None:
        """Lock the table of jobs against inserts, and so wait for the transactions that have inserted jobs: they may
        have begun before the tenant was marked as being deleted. The request for the lock fails after 100 ms, because
        later transactions wait behind it."""
        await tx.execute(NO_WAITING)
        await tx.execute(EXCLUDE_SUBMITS)
