"""Finds the web session of a request."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from timeball.api.problems import SignInRefused
from timeball.api.sign_in.remember import REMEMBER, remember
from timeball.api.sign_in.same_origin import check_same_origin
from timeball.api.sign_in.site import Site, find_cookie
from timeball.domain.errors import Unauthorized
from timeball.domain.instant import Micros
from timeball.operation.context import OperationContext
from timeball.operation.sign_in.use_session import use_session
from timeball.ports.store.registry import Key
from timeball.ports.store.sign_in import SessionUser, WebSession

MAX_COOKIE_LENGTH: Final = 200
_UNKNOWN: Final[tuple[Micros, WebSession | None]] = (0, None)
"""The cache entry of an unknown session; it has always expired."""


class Sessions:
    """Looks up sessions by the digest of their cookies, and caches known ones for a moment."""

    def __init__(self, context: OperationContext, site: Site, issuer: str | None = None) -> None:
        """`issuer` is the identity provider that browsers sign in with; None: there is none. Sessions of users of
        another one have ended."""
        self.site = site
        self._context = context
        self._issuer = issuer
        self._known: dict[bytes, tuple[Micros, WebSession]] = {}
        self._revocations = 0
        """Number of sessions and keys that this server revoked. If it has changed since a session was read from the
        store, the session may have been revoked since, and is not cached."""

    async def authenticate(self, method: str, headers: Mapping[bytes, bytes]) -> WebSession:
        """Return the session of a request without an API key. Raise `Unauthorized` if it has none, and `CrossSite` if a
        page of another site may have sent it. A request for another host has no session, whatever its cookies are."""
        secret = self._secret(headers)
        if secret is None:
            raise Unauthorized("this route needs an API key; send it as 'Authorization: Bearer KEY', or sign in")
        check_same_origin(self.site, method, headers)
        return await self.check(_digest(secret))

    def admit(self, method: str, headers: Mapping[bytes, bytes]) -> None:
        """Raise `SignInRefused` if browsers may not sign in at this server or the request is for another host, and
        `CrossSite` if it does not come from the server's own page."""
        self.require_open()
        host = headers.get(b"host", b"").decode("latin-1")
        if not self.site.is_own_host(host):
            raise SignInRefused(
                f"{host[:200]!r} is not the address of this server: open {self.site.address.url},"
                " or start the server with the address that you use as --public-url"
            )
        check_same_origin(self.site, method, headers)

    def require_open(self) -> None:
        """Raise `SignInRefused` if no browser may sign in at this server."""
        if self.site.refusal is not None:
            raise SignInRefused(self.site.refusal)

    async def current(self, headers: Mapping[bytes, bytes]) -> WebSession | None:
        """Return the web session that the browser has before it signs in again; None if it has none."""
        secret = self._secret(headers)
        try:
            return None if secret is None else await self.check(_digest(secret))
        except Unauthorized:
            return None

    async def check(self, digest: str) -> WebSession:
        """Return the session with this digest. Raise `Unauthorized` if it has ended."""
        key = bytes.fromhex(digest)
        until, session = self._known.get(key) or _UNKNOWN
        if self._context.clock.monotonic() >= until:
            session = await self._find(key)
        if session is None:
            raise Unauthorized("this session has ended; sign in again")
        return session

    def forget(self, digest: str) -> None:
        """Remove a revoked session from the cache."""
        self._revocations += 1
        self._known.pop(bytes.fromhex(digest), None)

    def forget_tenant(self, tenant: str) -> None:
        """Remove the sessions of a tenant from the cache."""
        self._revocations += 1
        for digest in [digest for digest, (_, session) in self._known.items() if session.opener.tenant == tenant]:
            del self._known[digest]

    def forget_key(self, key: Key) -> None:
        """Remove the sessions of a revoked key from the cache."""
        self._revocations += 1
        for digest in [digest for digest, (_, session) in self._known.items() if session.opener.id == key.id]:
            del self._known[digest]

    def attempt(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return the cookie of the sign-in at the identity provider that the browser has begun."""
        return self._cookie(headers, self.site.attempt_cookie_name)

    def _secret(self, headers: Mapping[bytes, bytes]) -> str | None:
        return self._cookie(headers, self.site.cookie_name)

    def _cookie(self, headers: Mapping[bytes, bytes], name: str) -> str | None:
        cookies = headers.get(b"cookie")
        if cookies is None or self.site.refusal is not None:
            return None
        if not self.site.is_own_host(headers.get(b"host", b"").decode("latin-1")):
            return None
        value = find_cookie(cookies.decode("latin-1"), name)
        return None if value is None or len(value) > MAX_COOKIE_LENGTH else value

    async def _find(self, digest: bytes) -> WebSession | None:
        now, revocations = self._context.clock.monotonic(), self._revocations
        found = await self._context.store.session_by_digest(digest.hex())
        if found is None or not self._has_issuer(found.session):
            self._known.pop(digest, None)
            return None
        if found.is_use_due:
            await use_session(self._context, digest.hex())
        if revocations == self._revocations:
            left = found.session.expires_at - self._context.store.now()
            remember(self._known, digest, (now + min(REMEMBER, left), found.session))
        return found.session

    def _has_issuer(self, session: WebSession) -> bool:
        """True if the identity provider that opened the session is still that of this server."""
        return not isinstance(session.opener, SessionUser) or session.opener.issuer == self._issuer


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("latin-1")).hexdigest()
