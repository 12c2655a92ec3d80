"""Create an API key."""

from __future__ import annotations

import hashlib

from timeball.domain import ids
from timeball.operation.context import OperationContext
from timeball.ports.store.registry import Key, Role


async def create_key(context: OperationContext, tenant: str, role: Role, name: str, secret: str) -> Key:
    """Create a key. Only the digest of the secret is stored."""
    now = context.store.now()
    key = Key(
        id=ids.make("k", now, context.rng),
        tenant=tenant,
        name=name,
        role=role,
        digest=hashlib.sha256(secret.encode()).hexdigest(),
        created_at=now,
    )
    await context.store.add_key(key)
    return key
