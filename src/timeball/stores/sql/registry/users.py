"""Users of tenants: create, read, list, change, delete; and when credentials were last used."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from timeball.domain.audit_log.values import Values, shown
from timeball.domain.errors import Conflict, NotFound, PreconditionFailed
from timeball.domain.identity.account import account_id
from timeball.domain.identity.user import User
from timeball.ports.store.paging import Page
from timeball.ports.store.tenants import CredentialUse
from timeball.stores.sql.audit_log.recording import record
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.registry.api_keys import end_sessions, revoke, role_of, stored_role
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.schema.tenants import USERS, UserRow
from timeball.stores.sql.statements import query

USER = query("user")
USER_BY_SUBJECT = query("user_by_subject")
LIST_USERS = query("list_users")
LOCK_USER = query("lock_user")
UPDATE_USER = query("update_user")
DELETE_USER = query("delete_user")
KEYS_OF_USER = query("keys_of_user")
NOTE_KEY_USES = query("note_key_uses")
NOTE_USERS_SEEN = query("note_users_seen")


class Users(StorePart):
    async def create_user(self, user: User) -> User:
        async def work(tx: Tx) -> User:
            found = await _locked(tx, user.tenant, user.id)
            if found is None:
                await tx.insert_missing(USERS, [as_tuple(_row(user))])
                found = await _locked(tx, user.tenant, user.id)
                if found is None:
                    raise _subject_is_taken(user)
                if found.created_at == user.created_at:
                    record(tx, "user", user.id, after=_values(user), chain=user.tenant)
            if found.created_at != user.created_at:
                raise Conflict(f"there is a user {user.id!r} already")
            return found

        return await self._db.write(work)

    async def user(self, tenant: str, user_id: str) -> User | None:
        async def work(tx: Tx) -> User | None:
            return next(map(user_of, await tx.fetch(USER, tenant=plain(tenant), id=plain(user_id))), None)

        return await self._db.read(work)

    async def user_by_subject(self, tenant: str, subject: str) -> User | None:
        async def work(tx: Tx) -> User | None:
            rows = await tx.fetch(USER_BY_SUBJECT, tenant=plain(tenant), subject=plain(subject))
            return next(map(user_of, rows), None)

        return await self._db.read(work)

    async def list_users(self, tenant: str, cursor: str | None, limit: int) -> Page[User]:
        async def work(tx: Tx) -> Page[User]:
            rows = await tx.fetch(LIST_USERS, tenant=plain(tenant), after=plain(cursor or ""), limit=limit + 1)
            users = [user_of(row) for row in rows[:limit]]
            return Page(users, users[-1].id if len(rows) > limit else None)

        return await self._db.read(work, slow=True)

    async def update_user(self, user: User) -> User:
        async def work(tx: Tx) -> User:
            found = await _locked(tx, user.tenant, user.id)
            if found is None:
                raise NotFound("user", user.id)
            updated = replace(user, version=user.version + 1, last_seen_at=found.last_seen_at)
            if found == updated:  # this call repeats one whose answer was lost
                return updated
            if found.version != user.version:
                raise PreconditionFailed(f"the user {user.id!r} has version {found.version} now")
            if user.subject is not None:
                rows = await tx.fetch(USER_BY_SUBJECT, tenant=plain(user.tenant), subject=plain(user.subject))
                if any(user_of(row).id != found.id for row in rows):
                    raise _subject_is_taken(user)
            row = _row(user)
            kept = ("created_at", "last_seen_at")
            changed = {name: getattr(row, name) for name in UserRow.__struct_fields__ if name not in kept}
            ((_,),) = await tx.fetch(UPDATE_USER, **changed)
            if user.state == "disabled":
                for opener_id in [*await _keys_of(tx, user.tenant, user.id), *_accounts(found), *_accounts(user)]:
                    await end_sessions(tx, opener_id)
            record(tx, "user", user.id, before=_values(found), after=_values(updated), chain=user.tenant)
            return updated

        return await self._db.write(work)

    async def delete_user(self, tenant: str, user_id: str) -> bool:
        async def work(tx: Tx) -> bool:
            found = await _locked(tx, tenant, user_id)
            for key_id in await _keys_of(tx, tenant, user_id):
                await revoke(tx, key_id)
            for account in [] if found is None else _accounts(found):
                await end_sessions(tx, account)
            await tx.fetch(DELETE_USER, tenant=plain(tenant), id=plain(user_id))
            if found is not None:
                record(tx, "user", user_id, before=_values(found), chain=tenant)
            return found is not None

        return await self._db.write(work)

    async def note_uses(self, uses: Sequence[CredentialUse]) -> None:
        keys: dict[str, int] = {}
        users: dict[tuple[str, str], int] = {}
        for use in uses:
            if use.key_id is not None:
                keys[use.key_id] = max(use.at, keys.get(use.key_id, 0))
            if use.user_id is not None:
                user = (plain(use.tenant), plain(use.user_id))
                users[user] = max(use.at, users.get(user, 0))

        async def work(tx: Tx) -> None:
            if users:
                await tx.execute(NOTE_USERS_SEEN, b=[(*user, at) for user, at in sorted(users.items())])
            if keys:
                await tx.execute(NOTE_KEY_USES, b=sorted(keys.items()))

        if uses:
            await self._db.write(work)


async def _locked(tx: Tx, tenant: str, user_id: str) -> User | None:
    return next(map(user_of, await tx.fetch(LOCK_USER, tenant=plain(tenant), id=plain(user_id))), None)


def _accounts(user: User) -> list[str]:
    """Return the ids of the accounts of a user at the identity provider: one, or none."""
    return [] if user.subject is None else [account_id(user.tenant, user.subject)]


async def _keys_of(tx: Tx, tenant: str, user_id: str) -> list[str]:
    return [key_id for (key_id,) in await tx.fetch(KEYS_OF_USER, tenant=plain(tenant), id=plain(user_id))]


def _subject_is_taken(user: User) -> Conflict:
    return Conflict(f"another user of the tenant has the subject {user.subject!r}")


def _row(user: User) -> UserRow:
    return UserRow(
        tenant=plain(user.tenant),
        id=plain(user.id),
        name=plain(user.name),
        email=plain(user.email),
        role=stored_role(user.role),
        state=user.state,
        subject=None if user.subject is None else plain(user.subject),
        version=user.version,
        created_at=user.created_at,
        updated_at=user.updated_at,
        last_seen_at=user.last_seen_at,
    )


def user_of(row: Row) -> User:
    found = UserRow(*row)
    return User(
        id=found.id,
        tenant=found.tenant,
        name=found.name,
        email=found.email,
        role=role_of(found.role),
        state="active" if found.state == "active" else "disabled",
        subject=found.subject,
        version=found.version,
        created_at=found.created_at,
        updated_at=found.updated_at,
        last_seen_at=found.last_seen_at,
    )


def _values(user: User) -> Values:
    """Return what the audit log keeps of a user."""
    return shown(
        {"name": user.name, "email": user.email, "role": user.role, "state": user.state, "subject": user.subject}
    )
