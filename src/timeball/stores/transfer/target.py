"""The PostgreSQL database that receives a store, in one transaction: if the move fails, the database stays empty."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg

from timeball.domain.errors import Conflict, Unavailable
from timeball.domain.instant import Micros
from timeball.stores.postgres.connect import Address
from timeball.stores.postgres.schema import apply_schema
from timeball.stores.postgres.store import make_room_for
from timeball.stores.sql.maintenance.clock import MAX_LEASE
from timeball.stores.transfer.source import Batch

CONNECT_SECONDS: Final = 15.0

_SETTINGS: Final = {
    "application_name": "timeball migrate",
    "synchronous_commit": "on",
    "idle_in_transaction_session_timeout": "0",
    "timezone": "UTC",
}
_BROKEN: Final = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
_COUNT_TENANTS: Final = "SELECT count(*) FROM tenants WHERE NOT (id = 'default' AND version = 1)"
_DROP_TENANTS: Final = "DELETE FROM tenants"
_SECRETS: Final = frozenset({"password", "passfile", "sslpassword"})
_WAIT_FOR_LOCKS: Final = "SET LOCAL lock_timeout = '10s'"
_CLOCK: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_TABLE_EXISTS: Final = "SELECT to_regclass($1) IS NOT NULL"
_COLUMNS: Final = """
SELECT a.attname FROM pg_attribute a WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
"""
_INDEXES: Final = """
SELECT c.oid::regclass::text, pg_get_indexdef(c.oid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = ANY ($1::text[]::regclass[]) AND NOT c.relispartition
  AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = c.oid)
