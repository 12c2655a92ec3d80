"""Sign a browser in, with an API key or with the token of a one-time link."""

from __future__ import annotations

import hashlib

from timeball.domain import ids
from timeball.domain.errors import Unauthorized
from timeball.operation.context import OperationContext
from timeball.ports.store.registry import Key
from timeball.ports.store.sign_in import NewSession, WebSession


async def open_with_token(context: OperationContext, token: str, secret: str) -> WebSession:
    """Open a session with the key that created the token. The token works once, also if it is sent several times at the
    same time. An unknown token costs a read and no write.
    """
    digest = _digest(token)
    session = None
    if await context.store.has_sign_in_token(digest):
        session = await context.store.exchange_token(_new(context, secret), digest)
    if session is None:
        raise Unauthorized("this link was used before or has expired; create another one with `timeball open`")
    return session


async def open_with_key(context: OperationContext, key: Key, secret: str) -> WebSession:
    session = await context.store.open_web_session(_new(context, secret), key.id)
    if session is None:
        raise Unauthorized("this API key was revoked")
    return session


def _new(context: OperationContext, secret: str) -> NewSession:
    """Return a new session. Only the digest of the secret is stored."""
    return NewSession(id=ids.make("s", context.store.now(), context.rng), digest=_digest(secret))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
