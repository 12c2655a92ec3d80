"""Sign a browser in at the identity provider.

The browser keeps one secret, with the time at which the sign-in began, in a cookie. State, nonce and the secret of PKCE
are digests of the cookie, so no server stores anything before the provider has answered, and any server can finish the
sign-in. The provider signs the nonce: a cookie whose time was changed later does not match it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

import structlog
from msgspec import Struct

from timeball.domain import ids
from timeball.domain.errors import Unauthorized, Unavailable
from timeball.domain.identity.account import account_id
from timeball.domain.identity.token_claims import CLOCK_LEEWAY, TokenIdentity
from timeball.domain.instant import Micros
from timeball.domain.sign_in import SIGN_IN_ATTEMPT_LIFETIME
from timeball.operation.context import OperationContext
from timeball.ports.identity_provider import SignInAttempt, SignInProvider
from timeball.ports.store.sign_in import NewSession, SessionUser, WebSession

_log = structlog.get_logger()


class ProviderAnswer(Struct, frozen=True):
    """What the provider sent back with the browser."""

    code: str
    state: str
    issuer: str | None
    """The provider that sent it, if it said so (RFC 9207)."""


async def begin(context: OperationContext, provider: SignInProvider, secret: str, redirect_uri: str) -> tuple[str, str]:
    """Return the value of the browser's cookie, and the URL of the provider's page. Nothing is stored."""
    cookie = f"{secret}.{context.store.now()}"
    return cookie, await provider.begin(_attempt(cookie), redirect_uri)


async def finish(
    context: OperationContext,
    provider: SignInProvider,
    cookie: str | None,
    answer: ProviderAnswer,
    redirect_uri: str,
    secret: str,
) -> WebSession:
    """Open a session for the user that the provider has signed in. Each sign-in opens one session."""
    attempt = None if cookie is None else _attempt(cookie)
    if attempt is None or not hmac.compare_digest(attempt.state.encode(), answer.state.encode("utf-8", "replace")):
        raise Unauthorized(
            "this sign-in was not begun in this browser, or another one was begun after it; sign in again"
        )
    age = context.store.now() - _began_at(cookie or "")
    if not -CLOCK_LEEWAY <= age < SIGN_IN_ATTEMPT_LIFETIME:
        raise Unauthorized("this sign-in took longer than 10 minutes; sign in again")
    if answer.issuer not in (None, provider.issuer):
        raise Unauthorized("the answer comes from another identity provider")
    user = await provider.identify(answer.code, attempt, redirect_uri)
    session = await context.store.open_user_session(
        NewSession(id=ids.make("s", context.store.now(), context.rng), digest=_hex(secret)),
        _session_user(user, provider.issuer),
        provider.session_lifetime,
        _hex(attempt.state),
    )
    if session is None:
        raise Unauthorized(await _refusal(context, user))
    if isinstance(session.opener, SessionUser) and session.opener.user_id is not None:
        context.credential_uses.note(None, user.tenant, session.opener.user_id, context.store.now())
    return session


async def sign_out_url(provider: SignInProvider, return_uri: str) -> str | None:
    """Return the page of the provider that ends its own session; None if there is none, or the provider is away: the
    session of this server has ended in any case."""
    try:
        return await provider.end(return_uri)
    except Unavailable as error:
        _log.warning("the session at the identity provider is not ended", reason=error.detail)
        return None


def _session_user(user: TokenIdentity, issuer: str) -> SessionUser:
    return SessionUser(
        id=account_id(user.tenant, user.subject),
        tenant=user.tenant,
        issuer=issuer,
        subject=user.subject,
        name=user.name,
        role=user.role,
    )


async def _refusal(context: OperationContext, user: TokenIdentity) -> str:
    """Return why no session was opened."""
    tenant = await context.store.tenant(user.tenant)
    if tenant is None or tenant.state != "active":
        return f"the identity provider names the tenant {user.tenant[:100]!r}, which does not exist"
    known = await context.store.user_by_subject(user.tenant, user.subject)
    if known is not None and known.state == "disabled":
        return f"the user {known.id!r} is disabled"
    return "this sign-in was finished before; sign in again"


def _attempt(cookie: str) -> SignInAttempt:
    return SignInAttempt(
        state=_derived("state", cookie), nonce=_derived("nonce", cookie), verifier=_derived("verifier", cookie)
    )


def _derived(purpose: str, cookie: str) -> str:
    digest = hashlib.sha256(f"{purpose} {cookie}".encode("utf-8", "replace")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _began_at(cookie: str) -> Micros:
    """Return when the sign-in of a cookie began; 0, which is long ago, if the cookie does not say it."""
    began_at = cookie.rpartition(".")[2]
    return int(began_at) if began_at.isascii() and began_at.isdigit() and len(began_at) < 20 else 0


def _hex(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
