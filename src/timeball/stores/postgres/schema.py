"""The schema of a PostgreSQL store: read by any role, and migrated by one that may change tables."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import asyncpg

from timeball.domain.errors import Conflict, Unavailable
from timeball.domain.instant import Micros
from timeball.ports.store.maintenance import Occupied
from timeball.ports.store_schema import SchemaState
from timeball.stores.postgres.connect import SETTINGS, Address, Connection
from timeball.stores.postgres.errors import translated_errors
from timeball.stores.postgres.partitions import not_waiting, prepare_days_ahead
from timeball.stores.postgres.tx import Compiler, Tx
from timeball.stores.sql.dialect import POSTGRES
from timeball.stores.sql.migrate import Migration, known, log_applied, migrate, require_current, schema_state

MIGRATION_LOCK: Final = 7_463_911_301
TRIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresState:
    version: str
    is_read_only: bool
    ahead: Micros
    """How far the clock of PostgreSQL is ahead of the clock of this machine; negative: behind."""
    schema: SchemaState


async def ensure_schema(connection: Connection, *, may_migrate: bool) -> None:
    """Migrate the database, and create the partitions of the next days. If that is not allowed, raise `Conflict` unless
    the schema is current."""
    if not may_migrate:
        require_current(await read_schema(connection))
        return
    for tried in range(TRIES):
        try:
            async with connection.transaction():
                applied = await apply_schema(connection)
            log_applied(applied)
            break
        except asyncpg.LockNotAvailableError as error:
            if tried == TRIES - 1:
                raise Unavailable("PostgreSQL is too busy to be migrated; try again later") from error
            await asyncio.sleep(1)
    with contextlib.suppress(Occupied):  # the default partition takes the rows, and maintenance tries again
        async with not_waiting(), connection.transaction():
            await prepare_days_ahead(Tx(connection, Compiler()))


async def apply_schema(connection: Connection) -> list[Migration]:
    """Migrate the schema inside a transaction, under an advisory lock: if two servers start at once, the second finds
    the schema up to date. Return the migrations that were applied."""
    await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
    # A request that waits for a table lock blocks all later requests, so it gives up after 2 s and is repeated later.
    await connection.execute("SET LOCAL lock_timeout = '2s'")
    return await migrate(Tx(connection, Compiler()), POSTGRES, known())


async def read_schema(connection: Connection) -> SchemaState:
    if await connection.fetchval("SELECT to_regclass('migrations')") is None:
        return schema_state((), None)
    applied = [row[0] for row in await connection.fetch("SELECT version FROM migrations")]
    return schema_state(applied, await connection.fetchval("SELECT value FROM meta WHERE name = 'oldest_schema'"))


async def connect_for_schema(address: Address, timeout: float | None) -> asyncpg.Connection[asyncpg.Record]:
    """Return a connection whose statements have this timeout. Raise `Conflict` if PostgreSQL refuses it."""
    try:
        return await address.connect(command_timeout=timeout, server_settings=SETTINGS)
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise Conflict(f"PostgreSQL refuses the connection: {error}; check the store's address") from error


async def schema_of(dsn: str) -> SchemaState:
    async with translated_errors():
        connection = await connect_for_schema(Address(dsn, 15), 15)
        try:
            return await read_schema(connection)
        finally:
            await connection.close(timeout=15)


async def inspect(dsn: str, wall: Callable[[], Micros]) -> PostgresState:
    """Return the state of a database, for a diagnosis."""
    connection = await connect_for_schema(Address(dsn, 15), 15)
    try:
        before = wall()
        now = await connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        return PostgresState(
            version=await connection.fetchval("SHOW server_version"),
            is_read_only=await connection.fetchval("SHOW transaction_read_only") == "on",
            ahead=now - (before + wall()) // 2,
            schema=await read_schema(connection),
        )
    finally:
        await connection.close(timeout=15)


async def upgrade_schema(dsn: str) -> None:
    async with translated_errors():
        connection = await connect_for_schema(Address(dsn, 15), None)
        try:
            await ensure_schema(connection, may_migrate=True)
        finally:
            await connection.close(timeout=15)
