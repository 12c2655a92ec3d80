"""End a web session."""

from __future__ import annotations

from timeball.domain.errors import NotFound
from timeball.operation.context import OperationContext


async def revoke_session(context: OperationContext, tenant: str, session_id: str, *, key_id: str | None = None) -> str:
    """End a session of the tenant, or of one key of it. Return its digest."""
    digest = await context.store.revoke_session(tenant, key_id, session_id)
    if digest is None:
        raise NotFound("session", session_id[:100])
    return digest
