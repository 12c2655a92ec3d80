"""Routes that sign browsers in and out. A session acts with the tenant and the role of the key, or of the user of the
identity provider, that opened it."""

from __future__ import annotations

import contextlib
from typing import Final

from msgspec import Struct

from timeball.api.auth import caller_of, caller_of_session
from timeball.api.bodies import SignInBody
from timeball.api.problems import SignInRefused
from timeball.api.query import PageQuery
from timeball.api.routes.credential_view import CredentialView, credential_view
from timeball.api.routing import Answer, Call, Headers, Route, answer_json
from timeball.api.rows import rows
from timeball.domain.errors import Conflict, Invalid, NotFound, Unauthorized
from timeball.domain.identity.permission import Permission
from timeball.domain.identity.role import Role
from timeball.domain.ids import is_id
from timeball.domain.instant import render
from timeball.operation.sign_in import use_provider
from timeball.operation.sign_in.create_link import create_link
from timeball.operation.sign_in.open_session import open_with_key, open_with_token
from timeball.operation.sign_in.revoke_session import revoke_session
from timeball.operation.sign_in.use_provider import ProviderAnswer, sign_out_url
from timeball.ports.identity_provider import SignInProvider
from timeball.ports.store.registry import Key
from timeball.ports.store.sign_in import SessionUser, WebSession

MAX_SIGN_IN_BYTES: Final = 64 * 1024


class WebSessionView(Struct, frozen=True, rename="camel", kw_only=True):
    id: str
    key_id: str | None
    """The API key that opened the session; null if a user of the identity provider did."""
    name: str
    """The name of the key or of the user."""
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


class SignInProviderView(Struct, frozen=True, rename="camel"):
    name: str | None
    """The name of the identity provider; null if browsers sign in with API keys and links only."""


class ProviderPageView(Struct, frozen=True, rename="camel"):
    url: str
    """The page of the identity provider that the browser has to open."""


class SignedOutView(Struct, frozen=True, rename="camel"):
    provider_url: str | None
    """The page of the identity provider that ends its own session; null if there is none to end."""


async def show_provider(call: Call) -> Answer:
    provider = call.services.sign_in
    return answer_json(SignInProviderView(None if provider is None else provider.name))


async def begin_at_provider(call: Call) -> Answer:
    services = call.services
    services.sessions.admit(call.request.method, call.headers)
    site, provider = services.sessions.site, _provider(call)
    origin = call.headers.get(b"origin")
    if origin is not None and origin.decode("latin-1") != site.address.origin:
        raise SignInRefused(f"the identity provider sends browsers back to another address: open {site.address.url}")
    cookie, url = await use_provider.begin(call.context, provider, services.new_secret(), site.sign_in_url)
    return answer_json(ProviderPageView(url), headers=[(b"set-cookie", site.attempt_cookie(cookie))])


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
    site = services.sessions.site
    headers: Headers = [(b"set-cookie", site.session_cookie(secret))]
    if isinstance(session.opener, SessionUser):
        headers.append((b"set-cookie", site.no_attempt_cookie))
    return answer_json(credential_view(call, caller_of_session(session), session), headers=headers)


async def _open(call: Call, secret: str) -> WebSession:
    body: SignInBody = call.body
    if [body.token, body.api_key, body.provider].count(None) != 2:
        raise Invalid("send one of `token`, from a one-time link, `apiKey` and `provider`")
    if body.token is not None:
        return await open_with_token(call.context, body.token, secret)
    if body.provider is not None:
        answer = ProviderAnswer(body.provider.code, body.provider.state, body.provider.iss)
        sessions = call.services.sessions
        attempt, site = sessions.attempt(call.headers), sessions.site
        return await use_provider.finish(call.context, _provider(call), attempt, answer, site.sign_in_url, secret)
    key = await call.services.find_key((body.api_key or "").strip())
    if key is None:
        raise Unauthorized("this API key is unknown; it is mistyped or was revoked")
    caller_of(key).require(Permission.READ)
    return await open_with_key(call.context, key, secret)


def _provider(call: Call) -> SignInProvider:
    if call.services.sign_in is None:
        raise Conflict("browsers do not sign in with an identity provider here: this server has no oidc_client_id")
    return call.services.sign_in


