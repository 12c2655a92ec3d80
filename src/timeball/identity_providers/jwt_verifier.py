"""Verifies bearer tokens. A verified token is remembered by its digest, so that the next request with it needs no new
verification, until it expires or its key is not valid any more. At most `MAX_REMEMBERED_TOKENS` are remembered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from timeball.domain.errors import Unauthorized
from timeball.domain.identity.token_claims import CLOCK_LEEWAY, ClaimRules, TokenIdentity, identify
from timeball.domain.instant import Micros
from timeball.identity_providers import compact_token
from timeball.identity_providers.key_set import VerificationKeys
from timeball.identity_providers.verification_key import VerificationKey

MAX_REMEMBERED_TOKENS: Final = 10_000


class _Verified(Struct, frozen=True):
    identity: TokenIdentity
    key_id: str | None
    key: VerificationKey


class JwtVerifier:
    """Implements `ports.identity_provider.TokenVerifier`. `now` returns the time of the store."""

    def __init__(self, rules: ClaimRules, keys: VerificationKeys, now: Callable[[], Micros]) -> None:
        self._rules = rules
        self._keys = keys
        self._now = now
        self._verified: dict[bytes, _Verified] = {}

    def accepts(self, credential: bytes) -> bool:
        return compact_token.looks_like_token(credential)

    async def verify(self, token: bytes) -> TokenIdentity:
        digest = hashlib.sha256(token).digest()
        if (known := self._remembered(digest)) is not None:
            return known
        read = compact_token.read(token)
        key = await verify_signature(read, self._keys)
        identity = identify(read.claims(), self._rules, self._now())
        if len(self._verified) >= MAX_REMEMBERED_TOKENS:
            del self._verified[next(iter(self._verified))]
        self._verified[digest] = _Verified(identity, read.key_id, key)
        return identity

    def _remembered(self, digest: bytes) -> TokenIdentity | None:
        """Return the user of a token that was verified before, if the token and its key are still valid."""
        known = self._verified.get(digest)
        if known is None:
            return None
        if known.identity.expires_at + CLOCK_LEEWAY > self._now() and self._keys.current(known.key_id) == known.key:
            return known.identity
        del self._verified[digest]
        return None


async def verify_signature(token: compact_token.CompactToken, keys: VerificationKeys) -> VerificationKey:
    """Return the key that the token is signed with. Raise `Unauthorized` if the key is unknown or the signature is
    wrong."""
    key = await keys.find(token.key_id)
    if not key.verifies(token):
        raise Unauthorized("the signature of the token is wrong, or its 'alg' is not that of its key")
    return key
