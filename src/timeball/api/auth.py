"""Authentication and authorization. A route declares the permission that it needs. The credential of the request, or
what opened its web session, determines the caller: its tenant, its role and its scopes."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final, assert_never

from timeball.api.sign_in.accounts import Accounts
from timeball.api.sign_in.remember import REMEMBER, remember
from timeball.domain.errors import Unauthorized, Unavailable
from timeball.domain.identity.account import account_id
from timeball.domain.identity.caller import Caller, CredentialKind
from timeball.domain.identity.permission import Permission
from timeball.domain.identity.token_claims import TokenIdentity
from timeball.domain.identity.worker_key import served_tenants
from timeball.domain.instant import DAY, Micros, render
from timeball.operation.context import OperationContext
from timeball.ports.identity_provider import TokenVerifier
from timeball.ports.store.registry import Key
from timeball.ports.store.sign_in import SessionUser, WebSession

MAX_CREDENTIAL_LENGTH: Final = 8_192
TRUSTED_WITHOUT_STORE: Final = DAY
"""Microseconds for which a key that was valid may read metrics while the store does not answer."""
_UNKNOWN: Final[tuple[Micros, Caller | None]] = (0, None)
"""The entry for a key that is not in the cache. It has expired, so that the key is looked up."""


class Authenticator:
    """Looks up API keys by their digest, and caches known and unknown ones for a short time. Bearer tokens are verified
    if an identity provider is configured."""

    def __init__(self, context: OperationContext, accounts: Accounts, tokens: TokenVerifier | None = None) -> None:
        self._store = context.store
        self._clock = context.clock
        self._uses = context.credential_uses
        self._accounts = accounts
        self._tokens = tokens
        self._known: dict[bytes, tuple[Micros, Caller]] = {}
        self._unknown: dict[bytes, Micros] = {}

    async def __call__(self, authorization: bytes | None, permission: Permission) -> Caller:
        if authorization is None:
            raise Unauthorized("this route needs an API key; send it as 'Authorization: Bearer KEY'")
        credential, digest = _read(authorization)
        believed_until, caller = self._known.get(digest) or _UNKNOWN
        if self._clock.monotonic() >= believed_until:
            if self._tokens is not None and self._tokens.accepts(credential):
                user = await self._tokens.verify(credential)
                caller = await self._accounts.admit(caller_of_user(user, "jwt"), user.subject)
            else:
                try:
                    key = await self._find(digest)
                except Unavailable:
                    # metrics are needed most while the store is away
                    if caller is None or permission is not Permission.METRICS or not self._is_recent(believed_until):
                        raise
                    caller.require(permission)
                    return caller
                caller = None if key is None else caller_of(key)
                if key is not None and key.is_expired(self._store.now()):
                    raise Unauthorized(_expired(key))
        if caller is None:
            raise Unauthorized("this API key is unknown; it is mistyped or was revoked")
        caller.require(permission)
        return caller

    def _is_recent(self, believed_until: Micros) -> bool:
        return self._clock.monotonic() - believed_until < TRUSTED_WITHOUT_STORE

    async def find(self, secret: str) -> Key | None:
        """Return the key with this secret; None if it is unknown or was revoked. Raise `Unauthorized` if it has
        expired."""
        key = await self._find(hashlib.sha256(secret.encode()).digest())
        if key is not None and key.is_expired(self._store.now()):
            raise Unauthorized(_expired(key))
        return key

    def forget(self, key: Key) -> None:
        """Remove a revoked key from the cache."""
        self._known.pop(bytes.fromhex(key.digest), None)

    def forget_tenant(self, tenant: str) -> None:
        """Remove the keys of a tenant from the cache."""
        for digest in [digest for digest, (_, caller) in self._known.items() if caller.tenant == tenant]:
            del self._known[digest]

    async def _find(self, digest: bytes) -> Key | None:
        now = self._clock.monotonic()
        if now < self._unknown.get(digest, now):
            return None
        key = await self._store.key_by_digest(digest.hex())
        if key is None:
            self._known.pop(digest, None)
            remember(self._unknown, digest, now + REMEMBER)
            return None
        self._unknown.pop(digest, None)
        time = self._store.now()
        left = REMEMBER if key.expires_at is None else min(REMEMBER, key.expires_at - time)
        if left > 0:
            remember(self._known, digest, (now + left, caller_of(key)))
            self._uses.note(key.id, key.tenant, key.user_id, time)
        else:
            self._known.pop(digest, None)
        return key


@lru_cache(maxsize=1_000)
def _read(authorization: bytes) -> tuple[bytes, bytes]:
    """Return the credential in the header and its digest. They are cached, because a client sends many requests with
    one credential."""
    scheme, _, secret = authorization.partition(b" ")
    secret = secret.strip()
    if scheme.lower() != b"bearer" or not secret or len(secret) > MAX_CREDENTIAL_LENGTH:
        raise Unauthorized("the Authorization header must read 'Bearer KEY'")
    return secret, hashlib.sha256(secret).digest()


def _expired(key: Key) -> str:
    assert key.expires_at is not None
    return f"this API key expired at {render(key.expires_at)}; use another one, or create a new one"


def caller_of(key: Key) -> Caller:
    return _caller(key, "key", key.id)


def caller_of_session(session: WebSession) -> Caller:
    match session.opener:
        case Key() as key:
            return _caller(key, "session", session.id)
        case SessionUser() as user:
            return Caller(
                tenant=user.tenant,
                role=user.effective_role,
                kind="session",
                credential_id=session.id,
                account=user.id,
                name=user.name,
                user_id=user.user_id or user.subject,
            )
        case other:
            assert_never(other)


def _caller(key: Key, kind: CredentialKind, credential_id: str) -> Caller:
    return Caller(
        tenant=key.tenant,
        role=key.effective_role,
        scopes=None if key.scopes is None else frozenset(key.scopes),
        kind=kind,
        credential_id=credential_id,
        key_id=key.id,
        name=key.name or key.id,
        user_id=key.user_id,
        labels=key.labels,
        tenants=served_tenants(key.role, key.tenant, key.tenants),
    )


def caller_of_user(user: TokenIdentity, kind: CredentialKind) -> Caller:
    """Return the caller of a user of the identity provider. Limits are counted by user, since a token is short-lived.
    `Accounts.admit` checks the tenant and the user."""
    return Caller(
        tenant=user.tenant,
        role=user.role,
        kind=kind,
        credential_id=account_id(user.tenant, user.subject),
        name=user.name,
        user_id=user.subject,
    )