async def sign_out(call: Call) -> Answer:
    session, site = call.session, call.services.sessions.site
    url = None
    if session is not None:
        await _end(call, session)
        if isinstance(session.opener, SessionUser):
            url = await sign_out_url(_provider(call), site.sign_in_url)
    return answer_json(SignedOutView(url), headers=[(b"set-cookie", site.no_cookie)])


async def _end(call: Call, session: WebSession) -> None:
    """End a session, unless another request has just ended it."""
    with contextlib.suppress(NotFound):
        await revoke_session(call.context, session.opener.tenant, session.id)
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
    key_id = call.caller.key_id
    if key_id is None:
        raise Conflict("a link signs in with an API key: create it with one")
    services = call.services
    site = services.sessions.site
    services.sessions.require_open()
    url, expires_at = await create_link(call.context, key_id, site.address.url, services.new_secret())
    return answer_json(SignInLinkView(url, render(expires_at)), 201)


def _own_key(call: Call) -> str | None:
    """Return the id of the request's key or user. None if it may see and end all sessions of its tenant."""
    return None if call.caller.may(Permission.ADMIN) else call.caller.credential


def _view(session: WebSession, call: Call) -> WebSessionView:
    return WebSessionView(
        id=session.id,
        key_id=session.opener.id if isinstance(session.opener, Key) else None,
        name=session.opener.name,
        role=session.opener.role,
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
        audit="session.open",
        description=(
            "Needs the token of a one-time link, which works once, an API key, or the answer of the identity provider"
            " to a sign-in that this browser began within 10 minutes. The answer sets the cookie of a session that ends"
            " after 12 hours without use, and after 7 days at the latest; that of a user of the identity provider also"
            " after `oidc_session_lifetime`. Only the web UI can use it:"
            " the request needs `Sec-Fetch-Site: same-origin`, or an `Origin` that is the address of this server, and"
            " `Content-Type: application/json`. Other clients send their key with each request."
        ),
        handle=sign_in,
        body=SignInBody,
        limit=MAX_SIGN_IN_BYTES,
        answer=CredentialView,
        problems=(401, 403, 409, 503),
        example={"token": "tb_nVXpb2WLgRr5Nq1JUCn6jFn3Cw0W5qpq0kXlX1yB1mE"},
    ),
    Route(
        method="GET",
        path="/v1/sign-in/provider",
        permission=Permission.PUBLIC,
        summary="Show the identity provider that browsers sign in with",
        handle=show_provider,
        answer=SignInProviderView,
    ),
    Route(
        method="POST",
        path="/v1/sign-in/provider",
        permission=Permission.PUBLIC,
        summary="Begin to sign a browser in at the identity provider",
        description=(
            "The answer has the page of the identity provider that the browser has to open, and sets a cookie for 10"
            " minutes. The provider sends the browser back to the sign-in page, with a code and a state for `POST"
            " /v1/sign-in`. Only the web UI can use it, as that route."
        ),
        handle=begin_at_provider,
        answer=ProviderPageView,
        problems=(403, 409, 503),
    ),
    Route(
        method="POST",
        path="/v1/sign-out",
        permission=Permission.KEY,
        summary="Sign a browser out",
        audit="session.close",
        description=(
            "Ends the session of the request and removes its cookie. If a user of the identity provider opened it, the"
            " answer has the page of the provider that ends the session there."
        ),
        handle=sign_out,
        answer=SignedOutView,
    ),
    Route(
        method="GET",
        path="/v1/sessions",
        permission=Permission.KEY,
        summary="List the browsers that are signed in",
        description="Newest first. A credential without the `admin` permission sees only its own sessions.",
        handle=list_sessions,
        query=PageQuery,
        answer=SessionList,
    ),
    Route(
        method="DELETE",
        path="/v1/sessions/{sessionId}",
        permission=Permission.KEY,
        summary="End a session",
        audit="session.revoke",
        description="Takes effect at once on this server, and within 3 seconds on the others.",
        handle=revoke,
        status=204,
        problems=(404,),
    ),
    Route(
        method="POST",
        path="/v1/sign-in-links",
        permission=Permission.READ,
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
