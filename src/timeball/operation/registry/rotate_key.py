"""Rotate an API key: a new key with the same rules replaces it, and both are valid for some time."""

from __future__ import annotations

import hashlib
from typing import Final

from msgspec.structs import replace

from timeball.domain import ids
from timeball.domain.identity.caller import Caller
from timeball.domain.instant import DAY, Micros
from timeball.operation.context import OperationContext
from timeball.operation.registry.revoke_key import find_key
from timeball.ports.store.registry import Key

DEFAULT_OVERLAP: Final = DAY
MAX_OVERLAP: Final = 90 * DAY


async def rotate_key(
    context: OperationContext, caller: Caller, key_id: str, overlap: Micros, secret: str
) -> tuple[Key, Key]:
    """Create a key with the rules of a key of the caller's tenant, and let the old one expire after `overlap`. Return
    the old key and the new one. A key that has an expiry gets the same lifetime again."""
    old = await find_key(context, caller, key_id)
    now = context.store.now()
    lifetime = None if old.expires_at is None else old.expires_at - old.created_at
    new = replace(
        old,
        id=ids.make("k", now, context.rng),
        digest=hashlib.sha256(secret.encode()).hexdigest(),
        created_at=now,
        expires_at=None if lifetime is None else now + lifetime,
        last_used_at=None,
        replaces=old.id,
    )
    await context.store.rotate_key(new, now + overlap)
    return old, new
