"""Routes that sign browsers in and out. A session acts with the tenant and the role of the key that opened it."""

from __future__ import annotations

import contextlib
from typing import Final

from msgspec import Struct

from timeball.api.auth import GRANTS, check_permission
from timeball.api.bodies import SignInBody
from timeball.api.query import PageQuery
from timeball.api.routes.credential_view import CredentialView, credential_view
from timeball.api.routing import Answer, Call, Permission, Route, answer_json
from timeball.api.rows import rows
from timeball.domain.errors import Invalid, NotFound, Unauthorized
from timeball.domain.ids import is_id
from timeball.domain.instant import render
from timeball.operation.sign_in.create_link import create_link
from timeball.operation.sign_in.open_session import open_with_key, open_with_token
from timeball.operation.sign_in.revoke_session import revoke_session
from timeball.ports.store.registry import Role
from timeball.ports.store.sign_in import WebSession

MAX_SIGN_IN_BYTES: Final = 64 * 1024


class WebSessionView(Struct, frozen=True, rename="camel", kw_only=True):
    id: str
    key_id: str
    name: str
    """The name of the key."""
    role: Role
    created_at: str
    last_used_at: str
    """The time of the last use, exact to 5 minutes."""
    expires_at: str
    """When the session ends if it is not used again."""
    current: bool
    """True if this is the session of the request."""


class SessionList(Struct, frozen=True, rename="camel"):
    items: list[WebSessionView]
    next_cursor: str | None


class SignInLinkView(Struct, frozen=True, rename="camel"):
    url: str
    expires_at: str


async def sign_in(call: Call) -> Answer:
    services = call.services
    services.sessions.admit(call.request.method, call.headers)
    earlier = await services.sessions.current(call.headers)
    secret = services.new_secret()
    session = await _open(call, secret)
    if call.request.client is not None:
        call.request.client.admit()
    if earlier is not None:
        await _end(call, earlier)
    cookie = services.sessions.site.session_cookie(secret)
    return answer_json(credential_view(call, session.key, session), headers=[(b"set-cookie", cookie)])


async def _open(call: Call, secret: str) -> WebSession:
    body: SignInBody = call.body
    if (body.token is None) == (body.api_key is None):
        raise Invalid("send either `token`, from a one-time link, or `apiKey`")
    if body.token is not None:
        return await open_with_token(call.context, body.token, secret)
    key = await call.services.find_key((body.api_key or "").strip())
    if key is None:
        raise Unauthorized("this API key is unknown; it is mistyped or was revoked")
    check_permission(key, Permission.READ)
    return await open_with_key(call.context, key, secret)


async def sign_out(call: Call) -> Answer:
    if call.session is not None:
        await _end(call, call.session)
    return Answer(status=204, headers=[(b"set-cookie", call.services.sessions.site.no_cookie)])


async def _end(call: Call, session: WebSession) -> None:
    """End a session, unless another request has just ended it."""
    with contextlib.suppress(NotFound):
        await revoke_session(call.context, session.key.tenant, session.id)
    call.services.sessions.forget(session.digest)


async def list_sessions(call: Call) -> Answer:
    query: PageQuery = call.query
    page = await call.context.store.list_sessions(call.tenant, _own_key(call), query.after("s"), query.limit)
    shown = rows(page.items, lambda session: _view(session, call), "id", lambda session: session.id)
    return answer_json({"items": shown, "nextCursor": page.next_cursor})


async def revoke(call: Call) -> Answer:
    session_id = call.path["sessionId"]
    if not is_id("s", session_id):
        raise NotFound("session", session_id[:100])
    digest = await revoke_session(call.context, call.tenant, session_id, key_id=_own_key(call))
    call.services.sessions.forget(digest)
    return Answer(status=204)


async def link(call: Call) -> Answer:
    assert call.key is not None
    services = call.services
    site = services.sessions.site
    services.sessions.require_open()
    url, expires_at = await create_link(call.context, call.key.id, site.address.url, services.new_secret())
    return answer_json(SignInLinkView(url, render(expires_at)), 201)


def _own_key(call: Call) -> str | None:
    """Return the id of the request's key. None if it may see and end the sessions of all keys of its tenant."""
    assert call.key is not None
    return None if Permission.ADMIN in GRANTS[call.key.role] else call.key.id


def _view(session: WebSession, call: Call) -> WebSessionView:
    return WebSessionView(
        id=session.id,
        key_id=session.key.id,
        name=session.key.name,
        role=session.key.role,
        created_at=render(session.created_at),
        last_used_at=render(session.last_used_at),
        expires_at=render(session.expires_at),
        current=call.session is not None and call.session.id == session.id,
    )


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/sign-in",
        permission=Permission.PUBLIC,
        summary="Sign a browser in",
        description=(
            "Needs the token of a one-time link, which works once, or an API key. The answer sets the cookie of a"
            " session that ends after 12 hours without use, and after 7 days at the latest. Only the web UI can use it:"
            " the request needs `Sec-Fetch-Site: same-origin`, or an `Origin` that is the address of this server, and"
            " `Content-Type: application/json`. Other clients send their key with each request."
        ),
        handle=sign_in,
        body=SignInBody,
        limit=MAX_SIGN_IN_BYTES,
        answer=CredentialView,
        problems=(401, 403),
        example={"token": "tb_nVXpb2WLgRr5Nq1JUCn6jFn3Cw0W5qpq0kXlX1yB1mE"},
    ),
    Route(
        method="POST",
        path="/v1/sign-out",
        permission=Permission.KEY,
        summary="Sign a browser out",
        description="Ends the session of the request and removes its cookie.",
        handle=sign_out,
        status=204,
    ),
    Route(
        method="GET",
        path="/v1/sessions",
        permission=Permission.KEY,
        summary="List the browsers that are signed in",
        description="Newest first. A key without the `admin` permission sees only its own sessions.",
        handle=list_sessions,
        query=PageQuery,
        answer=SessionList,
    ),
    Route(
        method="DELETE",
        path="/v1/sessions/{sessionId}",
        permission=Permission.KEY,
        summary="End a session",
        description="Takes effect at once on this server, and within 3 seconds on the others.",
        handle=revoke,
        status=204,
        problems=(404,),
    ),
    Route(
        method="POST",
        path="/v1/sign-in-links",
        permission=Permission.ADMIN,
        summary="Create a one-time sign-in link",
        description=(
            "The link opens the web UI, signed in with the key of this request. It works once, within 10 minutes. The"
            " token is in the fragment of the URL, which browsers send to no server."
        ),
        handle=link,
        answer=SignInLinkView,
        status=201,
    ),
)
