"""Find tenants and users."""

from __future__ import annotations

from timeball.domain.errors import Conflict, NotFound
from timeball.domain.identity.user import User
from timeball.domain.tenant import Tenant
from timeball.operation.context import OperationContext


async def find_tenant(context: OperationContext, tenant_id: str) -> Tenant:
    tenant = await context.store.tenant(tenant_id)
    if tenant is None:
        raise NotFound("tenant", tenant_id[:100])
    return tenant


async def find_active_tenant(context: OperationContext, tenant_id: str) -> Tenant:
    """Return a tenant. Raise `Conflict` if it is being deleted."""
    tenant = await find_tenant(context, tenant_id)
    if tenant.state != "active":
        raise Conflict(f"the tenant {tenant_id!r} is being deleted")
    return tenant


async def find_user(context: OperationContext, tenant: str, user_id: str) -> User:
    user = await context.store.user(tenant, user_id)
    if user is None:
        raise NotFound("user", user_id[:100])
    return user
