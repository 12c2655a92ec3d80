"""The credential of a request, as `GET /v1/me` shows it."""

from __future__ import annotations

from msgspec import Struct

from timeball.api.routing import Call
from timeball.domain.identity.caller import Caller, CredentialKind
from timeball.domain.identity.permission import OF_ALL, Permission
from timeball.domain.identity.role import Role
from timeball.domain.instant import render
from timeball.domain.schedule import zone
from timeball.ports.store.sign_in import WebSession
from timeball.ports.store.store import StoreKind


class ServerView(Struct, frozen=True, rename="camel", kw_only=True):
    version: str
    store: StoreKind
    now: str
    """The time of the store."""
    tzdata: str
    """The release of the time zone database that the server uses."""
    public_url: str | None


class SessionView(Struct, frozen=True, rename="camel", kw_only=True):
    id: str
    created_at: str
    expires_at: str
    """When the session ends if it is not used again."""


class CredentialView(Struct, frozen=True, rename="camel", kw_only=True):
    key_id: str | None
    """The API key; null if the credential is a token."""
    name: str
    role: Role
    tenant: str
    permissions: list[str]
    """The permissions of the credential. A route can be used if its `x-permission` is one of these."""
    via: CredentialKind
    session: SessionView | None
    server: ServerView


def credential_view(call: Call, caller: Caller, session: WebSession | None = None) -> CredentialView:
    services = call.services
    return CredentialView(
        key_id=caller.key_id,
        name=caller.name,
        role=caller.role,
        tenant=caller.tenant,
        permissions=[each.value for each in Permission if each in caller.permissions - OF_ALL],
        via=caller.kind,
        session=None if session is None else _session(session),
        server=ServerView(
            version=services.version,
            store=services.context.store.kind,
            now=render(services.context.store.now()),
            tzdata=zone.version(),
            public_url=services.sessions.site.public_url,
        ),
    )


def _session(session: WebSession) -> SessionView:
    return SessionView(id=session.id, created_at=render(session.created_at), expires_at=render(session.expires_at))
