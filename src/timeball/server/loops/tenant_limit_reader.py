"""The loop that reads the limits of the tenants from the store once a second, so that requests and claims do not have
to. A server that changes a tenant applies the new limits at once, the other servers within a second."""

from __future__ import annotations

from timeball.domain.dispatch.fair_share import TenantShare
from timeball.domain.instant import Micros
from timeball.domain.tenant import NO_QUOTAS
from timeball.operation.context import OperationContext
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalWakeups


class TenantLimitReader(Loop):
    name = "tenant_limit_reader"
    serves_requests = True
    is_required = False  # the limits that were read before still hold

    def __init__(self, context: OperationContext, wakeups: LocalWakeups) -> None:
        super().__init__(context.clock, wakeups)
        self._store = context.store
        self._limits = context.limits
        self._limits.on_change = self._apply

    async def turn(self) -> Micros:
        self._limits.replace(await self._store.tenant_limits())
        return TICK

    def _apply(self) -> None:
        known = self._limits.by_tenant.items()
        shares = {tenant: TenantShare(limits.weight, limits.concurrent_runs) for tenant, limits in known}
        quotas = {tenant: limits.quotas for tenant, limits in known}
        self._store.share_workers({tenant: share for tenant, share in shares.items() if share != TenantShare()})
        self._store.enforce_quotas({tenant: quota for tenant, quota in quotas.items() if quota != NO_QUOTAS})
