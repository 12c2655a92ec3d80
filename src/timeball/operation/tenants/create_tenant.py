"""Create a tenant."""

from __future__ import annotations

from msgspec.structs import replace

from timeball.domain.errors import Invalid
from timeball.domain.tenant import TENANT_ID, Tenant, check_limits
from timeball.operation.context import OperationContext


async def create_tenant(context: OperationContext, tenant: Tenant) -> Tenant:
    """Create a tenant. Raise `Conflict` if its id is in use."""
    if not TENANT_ID.fullmatch(tenant.id):
        form = "a tenantId has 1 to 63 lower-case letters, digits, _ and -, and begins with a letter or a digit"
        raise Invalid(form, "/tenantId")
    check_limits(tenant.limits)
    now = context.store.now()
    created = await context.store.create_tenant(replace(tenant, created_at=now, updated_at=now))
    context.limits.note(created.id, created.limits)
    return created
