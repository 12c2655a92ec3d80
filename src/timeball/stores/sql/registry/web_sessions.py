"""Web sessions and the tokens of one-time links: add, exchange, find by digest, revoke."""

from __future__ import annotations

from typing import Any, Final

from timeball.domain.audit_log.entry import Actor
from timeball.domain.audit_log.values import Values
from timeball.domain.identity.token_claims import CLOCK_LEEWAY
from timeball.domain.instant import Micros
from timeball.domain.sign_in import (
    MAX_SESSIONS_PER_KEY,
    SESSION_IDLE_TIME,
    SESSION_LIFETIME,
    SESSION_USE_INTERVAL,
    SIGN_IN_ATTEMPT_LIFETIME,
    SIGN_IN_TOKEN_LIFETIME,
)
from timeball.ports.store.paging import Page
from timeball.ports.store.registry import Key
from timeball.ports.store.sign_in import FoundSession, NewSession, SessionUser, WebSession
from timeball.stores.sql.audit_log.recording import record
from timeball.stores.sql.driver import Row, Tx, scalar
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.registry.api_keys import key_of, role_of, stored_role
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.statements import query

ADD_SIGN_IN_TOKEN = query("add_sign_in_token")
DROP_EXPIRED_TOKENS = query("drop_expired_tokens")
SIGN_IN_TOKEN = query("sign_in_token")
TAKE_SIGN_IN_TOKEN = query("take_sign_in_token")
OPEN_WEB_SESSION = query("open_web_session")
DROP_EXPIRED_ATTEMPTS = query("drop_expired_attempts")
FINISH_SIGN_IN_ATTEMPT = query("finish_sign_in_attempt")
OPEN_USER_SESSION = query("open_user_session")
DROP_UNUSED_SESSIONS = query("drop_unused_sessions")
DROP_SURPLUS_SESSIONS = query("drop_surplus_sessions")
SESSION_BY_DIGEST = query("session_by_digest")
USE_SESSION = query("use_session")
LIST_SESSIONS = query("list_sessions")
REVOKE_SESSION = query("revoke_session")

MAX_DROPPED_ROWS: Final = 100
"""Maximum number of unused sessions, expired tokens or expired attempts that the insert of a new one deletes."""
_AFTER_ALL: Final = "s_g"
"""Sorts after all ids of sessions, which continue with hexadecimal digits."""


class WebSessions(StorePart):
    async def add_sign_in_token(self, digest: str, key_id: str) -> Micros | None:
        async def work(tx: Tx) -> Micros | None:
            await tx.execute(DROP_EXPIRED_TOKENS, limit=MAX_DROPPED_ROWS)
            added = await tx.fetch(ADD_SIGN_IN_TOKEN, digest=digest, key_id=key_id, lasts=SIGN_IN_TOKEN_LIFETIME)
            expires_at: Micros | None = scalar(added)
            return expires_at

        return await self._db.write(work)

    async def has_sign_in_token(self, digest: str) -> bool:
        async def work(tx: Tx) -> bool:
            return bool(await tx.fetch(SIGN_IN_TOKEN, digest=digest))

        return await self._db.read(work)

    async def exchange_token(self, new: NewSession, token: str) -> WebSession | None:
        async def work(tx: Tx) -> WebSession | None:
            key_id = scalar(await tx.fetch(TAKE_SIGN_IN_TOKEN, digest=token))
            if key_id is None:  # the token is not valid, or an earlier try of this call has used it
                return _session(await _find(tx, new.digest))
            return _recorded(tx, await _open(tx, new, key_id))

        return await self._db.write(work)

    async def open_web_session(self, new: NewSession, key_id: str) -> WebSession | None:
        async def work(tx: Tx) -> WebSession | None:
            return _recorded(tx, await _open(tx, new, key_id))

        return await self._db.write(work)

    async def open_user_session(
        self, new: NewSession, user: SessionUser, lasts: Micros, attempt: str
    ) -> WebSession | None:
        async def work(tx: Tx) -> WebSession | None:
            await tx.execute(DROP_EXPIRED_ATTEMPTS, limit=MAX_DROPPED_ROWS)
            lasts_longer = SIGN_IN_ATTEMPT_LIFETIME + CLOCK_LEEWAY  # than the attempt can be finished
            if not await tx.fetch(FINISH_SIGN_IN_ATTEMPT, digest=attempt, lasts=lasts_longer):
                return _session(await _find(tx, new.digest))  # an earlier try of this call may have opened it
            await tx.execute(DROP_UNUSED_SESSIONS, idle=SESSION_IDLE_TIME, limit=MAX_DROPPED_ROWS)
            await tx.execute(
                OPEN_USER_SESSION,
                id=new.id,
                digest=new.digest,
                opener_id=user.id,
                tenant=plain(user.tenant),
                issuer=plain(user.issuer),
                subject=plain(user.subject),
                name=plain(user.name),
                role=stored_role(user.role),
                lasts=lasts,
            )
            await tx.execute(DROP_SURPLUS_SESSIONS, key_id=user.id, kept=MAX_SESSIONS_PER_KEY)
            return _recorded(tx, _session(await _find(tx, new.digest)))

        return await self._db.write(work)

    async def session_by_digest(self, digest: str) -> FoundSession | None:
        async def work(tx: Tx) -> FoundSession | None:
            return await _find(tx, digest)

        return await self._db.read(work)

    async def use_session(self, digest: str) -> bool:
        async def work(tx: Tx) -> bool:
            return bool(await tx.fetch(USE_SESSION, digest=digest, interval=SESSION_USE_INTERVAL))

        return await self._db.write(work)

    async def list_sessions(self, tenant: str, key_id: str | None, cursor: str | None, limit: int) -> Page[WebSession]:
        async def work(tx: Tx) -> Page[WebSession]:
            rows = await tx.fetch(
                LIST_SESSIONS,
                tenant=tenant,
                key_id=key_id or "",
                before=plain(cursor or _AFTER_ALL),
                idle=SESSION_IDLE_TIME,
                lifetime=SESSION_LIFETIME,
                limit=limit + 1,
            )
            sessions = [_web_session(row) for row in rows[:limit]]
            return Page(sessions, sessions[-1].id if len(rows) > limit else None)

        return await self._db.read(work, slow=True)

    async def revoke_session(self, tenant: str, key_id: str | None, session_id: str) -> str | None:
        async def work(tx: Tx) -> str | None:
            rows = await tx.fetch(REVOKE_SESSION, tenant=tenant, key_id=key_id or "", id=plain(session_id))
            digest: str | None = scalar(rows)
            if digest is not None:
                record(tx, "session", session_id, before={"state": "open"}, after={"state": "ended"}, chain=tenant)
            return digest

        return await self._db.write(work)


