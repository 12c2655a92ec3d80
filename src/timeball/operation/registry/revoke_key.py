"""Revoke an API key."""

from __future__ import annotations

from timeball.domain.errors import Conflict, NotFound
from timeball.operation.context import OperationContext
from timeball.ports.store.registry import Key


async def revoke_key(context: OperationContext, tenant: str, key_id: str, *, used: str | None) -> Key:
    """Revoke a key. `used` is the id of the key of the request: a key cannot revoke itself, so that one key is always
    left."""
    keys = await context.store.keys()
    key = next((key for key in keys if key.id == key_id and key.tenant == tenant), None)
    if key is None:
        raise NotFound("key", key_id[:100])
    if key.id == used:
        raise Conflict("this is the key you are using; revoke it with another one")
    await context.store.revoke_key(key.id)
    return key
