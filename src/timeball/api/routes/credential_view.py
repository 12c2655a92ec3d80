"""The credential of a request, as `GET /v1/me` shows it."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from timeball.api.auth import GRANTS
from timeball.api.routing import Call, Permission
from timeball.domain.instant import render
from timeball.ports.store.registry import Key, Role
from timeball.ports.store.sign_in import WebSession
from timeball.ports.store.store import StoreKind

_OF_ALL_KEYS: Final = frozenset({Permission.PUBLIC, Permission.KEY})


class ServerView(Struct, frozen=True, rename="camel", kw_only=True):
    version: str
    store: StoreKind
    now: str
    """The time of the store."""
    public_url: str | None


class SessionView(Struct, frozen=True, rename="camel", kw_only=True):
    id: str
    created_at: str
    expires_at: str
    """When the session ends if it is not used again."""


class CredentialView(Struct, frozen=True, rename="camel", kw_only=True):
    key_id: str
    name: str
    role: Role
    tenant: str
    permissions: list[str]
    """The permissions of the credential. A route can be used if its `x-permission` is one of these."""
    via: Literal["key", "session"]
    session: SessionView | None
    server: ServerView


def credential_view(call: Call, key: Key, session: WebSession | None = None) -> CredentialView:
    services = call.services
    return CredentialView(
        key_id=key.id,
        name=key.name,
        role=key.role,
        tenant=key.tenant,
        permissions=[each.value for each in Permission if each in GRANTS[key.role] and each not in _OF_ALL_KEYS],
        via="key" if session is None else "session",
        session=None if session is None else _session(session),
        server=ServerView(
            version=services.version,
            store=services.context.store.kind,
            now=render(services.context.store.now()),
            public_url=services.sessions.site.public_url,
        ),
    )


def _session(session: WebSession) -> SessionView:
    return SessionView(id=session.id, created_at=render(session.created_at), expires_at=render(session.expires_at))