"""
"""The indexes that no constraint needs. Of a partitioned table, only the indexes of the parent are listed."""
_RECEIPT: Final = "moved:"
_KEEP_LARGER: Final = """
INSERT INTO meta (name, value) SELECT * FROM unnest($1::text[], $2::bigint[])
ON CONFLICT (name) DO UPDATE SET value = GREATEST(meta.value, excluded.value)
"""
_TOKENS_FROM: Final = "SELECT setval('tokens', GREATEST($1::bigint, last_value)) FROM tokens"
_MOVE_LEASES: Final = """
UPDATE workers SET lease_until = LEAST(lease_until + $1::bigint, $2::bigint) WHERE lapsed = 0
"""


class TransferTarget:
    """A connection to the database, inside the transaction that receives all data."""

    def __init__(self, connection: asyncpg.Connection[Any]) -> None:
        self._connection = connection

    async def now(self) -> Micros:
        return int(await self._connection.fetchval(_CLOCK))

    async def make_room(self) -> None:
        """Migrate the schema. A server that starts on this database during the move waits until the transaction ends.
        If an earlier move is still open, this call waits for its end."""
        await self._connection.execute(_WAIT_FOR_LOCKS)
        await apply_schema(self._connection)

    async def has_receipt(self, move: str) -> bool:
        """True if the move with this id was committed."""
        if not await self._connection.fetchval(_TABLE_EXISTS, "meta"):
            return False
        found = await self._connection.fetchval("SELECT 1 FROM meta WHERE name = $1", f"{_RECEIPT}{move}")
        return found is not None

    async def keep(self, tables: Mapping[str, Sequence[str]]) -> None:
        """Lock these tables against all other transactions. Raise `Conflict` if PostgreSQL does not have one of the
        columns."""
        for table, columns in tables.items():
            known = {column for (column,) in await self._connection.fetch(_COLUMNS, table)}
            if missing := [column for column in columns if column not in known]:
                raise Conflict(f"PostgreSQL has no column {table}.{missing[0]}; nothing was moved")
        await self._connection.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")

    async def require_empty(self, tables: Iterable[str], address: str) -> None:
        there = {}
        for table in tables:
            if await self._connection.fetchval(_TABLE_EXISTS, table):
                counting = _COUNT_TENANTS if table == "tenants" else f"SELECT count(*) FROM {table}"
                there[table] = await self._connection.fetchval(counting)
        if found := ", ".join(f"{table} {count:,}" for table, count in there.items() if count):
            raise Conflict(
                f"{address} is not empty: it has rows in {found}. A store can only be moved to an empty database: "
                "create one with createdb, and use its address"
            )

    async def drop_default_tenant(self) -> None:
        """Delete the tenant that the migration inserted. That of the old store takes its place."""
        await self._connection.execute(_DROP_TENANTS)

    async def drop_indexes(self, tables: Iterable[str]) -> list[str]:
        """Drop the indexes, and return the statements that create them again. Building an index at once is faster for
        large tables and makes it smaller than inserting row by row."""
        found = await self._connection.fetch(_INDEXES, list(tables))
        for name, _ in found:
            await self._connection.execute(f"DROP INDEX {name}")
        return [definition.replace(" ON ONLY ", " ON ", 1) for _, definition in found]

    async def create_indexes(self, definitions: Iterable[str]) -> None:
        for definition in definitions:
            await self._connection.execute(definition)

    async def make_room_for(self, days: Iterable[Micros]) -> None:
        """Create partitions for these days. A day with partitions is later dropped as a whole; rows of other days are
        deleted one by one."""
        await make_room_for(self._connection, days)

    async def copy(self, table: str, columns: Sequence[str], batch: Batch) -> None:
        rows = [tuple(map(_storable, row)) for row in batch]
        await self._connection.copy_records_to_table(table, records=rows, columns=columns)

    async def verify(self, rows: Mapping[str, int]) -> None:
        for table, sent in rows.items():
            arrived = await self._connection.fetchval(f"SELECT count(*) FROM {table}")
            if arrived != sent:
                raise Conflict(f"{arrived:,} of {sent:,} rows of {table} arrived; nothing was moved")

    async def set_numbers(self, numbers: Mapping[str, int]) -> None:
        """Write the numbers of `meta`. They only grow, so none may become smaller than in the old store."""
        await self._connection.execute(_KEEP_LARGER, list(numbers), list(numbers.values()))

    async def continue_tokens(self, last: int) -> None:
        if last:
            await self._connection.execute(_TOKENS_FROM, last)

    async def move_leases(self, then: Micros) -> None:
        """Move the ends of leases to the clock of the new store, so that each lease has the remaining time that it had
        at the instant `then` of the old clock, but at most `MAX_LEASE`."""
        now = await self.now()
        await self._connection.execute(_MOVE_LEASES, now - then, now + MAX_LEASE)

    async def analyze(self, tables: Iterable[str]) -> None:
        await self._connection.execute(f"ANALYZE {', '.join(tables)}")

    async def leave_receipt(self, move: str, at: Micros) -> None:
        await self._connection.execute("INSERT INTO meta (name, value) VALUES ($1, $2)", f"{_RECEIPT}{move}", at)

    async def commit(self) -> None:
        await self._connection.execute("COMMIT")


@contextlib.asynccontextmanager
async def entered(dsn: str) -> AsyncIterator[TransferTarget]:
    """Connect to the database and begin a transaction, which is rolled back unless it is committed."""
    try:
        connection = await Address(dsn, CONNECT_SECONDS).connect(server_settings=_SETTINGS)
        try:
            await connection.execute("BEGIN")
            yield TransferTarget(connection)
        finally:
            await connection.close(timeout=CONNECT_SECONDS)
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise Conflict(f"PostgreSQL refuses the connection: {error}; check the address {shown(dsn)}") from error
    except asyncpg.LockNotAvailableError as error:
        raise Conflict(f"another process uses {shown(dsn)}: {error}; stop it, or try again later") from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise Conflict(f"PostgreSQL refuses: {error}; make the user of {shown(dsn)} the owner of it") from error
    except _BROKEN as error:
        raise Unavailable(f"PostgreSQL does not answer: {str(error) or type(error).__name__}") from error


def _storable(value: Any) -> Any:
    """Return the value, with NUL in a text replaced: SQLite stores NUL, PostgreSQL refuses it."""
    return value.replace("\x00", "\ufffd") if isinstance(value, str) and "\x00" in value else value


def shown(dsn: str) -> str:
    """Return the address without its password and other secrets."""
    parts = urlsplit(dsn)
    user, at, hosts = parts.netloc.rpartition("@")
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name not in _SECRETS])
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{hosts}{parts.path}{'?' if query else ''}{query}"
