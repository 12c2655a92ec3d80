"""Reads the audit log: pages for people, and whole chains for verification and export."""

from __future__ import annotations

from functools import lru_cache
from itertools import starmap
from typing import Final

from timeball.domain.audit_log.entry import Actor, AuditEntry, ChainHead
from timeball.ports.store.audit_log import AuditFilter, ChainEnd
from timeball.ports.store.paging import Page
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.page_bytes import fitting
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.values import LARGEST, plain
from timeball.stores.sql.schema.audit_log import AuditRow
from timeball.stores.sql.statements import query

AUDIT_ENTRIES_AFTER = query("audit_entries_after")
AUDIT_ENTRIES_BY_NUMBER = query("audit_entries_by_number")
AUDIT_HEAD = query("audit_head")
AUDIT_END = query("audit_end")
AUDIT_RANGE = query("audit_range")
AUDIT_CHAINS = query("audit_chains")

MAX_COMPARED: Final = 20_000
"""Maximum number of entries that are compared with a filter for one page."""
MAX_SWAPPED: Final = 1_000
"""Maximum number of later entries of a chain with an earlier time than a given entry: a change reads the time before it
waits for the lock on the chain, where it gets its number, so that concurrent changes may be numbered in another
order."""
_CONDITIONS: Final = {
    "actor": "AND (l.actor_id = :actor OR l.actor_name = :actor OR l.user_id = :actor)",
    "action": "AND l.action = :action",
    "actions": "AND substr(l.action, 1, length(:actions)) = :actions",
    "resource": "AND l.resource_id = :resource",
    "since": "AND l.at >= :since",
    "until": "AND l.at < :until",
}


class AuditLog(StorePart):
    async def audit_log(self, where: AuditFilter, cursor: str | None, limit: int) -> Page[AuditEntry]:
        given = _parameters(where)
        statement = _list(tuple(sorted(given)))
        chain = plain(where.chain)

        async def work(tx: Tx) -> Page[AuditEntry]:
            before, first = LARGEST if cursor is None else int(cursor), 1
            if given:
                since, until = where.since or 0, LARGEST if where.until is None else where.until
                ((earliest, latest, newest),) = await tx.fetch(AUDIT_RANGE, chain=chain, since=since, until=until)
                if earliest is None or latest is None:
                    return Page([], None)
                before, first = min(before, newest + 1, latest + 1 + MAX_SWAPPED), max(1, earliest - MAX_SWAPPED)
            floor = max(first, before - MAX_COMPARED) if "resource" not in given and given else first
            rows = await tx.fetch(statement, chain=chain, before=before, floor=floor, limit=limit + 1, **given)
            count = fitting((size for _, size in rows), limit)
            entries = await _entries(tx, where.chain, rows[:count])
            if len(rows) > count:
                return Page(entries[::-1], str(rows[count - 1][0]))
            return Page(entries[::-1], str(floor) if floor > first else None)

        return await self._db.read(work, slow=True)

    async def audit_entries(self, chain: str, after: int, limit: int) -> list[AuditEntry]:
        async def work(tx: Tx) -> list[AuditEntry]:
            rows = await tx.fetch(AUDIT_ENTRIES_AFTER, chain=plain(chain), after=after, limit=limit)
            return await _entries(tx, chain, rows[: fitting((size for _, size in rows), limit)])

        return await self._db.read(work)

    async def audit_head(self, chain: str) -> ChainHead | None:
        async def work(tx: Tx) -> ChainHead | None:
            return next(starmap(ChainHead, await tx.fetch(AUDIT_HEAD, chain=plain(chain))), None)

        return await self._db.read(work)

    async def audit_end(self, chain: str) -> ChainEnd:
        async def work(tx: Tx) -> ChainEnd:
            ((seq, last_hash, last),) = await tx.fetch(AUDIT_END, chain=plain(chain))
            return ChainEnd(None if seq is None else ChainHead(chain, seq, last_hash), last)

        return await self._db.read(work)

    async def audit_chains(self) -> list[str]:
        async def work(tx: Tx) -> list[str]:
            return [chain for (chain,) in await tx.fetch(AUDIT_CHAINS)]

        return await self._db.read(work, slow=True)


async def _entries(tx: Tx, chain: str, rows: list[Row]) -> list[AuditEntry]:
    if not rows:
        return []
    found = await tx.fetch(AUDIT_ENTRIES_BY_NUMBER, chain=plain(chain), b=[seq for seq, _ in rows])
    return [entry_in(row) for row in found]


def _parameters(where: AuditFilter) -> dict[str, str | int]:
    given: dict[str, str | int] = {}
    if where.actor is not None:
        given["actor"] = plain(where.actor)
    if where.action is not None:
        is_group = where.action.endswith("*")
        given["actions" if is_group else "action"] = plain(where.action.removesuffix("*"))
    if where.resource is not None:
        given["resource"] = plain(where.resource)
    if where.since is not None:
        given["since"] = where.since
    if where.until is not None:
        given["until"] = where.until
    return given


@lru_cache
def _list(fields: tuple[str, ...]) -> Query:
    return query("list_audit_log", conditions=" ".join(_CONDITIONS[field] for field in fields))


def entry_in(row: Row) -> AuditEntry:
    found = AuditRow(*row)
    return AuditEntry(
        chain=found.chain,
        seq=found.seq,
        at=found.at,
        actor=Actor(kind=found.actor_kind, id=found.actor_id, name=found.actor_name, user_id=found.user_id),
        address=found.address,
        action=found.action,
        resource=found.resource,
        resource_id=found.resource_id,
        before=found.old_values,
        after=found.new_values,
        previous=found.previous,
        hash=found.hash,
    )
