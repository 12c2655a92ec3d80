"""Change the name, the description or the limits of a tenant."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from timeball.domain.errors import Conflict, PreconditionFailed
from timeball.domain.tenant import Tenant, check_limits
from timeball.operation.context import OperationContext
from timeball.operation.tenants.find import find_tenant


async def update_tenant(
    context: OperationContext, tenant_id: str, change: Callable[[Tenant], Tenant], *, if_match: int | None = None
) -> Tenant:
    """Replace a tenant by the result of `change`. A change that changes nothing creates no new version. Raise
    `PreconditionFailed` if the tenant has another version than `if_match`."""
    while True:
        found = await find_tenant(context, tenant_id)
        if if_match is not None and found.version != if_match:
            raise PreconditionFailed(
                f"tenant {tenant_id!r} is at version {found.version}, not {if_match}; read it again"
            )
        if found.state != "active":
            raise Conflict(f"the tenant {tenant_id!r} is being deleted")
        changed = change(found)
        check_limits(changed.limits)
        if changed == found:
            return found
        try:
            updated = await context.store.update_tenant(replace(changed, updated_at=context.store.now()))
            context.limits.note(updated.id, updated.limits)
            return updated
        except PreconditionFailed:  # another request changed it in between
            if if_match is not None:
                raise
