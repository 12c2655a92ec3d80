"""API keys: add, find by digest, revoke."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from timeball.domain.bootstrap_key import BootstrapSource, KnownKey, Replacement, replacement
from timeball.ports.store.registry import Key
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.statements import query

ADD_KEY = query("add_key")
KEY_BY_DIGEST = query("key_by_digest")
KEYS = query("keys")
REVOKE_KEY = query("revoke_key")
BOOTSTRAP_KEYS = query("bootstrap_keys")
MARK_BOOTSTRAP_KEY = query("mark_bootstrap_key")
RESTORE_BOOTSTRAP_KEY = query("restore_bootstrap_key")
REVOKE_BOOTSTRAP_KEYS = query("revoke_bootstrap_keys")
END_SESSIONS_OF_KEY = query("end_sessions_of_key")
REVOKE_SESSIONS_OF_KEY = query("revoke_sessions_of_key")
DROP_TOKENS_OF_KEY = query("drop_tokens_of_key")


class Keys(StorePart):
    async def add_key(self, key: Key) -> None:
        async def work(tx: Tx) -> None:
            await tx.execute(ADD_KEY, **{**msgspec.structs.asdict(key), "name": plain(key.name)})

        await self._db.write(work)

    async def key_by_digest(self, digest: str) -> Key | None:
        async def work(tx: Tx) -> Key | None:
            return next(map(key_of, await tx.fetch(KEY_BY_DIGEST, digest=plain(digest))), None)

        return await self._db.read(work)

    async def keys(self) -> list[Key]:
        async def work(tx: Tx) -> list[Key]:
            return [key_of(row) for row in await tx.fetch(KEYS)]

        return await self._db.read(work, slow=True)

    async def revoke_key(self, key_id: str) -> bool:
        async def work(tx: Tx) -> bool:
            await _end_sessions(tx, plain(key_id))
            return bool(await tx.fetch(REVOKE_KEY, id=plain(key_id)))

        return await self._db.write(work)

    async def allow_bootstrap_key(self, key: Key, source: BootstrapSource, last: str | None) -> Replacement:
        async def work(tx: Tx) -> Replacement:
            rows = await tx.fetch(BOOTSTRAP_KEYS, digest=key.digest)
            decided = replacement(key.digest, source, last, [_known_key(row) for row in rows])
            if decided.add:
                await tx.execute(ADD_KEY, **msgspec.structs.asdict(key))
            if decided.mark:
                await tx.execute(MARK_BOOTSTRAP_KEY, digest=key.digest, bootstrap=source)
            elif decided.restore:
                await tx.execute(RESTORE_BOOTSTRAP_KEY, digest=key.digest)
            if decided.revoke:
                for (key_id,) in await tx.fetch(REVOKE_BOOTSTRAP_KEYS, b=list(dict.fromkeys(decided.revoke))):
                    await _end_sessions(tx, key_id)
            return decided

        return await self._db.write(work)


async def _end_sessions(tx: Tx, key_id: str) -> None:
    """End the web sessions and the one-time links of a key. The sessions of its workers get no more runs, and end when
    their leases run out."""
    await tx.execute(END_SESSIONS_OF_KEY, id=key_id)
    await tx.execute(REVOKE_SESSIONS_OF_KEY, id=key_id)
    await tx.execute(DROP_TOKENS_OF_KEY, id=key_id)


def key_of(row: Sequence[Any]) -> Key:
    key_id, tenant, name, role, digest, created_at, revoked_at = row
    return Key(
        id=key_id, tenant=tenant, name=name, role=role, digest=digest, created_at=created_at, revoked_at=revoked_at
    )


def _known_key(row: Row) -> KnownKey:
    digest, name, role, source, since, revoked_at = row
    return KnownKey(
        digest=digest,
        name=name,
        role=role,
        source=source,
        current_since=since or 0,
        revoked=revoked_at is not None,
    )
