"""The limits of the tenants, as a server knows them. `TenantLimitReader` reads them from the store once a second, so
that requests and claims do not have to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from timeball.domain.network.address_lists import NO_LISTS, AddressLists
from timeball.domain.tenant import NO_LIMITS, TenantLimits


class KnownLimits:
    def __init__(self) -> None:
        self.by_tenant: Mapping[str, TenantLimits] = {}
        """The limits of the tenants that have any."""
        self.address_lists: Mapping[str, AddressLists] = {}
        """The address lists of the tenants that have any. The gateway sends them to the workers."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when limits have changed."""

    def of(self, tenant: str) -> TenantLimits:
        return self.by_tenant.get(tenant, NO_LIMITS)

    def replace(self, limits: Mapping[str, TenantLimits]) -> None:
        """Replace the limits of all tenants by those that the store has."""
        if limits != self.by_tenant:
            self.by_tenant = limits
            lists = {tenant: each.address_lists for tenant, each in limits.items()}
            self.address_lists = {tenant: each for tenant, each in lists.items() if each != NO_LISTS}
            self.on_change()

    def note(self, tenant: str, limits: TenantLimits) -> None:
        """Replace the limits of one tenant, which this server has just stored."""
        others = {name: known for name, known in self.by_tenant.items() if name != tenant}
        self.replace(others if limits == NO_LIMITS else {**others, tenant: limits})
