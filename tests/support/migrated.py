"""Databases that have the schema already: to make one takes longer than most tests do."""

import tempfile
from functools import cache
from pathlib import Path

import asyncpg

from tests.support.postgres import run_apart
from timeball import system
from timeball.ports.store import Store
from timeball.stores.postgres import PostgresStore
from timeball.stores.sqlite import SqliteStore

_WITH_PAGES = """
SELECT relname FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> 'migrations' AND pg_relation_size(oid) > 0
"""


def sqlite_store(path: Path) -> SqliteStore:
    """A store on a new file."""
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
    """As if it had just been migrated. To truncate all tables, used or not, takes longer than most tests do."""
    connection = await asyncpg.connect(dsn)
    if used := [name for (name,) in await connection.fetch(_WITH_PAGES)]:
        await connection.execute(f"TRUNCATE {', '.join(used)}")
    await connection.execute("ALTER SEQUENCE tokens RESTART")
    await connection.close()


async def _open_and_close(store: Store) -> None:
    await store.open()
    await store.close()
