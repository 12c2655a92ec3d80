"""The store of web sessions and of the tokens of one-time links. It has only digests of both."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.sign_in import session_ends_at
from timeball.ports.store.paging import Page
from timeball.ports.store.registry import Key


class NewSession(Struct, frozen=True, kw_only=True):
    id: str
    digest: str
    """SHA-256 of the secret in the cookie, in hex."""


class WebSession(Struct, frozen=True, kw_only=True):
    """A browser that is signed in. It acts with the tenant and the role of its key."""

    id: str
    digest: str
    key: Key
    created_at: Micros
    last_used_at: Micros
    """The stored time of the last use. The real last use is at most `domain.sign_in.SESSION_USE_INTERVAL` later."""

    @property
    def expires_at(self) -> Micros:
        return session_ends_at(self.created_at, self.last_used_at)


class FoundSession(Struct, frozen=True):
    session: WebSession
    is_use_due: bool
    """True if the last use was stored long ago, and has to be stored again."""


class SignInStore(Protocol):
    async def add_sign_in_token(self, digest: str, key_id: str) -> Micros | None:
        """Add a token that signs in with a key. Return when it expires; None if the key was revoked or does not exist.
        Adding the same digest again changes nothing."""
        ...

    async def has_sign_in_token(self, digest: str) -> bool:
        """True if the token can be used now. It writes nothing, so that attempts with wrong tokens cost no write."""
        ...

    async def exchange_token(self, new: NewSession, token: str) -> WebSession | None:
        """Remove the token with this digest and open a web session with its key, in one transaction. If several calls
        use one token, only one of them opens a session. None: the token is unknown, used or expired, or its key was
        revoked. A repeated call with the same session returns that session."""
        ...

    async def open_web_session(self, new: NewSession, key_id: str) -> WebSession | None:
        """Open a web session with a key. None: the key was revoked or does not exist. A repeated call with the same
        session returns that session."""
        ...

    async def session_by_digest(self, digest: str) -> FoundSession | None:
        """Return the web session with this digest; None: there is none, it has ended, or its key was revoked."""
        ...

    async def use_session(self, digest: str) -> bool:
        """Store that a web session was used now. False: another server stored that shortly before, or the session does
        not exist any more."""
        ...

    async def list_sessions(self, tenant: str, key_id: str | None, cursor: str | None, limit: int) -> Page[WebSession]:
        """Return the web sessions that have not ended, newest first: those of one key, or of all keys of the tenant."""
        ...

    async def revoke_session(self, tenant: str, key_id: str | None, session_id: str) -> str | None:
        """End a web session. If a key is given, the session must belong to it. Return the digest of the session; None
        if there is no such session."""
        ...
