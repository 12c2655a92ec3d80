"""The store of web sessions and of the tokens of one-time links. It has only digests of both."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from timeball.domain.identity.role import Role, lower_role
from timeball.domain.instant import Micros
from timeball.domain.sign_in import session_ends_at
from timeball.ports.store.paging import Page
from timeball.ports.store.registry import Key


class NewSession(Struct, frozen=True, kw_only=True):
    id: str
    digest: str
    """SHA-256 of the secret in the cookie, in hex."""


class SessionUser(Struct, frozen=True, kw_only=True):
    """A user of the identity provider, as the provider stated it at the sign-in."""

    id: str
    """Follows from the tenant and the subject: it is the same in all sessions and tokens of the user."""
    tenant: str
    issuer: str
    subject: str
    """The user's id at the identity provider."""
    name: str
    role: Role
    user_id: str | None = None
    """The id of the user that the store has for the subject; None: it has none."""
    user_role: Role | None = None
    """The role of that user. It limits the role at the identity provider."""

    @property
    def effective_role(self) -> Role:
        return self.role if self.user_role is None else lower_role(self.role, self.user_role)


class WebSession(Struct, frozen=True, kw_only=True):
    """A browser that is signed in. It acts with the tenant and the role of the API key or the user that opened it."""

    id: str
    digest: str
    opener: Key | SessionUser
    created_at: Micros
    last_used_at: Micros
    """The stored time of the last use. The real last use is at most `domain.sign_in.SESSION_USE_INTERVAL` later."""
    valid_until: Micros | None = None
    """When the session of a user of the identity provider ends, also if it is in use."""

    @property
    def expires_at(self) -> Micros:
        return session_ends_at(self.created_at, self.last_used_at, self.valid_until)


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

    async def open_user_session(
        self, new: NewSession, user: SessionUser, lasts: Micros, attempt: str
    ) -> WebSession | None:
        """Open a web session of a user of the identity provider, which ends after this time at the latest. `attempt` is
        the digest of the sign-in, which opens one session. None: it has opened one before, the tenant does not exist or
        is being deleted, or the user is disabled. A repeated call with the same session returns that session."""
        ...

    async def session_by_digest(self, digest: str) -> FoundSession | None:
        """Return the web session with this digest; None: there is none, it has ended, its tenant is being deleted, its
        key was revoked or has expired, or its user is disabled."""
        ...

    async def use_session(self, digest: str) -> bool:
        """Store that a web session was used now. False: another server stored that shortly before, or the session does
        not exist any more."""
        ...

    async def list_sessions(self, tenant: str, key_id: str | None, cursor: str | None, limit: int) -> Page[WebSession]:
        """Return a page of the web sessions that have not ended, newest first. `key_id` is the id of an API key or of a
        user of the identity provider, and selects the sessions that it opened; None: all sessions of the tenant."""
        ...

    async def revoke_session(self, tenant: str, key_id: str | None, session_id: str) -> str | None:
        """End a web session. If `key_id`, the id of an API key or of a user of the identity provider, is given, it must
        have opened the session. Return the digest of the session; None if there is no such session."""
        ...