async def _open(tx: Tx, new: NewSession, key_id: str) -> WebSession | None:
    await tx.execute(DROP_UNUSED_SESSIONS, idle=SESSION_IDLE_TIME, limit=MAX_DROPPED_ROWS)
    await tx.execute(OPEN_WEB_SESSION, id=new.id, digest=new.digest, key_id=key_id)
    await tx.execute(DROP_SURPLUS_SESSIONS, key_id=key_id, kept=MAX_SESSIONS_PER_KEY)
    return _session(await _find(tx, new.digest))


async def _find(tx: Tx, digest: str) -> FoundSession | None:
    rows = await tx.fetch(
        SESSION_BY_DIGEST,
        digest=digest,
        interval=SESSION_USE_INTERVAL,
        idle=SESSION_IDLE_TIME,
        lifetime=SESSION_LIFETIME,
    )
    return next((FoundSession(_web_session(row), bool(row[4])) for row in rows), None)


def _recorded(tx: Tx, session: WebSession | None) -> WebSession | None:
    """Record for the audit log that a browser was signed in, and which key or user opened its session. Return the
    session; None: there is none to record."""
    if session is not None:
        opener = session.opener
        user = opener.user_id or (opener.subject if isinstance(opener, SessionUser) else "")
        actor = Actor(kind="session", id=opener.id, name=opener.name or opener.id, user_id=user)
        opened: Values = {"openedBy": opener.id, "role": opener.role}
        record(tx, "session", session.id, after=opened, chain=opener.tenant, actor=actor)
    return session


def _session(found: FoundSession | None) -> WebSession | None:
    return None if found is None else found.session


def _web_session(row: Row) -> WebSession:
    session_id, digest, created_at, last_used_at, _, valid_until, *opener = row
    return WebSession(
        id=session_id,
        digest=digest,
        opener=_opener(*opener),
        created_at=created_at,
        last_used_at=last_used_at,
        valid_until=valid_until,
    )


def _opener(
    opener_id: str,
    tenant: str,
    issuer: str | None,
    subject: str | None,
    name: str | None,
    role: str | None,
    user_id: str | None,
    user_role: str | None,
    *key: Any,
) -> Key | SessionUser:
    if issuer is None or subject is None or role is None:
        return key_of(key)
    return SessionUser(
        id=opener_id,
        tenant=tenant,
        issuer=issuer,
        subject=subject,
        name=name or subject,
        role=role_of(role),
        user_id=user_id,
        user_role=None if user_role is None else role_of(user_role),
    )
