"""Authentication and authorization. A route declares the permission that it needs. The API key of the request, or the
API key that opened its web session, determines the tenant and the role."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

from timeball.api.routing import Permission
from timeball.api.sign_in.remember import REMEMBER, remember
from timeball.domain.errors import Forbidden, Unauthorized
from timeball.domain.instant import Micros
from timeball.ports.clock import Clock
from timeball.ports.store.registry import Key, KeyStore, Role

MAX_KEY_LENGTH: Final = 4_096
_UNKNOWN: Final[tuple[Micros, Key | None]] = (0, None)
"""Stands for a key that is not in the cache of known keys: an entry that has expired, so that the key is looked up."""

GRANTS: Final[dict[Role, frozenset[Permission]]] = {
    "admin": frozenset(Permission),
    "worker": frozenset({Permission.PUBLIC, Permission.KEY, Permission.WORKER}),
}


class Authenticator:
    """Looks up API keys by their digest, and caches known and unknown ones for a moment."""

    def __init__(self, keys: KeyStore, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._known: dict[bytes, tuple[Micros, Key]] = {}
        self._unknown: dict[bytes, Micros] = {}

    async def __call__(self, authorization: bytes | None, permission: Permission) -> Key:
        if authorization is None:
            raise Unauthorized("this route needs an API key; send it as 'Authorization: Bearer KEY'")
        digest = _digest(authorization)
        believed_until, key = self._known.get(digest) or _UNKNOWN
        if self._clock.monotonic() >= believed_until:
            key = await self._find(digest)
        if key is None:
            raise Unauthorized("this API key is unknown; it is mistyped or was revoked")
        if permission not in GRANTS[key.role]:
            raise _missing(key, permission)
        return key

    async def find(self, secret: str) -> Key | None:
        """Return the valid key with this secret, or None."""
        return await self._find(hashlib.sha256(secret.encode()).digest())

    def forget(self, key: Key) -> None:
        """Remove a revoked key from the cache."""
        self._known.pop(bytes.fromhex(key.digest), None)

    async def _find(self, digest: bytes) -> Key | None:
        now = self._clock.monotonic()
        if now < self._unknown.get(digest, now):
            return None
        key = await self._keys.key_by_digest(digest.hex())
        if key is None:
            self._known.pop(digest, None)
            remember(self._unknown, digest, now + REMEMBER)
        else:
            self._unknown.pop(digest, None)
            remember(self._known, digest, (now + REMEMBER, key))
        return key


@lru_cache(maxsize=1_000)
def _digest(authorization: bytes) -> bytes:
    """Return the digest of the key in the header. It is cached, because a client sends many requests with one key."""
    scheme, _, secret = authorization.partition(b" ")
    secret = secret.strip()
    if scheme.lower() != b"bearer" or not secret or len(secret) > MAX_KEY_LENGTH:
        raise Unauthorized("the Authorization header must read 'Bearer KEY'")
    return hashlib.sha256(secret).digest()


def check_permission(key: Key, permission: Permission) -> None:
    """Raise `Forbidden` if the role of the key does not have the permission."""
    if permission not in GRANTS[key.role]:
        raise _missing(key, permission)


def _missing(key: Key, permission: Permission) -> Forbidden:
    return Forbidden(f"a key with the role {key.role!r} has no {permission.value!r} permission")
