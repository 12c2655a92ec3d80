"""Databases that have the schema already. Creating one takes longer than most tests."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg

from tests.support.postgres import run_apart
from timeball import system
from timeball.ports.store.store import Store
from timeball.stores.postgres.store import PostgresStore
from timeball.stores.sqlite.store import SqliteStore

_SIZES = """
SELECT relname, pg_relation_size(oid) FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> 'migrations' AND pg_relation_size(oid) > 0
"""
END_OTHER_SESSIONS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
UNPROTECT_AUDIT_LOG = "ALTER TABLE audit_log DISABLE TRIGGER USER"
PROTECT_AUDIT_LOG = "ALTER TABLE audit_log ENABLE TRIGGER USER"
_DEFAULT_TENANT = """
INSERT INTO tenants (id, name, description, state, limits, version, created_at, updated_at)
VALUES ('default', '', '', 'active', '{}', 1, 0, 0)
"""
_SMALL = 200_000
"""Maximum size of a table in bytes up to which deleting its rows is faster than truncating it, which creates new files
for the table and its indexes.
"""


def sqlite_store(path: Path) -> SqliteStore:
    """Return a store on a new file."""
    path.write_bytes(_sqlite_file())
    return SqliteStore(path, wall=system.wall, monotonic=system.monotonic)


@cache
def _sqlite_file() -> bytes:
    with tempfile.TemporaryDirectory(prefix="timeball-schema-") as folder:
        path = Path(folder) / "timeball.db"
        run_apart(_open_and_close(SqliteStore(path, wall=system.wall, monotonic=system.monotonic)))
        return path.read_bytes()


def migrate_postgres(dsn: str) -> None:
    run_apart(_open_and_close(PostgresStore(dsn, monotonic=system.monotonic)))


async def empty_postgres(dsn: str) -> None:
    """Reset the database to its state directly after the migration."""
    await _backstage().do(dsn, _empty)


def renew_postgres(dsn: str) -> None:
    """Do the same as `empty_postgres` for a database that may have open sessions: they are terminated first."""
    asyncio.run(_renew(dsn))


async def _renew(dsn: str) -> None:
    await tamper_with_postgres(dsn, END_OTHER_SESSIONS)
    await empty_postgres(dsn)


async def tamper_with_postgres(dsn: str, statement: str) -> None:
    await _backstage().do(dsn, lambda connection: connection.execute(statement))


class _Backstage:
    """An event loop in a thread of its own. It keeps its connections from test to test, while each test has another
    loop.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._connections: dict[str, asyncpg.Connection[Any]] = {}
        threading.Thread(target=self._loop.run_forever, name="backstage", daemon=True).start()

    async def do(self, dsn: str, work: Callable[[asyncpg.Connection[Any]], Awaitable[object]]) -> None:
        async def connected() -> None:
            connection = self._connections.get(dsn)
            if connection is None or connection.is_closed():
                connection = self._connections[dsn] = await asyncpg.connect(dsn)
            await work(connection)

        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(connected(), self._loop))


_backstage = cache(_Backstage)


async def _empty(connection: asyncpg.Connection[Any]) -> None:
    sizes = dict(await connection.fetch(_SIZES))
    statements = [f"DELETE FROM {table}" for table, size in sizes.items() if size <= _SMALL]
    if "audit_log" in sizes:  # its entries are protected against this
        statements = [UNPROTECT_AUDIT_LOG, *statements, PROTECT_AUDIT_LOG]
    if large := [table for table, size in sizes.items() if size > _SMALL]:
        statements.append(f"TRUNCATE {', '.join(large)}")
    await connection.execute("; ".join([*statements, _DEFAULT_TENANT, "ALTER SEQUENCE tokens RESTART"]))


async def _open_and_close(store: Store) -> None:
    await store.open()
    await store.close()
