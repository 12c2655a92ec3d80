"""Revoke an API key."""

from __future__ import annotations

from timeball.domain.errors import Conflict, NotFound
from timeball.domain.identity.caller import Caller
from timeball.operation.context import OperationContext
from timeball.ports.store.registry import Key


async def revoke_key(context: OperationContext, caller: Caller, key_id: str) -> Key:
    """Revoke a key of the caller's tenant. Raise `Conflict` if it is the key of the request, so that one key is always
    left, and `Forbidden` if it can do what the caller may not."""
    key = await find_key(context, caller, key_id)
    if key.id == caller.key_id:
        raise Conflict("this is the key you are using; revoke it with another one")
    await context.store.revoke_key(key.id)
    return key


async def find_key(context: OperationContext, caller: Caller, key_id: str) -> Key:
    """Return a key of the caller's tenant. Raise `Forbidden` if the caller may not manage it."""
    key = await context.store.key(caller.tenant, key_id)
    if key is None:
        raise NotFound("key", key_id[:100])
    caller.require_grant(key.role, key.scopes)
    return key
