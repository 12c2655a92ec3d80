"""API keys: add, find by digest, list, rotate, revoke."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from timeball.domain.audit_log.values import Values, shown
from timeball.domain.bootstrap_key import BootstrapSource, KnownKey, Replacement, replacement
from timeball.domain.errors import Conflict, NotFound
from timeball.domain.identity.permission import Permission
from timeball.domain.identity.role import GRANTS, Role
from timeball.domain.instant import Micros, render
from timeball.ports.store.paging import Page
from timeball.ports.store.registry import Key
from timeball.stores.sql.audit_log.recording import record
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.values import as_json, plain
from timeball.stores.sql.schema.tenants import KeyRow
from timeball.stores.sql.statements import query

ADD_KEY = query("add_key")
KEY_BY_DIGEST = query("key_by_digest")
KEY_BY_ID = query("key_by_id")
KEYS = query("keys")
LIST_KEYS = query("list_keys")
LOCK_KEY = query("lock_key")
EXPIRE_KEY = query("expire_key")
REVOKE_KEY = query("revoke_key")
BOOTSTRAP_KEYS = query("bootstrap_keys")
MARK_BOOTSTRAP_KEY = query("mark_bootstrap_key")
RESTORE_BOOTSTRAP_KEY = query("restore_bootstrap_key")
REVOKE_BOOTSTRAP_KEYS = query("revoke_bootstrap_keys")
END_SESSIONS_OF_KEY = query("end_sessions_of_key")
REVOKE_SESSIONS_OF_KEY = query("revoke_sessions_of_key")
DROP_TOKENS_OF_KEY = query("drop_tokens_of_key")


_AFTER_ALL: Final = "k_g"
"""Sorts after all ids of keys, which continue with hexadecimal digits."""
_STORED_ROLES: Final[dict[Role, str]] = {"system": "admin", "worker": "worker"}
"""The stored names of roles that servers of earlier versions know. There, the role that could do everything was called
admin. Such a server may run beside this one: it accepts these two roles, and refuses a key with any other."""
_LATER: Final = "only:"
"""Precedes the stored name of every other role, and of the role of a key with limits that servers of earlier versions
do not know. They must not take a key for one that can do more than it can."""


def stored_role(role: Role, *, is_limited: bool = False) -> str:
    return f"{_LATER}{role}" if is_limited or role not in _STORED_ROLES else _STORED_ROLES[role]


_ROLES: Final[dict[str, Role]] = {
    stored_role(role, is_limited=limited): role for role in GRANTS for limited in (False, True)
}


def role_of(stored: str) -> Role:
    return _ROLES[stored]


class Keys(StorePart):
    async def add_key(self, key: Key) -> None:
        async def work(tx: Tx) -> None:
            if await tx.execute(ADD_KEY, **_row(key)):
                record(tx, "api-key", key.id, after=_values(key), chain=key.tenant)

        await self._db.write(work)

    async def key_by_digest(self, digest: str) -> Key | None:
        async def work(tx: Tx) -> Key | None:
            return next(map(key_of, await tx.fetch(KEY_BY_DIGEST, digest=plain(digest))), None)

        return await self._db.read(work)

    async def keys(self) -> list[Key]:
        async def work(tx: Tx) -> list[Key]:
            return [key_of(row) for row in await tx.fetch(KEYS)]

        return await self._db.read(work, slow=True)

    async def key(self, tenant: str, key_id: str) -> Key | None:
        async def work(tx: Tx) -> Key | None:
            return next(map(key_of, await tx.fetch(KEY_BY_ID, tenant=plain(tenant), id=plain(key_id))), None)

        return await self._db.read(work)

    async def list_keys(self, tenant: str, cursor: str | None, limit: int) -> Page[Key]:
        async def work(tx: Tx) -> Page[Key]:
            before = plain(cursor or _AFTER_ALL)
            rows = await tx.fetch(LIST_KEYS, tenant=plain(tenant), before=before, limit=limit + 1)
            keys = [key_of(row) for row in rows[:limit]]
            return Page(keys, keys[-1].id if len(rows) > limit else None)

        return await self._db.read(work, slow=True)

    async def rotate_key(self, key: Key, old_expires_at: Micros) -> Key:
        old_id = plain(key.replaces or "")

        async def work(tx: Tx) -> Key:
            rows = await tx.fetch(LOCK_KEY, tenant=plain(key.tenant), id=old_id)
            added = await tx.fetch(KEY_BY_ID, tenant=plain(key.tenant), id=key.id)
            if added:  # this call repeats one whose answer was lost
                return key_of(added[0])
            if not rows:
                raise NotFound("key", old_id[:100])
            *row, is_expired, is_replaced = rows[0]
            _check_rotation(old := key_of(row), KeyRow(*row[:-1]).bootstrap, bool(is_expired), bool(is_replaced))
            await tx.execute(ADD_KEY, **_row(key))
            await tx.execute(EXPIRE_KEY, id=old_id, expires_at=old_expires_at)
            expires_at = min(old_expires_at, old.expires_at or old_expires_at)
            after = {**_values(replace(old, expires_at=expires_at)), "replacedBy": key.id}
            record(tx, "api-key", old_id, before=_values(old), after=after, chain=key.tenant)
            return key

        return await self._db.write(work)

    async def revoke_key(self, key_id: str) -> bool:
        async def work(tx: Tx) -> bool:
            return await revoke(tx, plain(key_id))

        return await self._db.write(work)

    async def allow_bootstrap_key(self, key: Key, source: BootstrapSource, last: str | None) -> Replacement:
        async def work(tx: Tx) -> Replacement:
            rows = await tx.fetch(BOOTSTRAP_KEYS, digest=key.digest)
            decided = replacement(key.digest, source, last, [_known_key(row) for row in rows])
            if decided.add:
                await tx.execute(ADD_KEY, **_row(key))
            if decided.mark:
                await tx.execute(MARK_BOOTSTRAP_KEY, digest=key.digest, bootstrap=source)
            elif decided.restore:
                await tx.execute(RESTORE_BOOTSTRAP_KEY, digest=key.digest)
            revoked: list[str] = []
            if decided.revoke:
                for (key_id,) in await tx.fetch(REVOKE_BOOTSTRAP_KEYS, b=list(dict.fromkeys(decided.revoke))):
                    await end_sessions(tx, key_id)
                    revoked.append(key_id)
            _record_bootstrap(tx, key, decided, rows, revoked)
            return decided

        return await self._db.write(work)


async def revoke(tx: Tx, key_id: str) -> bool:
    """Revoke a key and end its sessions. Return False if it was revoked before or does not exist."""
    await end_sessions(tx, key_id)
    revoked = await tx.fetch(REVOKE_KEY, id=key_id)
    for _, tenant in revoked:
        record(tx, "api-key", key_id, before={"revoked": False}, after={"revoked": True}, chain=tenant)
    return bool(revoked)


async def end_sessions(tx: Tx, opener_id: str) -> None:
    """End the web sessions and the one-time links of a key, or of a user of the identity provider. The sessions of its
    workers get no more runs, and end when their leases run out."""
    await tx.execute(END_SESSIONS_OF_KEY, id=opener_id)
    await tx.execute(REVOKE_SESSIONS_OF_KEY, id=opener_id)
    await tx.execute(DROP_TOKENS_OF_KEY, id=opener_id)


def _check_rotation(old: Key, bootstrap: str | None, is_expired: bool, is_replaced: bool) -> None:
    if bootstrap is not None:
        raise Conflict(
            "this key comes from the settings of a server: to replace it, start the servers with another"
            " TIMEBALL_ADMIN_KEY"
        )
    if old.revoked_at is not None:
        raise Conflict("this key was revoked; create a new one")
    if is_expired:
        raise Conflict("this key has expired; create a new one")
    if is_replaced:
        raise Conflict("this key was rotated before; rotate the key that replaces it")


def _row(key: Key) -> dict[str, Any]:
    limits = (key.scopes, key.labels, key.tenants, key.user_id, key.expires_at)
    is_limited = any(limit is not None for limit in limits)
    return {
        "id": key.id,
        "tenant": plain(key.tenant),
        "name": plain(key.name),
        "role": stored_role(key.role, is_limited=is_limited),
        "digest": key.digest,
        "created_at": key.created_at,
        "revoked_at": key.revoked_at,
        "scopes": _list(key.scopes),
        "labels": _list(key.labels),
        "tenants": _list(key.tenants),
        "user_id": None if key.user_id is None else plain(key.user_id),
        "expires_at": key.expires_at,
        "replaces": key.replaces,
    }


def _list(values: Sequence[str] | None) -> str | None:
    return None if values is None else as_json(values)


def key_of(row: Sequence[Any]) -> Key:
    """Return a key from its row and the role of its user."""
    *own, user_role = row
    found = KeyRow(*own)
    scopes = _texts(found.scopes)
    known = {permission.value: permission for permission in Permission}
    return Key(
        id=found.id,
        tenant=found.tenant,
        name=found.name,
        role=role_of(found.role),
        digest=found.digest,
        created_at=found.created_at,
        revoked_at=found.revoked_at,
        scopes=None if scopes is None else tuple(known[each] for each in scopes if each in known),
        labels=_texts(found.labels),
        tenants=_texts(found.tenants),
        user_id=found.user_id,
        user_role=None if user_role is None else role_of(user_role),
        expires_at=found.expires_at,
        last_used_at=found.last_used_at,
        replaces=found.replaces,
    )


def _texts(stored: str | None) -> tuple[str, ...] | None:
    return None if stored is None else msgspec.json.decode(stored, type=tuple[str, ...])


def _values(key: Key) -> Values:
    """Return what the audit log keeps of a key: never its digest."""
    return shown(
        {
            "name": key.name,
            "role": key.role,
            "scopes": key.scopes,
            "labels": key.labels,
            "tenants": key.tenants,
            "userId": key.user_id,
            "expiresAt": None if key.expires_at is None else render(key.expires_at),
            "replaces": key.replaces,
        }
    )


def _record_bootstrap(tx: Tx, key: Key, decided: Replacement, known: Sequence[Row], revoked: Sequence[str]) -> None:
    """Record that the admin key of the settings was added or is valid again, and which keys it revoked."""
    own = next(((key_id, at) for digest, *_, at, key_id in known if digest == key.digest), None)
    key_id, revoked_at = own or (key.id, None)
    is_restored = revoked_at is not None and (decided.mark or decided.restore)
    before = {"revoked": True} if is_restored else None
    after: dict[str, Any] = {**_values(key), "revoked": False} if decided.add or is_restored else {}
    if revoked:
        after["revokes"] = sorted(revoked)
    if after:
        record(tx, "api-key", key_id, before=before, after=after, chain=key.tenant)


def _known_key(row: Row) -> KnownKey:
    digest, name, role, source, since, revoked_at, _ = row
    return KnownKey(
        digest=digest,
        name=name,
        role=role_of(role),
        source=source,
        current_since=since or 0,
        revoked=revoked_at is not None,
    )
