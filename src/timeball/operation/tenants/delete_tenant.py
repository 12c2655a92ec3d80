"""Request the deletion of a tenant. The maintenance loop carries it out (`deleter`)."""

from __future__ import annotations

from timeball.domain.audit_log.entry import Actor
from timeball.domain.errors import Conflict
from timeball.domain.identity.caller import Caller
from timeball.domain.run.status import LIVE
from timeball.domain.tenant import DEFAULT_TENANT, TenantDeletion
from timeball.operation.context import OperationContext
from timeball.operation.runs.cancel import CANCELLED_AT_ONCE, cancel_runs
from timeball.ports.store.queries import RunFilter
from timeball.ports.wakeups import Topic


async def delete_tenant(context: OperationContext, caller: Caller, tenant_id: str, address: str) -> TenantDeletion:
    """Mark a tenant as being deleted, and cancel its live runs. Raise `Conflict` for the default tenant, and for the
    tenant of the caller. Repeating it changes nothing."""
    if tenant_id == DEFAULT_TENANT:
        raise Conflict("the tenant 'default' cannot be deleted")
    if tenant_id == caller.tenant:
        raise Conflict("this is the tenant of your credential; delete it with a credential of another tenant")
    actor = Actor(kind=caller.kind, id=caller.credential, name=caller.name, user_id=caller.user_id or "")
    deletion = await context.store.begin_deletion(tenant_id, actor, address)
    context.wakeups.wake(Topic.MAINTENANCE)
    live = RunFilter(tenant=tenant_id, status=frozenset(LIVE))
    if runs := await context.store.match_runs(live, None, CANCELLED_AT_ONCE):
        await cancel_runs(context, runs)
    return deletion
