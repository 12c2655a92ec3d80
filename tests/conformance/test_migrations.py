"""Migrations add up to the schema, happen completely or not at all, and refuse a newer database."""

import re
import sqlite3
from pathlib import Path

import asyncpg
import pytest

from timeball import system
from timeball.domain.errors import Conflict
from timeball.ports.store import Store
from timeball.stores.postgres import PostgresStore
from timeball.stores.sql import migrate
from timeball.stores.sql.migrate import Migration, known
from timeball.stores.sql.tables import TABLES
from timeball.stores.sqlite import SqliteStore

BROKEN = Migration(9_998, "broken", "CREATE TABLE half (id BIGINT);\nINSERT INTO no_such_table VALUES (1);\n")
NEWER = Migration(9_999, "newer", "CREATE TABLE newer (id BIGINT);\n")


class Database:
    """A database that is migrated by opening a store, and looked at from outside."""

    def __init__(self, target: Path | str) -> None:
        self.target = target

    async def open(self) -> None:
        store: Store
        if isinstance(self.target, Path):
            store = SqliteStore(self.target, wall=system.wall, monotonic=system.monotonic)
        else:
            store = PostgresStore(self.target, monotonic=system.monotonic)
        await store.open()
        await store.close()

    async def columns(self) -> dict[str, list[str]]:
        """The tables and their columns, in order."""
        found: dict[str, list[str]] = {}
        if isinstance(self.target, Path):
            connection = sqlite3.connect(self.target)
            for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
                found[table] = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            connection.close()
            return found
        remote = await asyncpg.connect(self.target)
        rows = await remote.fetch(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' "
            "ORDER BY table_name, ordinal_position"
        )
        await remote.close()
        for table, column in rows:
            found.setdefault(table, []).append(column)
        return found


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return Database(tmp_path / "timeball.db" if request.param == "sqlite" else request.getfixturevalue("postgres_dsn"))


async def test_migrations_add_up_to_the_tables_the_store_writes(database: Database) -> None:
    await database.open()
    columns = await database.columns()
    assert {name: set(columns[name]) for name in TABLES} == {name: set(table.columns) for name, table in TABLES.items()}
    others = {"meta", "workers", "keys", "tasks", "turns", "leases", "daily_sums", "migrations"}
    assert set(columns) == {*TABLES, *others}


async def test_migrating_again_changes_nothing(database: Database) -> None:
    await database.open()
    before = await database.columns()
    await database.open()
    assert await database.columns() == before


async def test_a_migration_that_fails_half_way_leaves_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await database.open()
    before = await database.columns()
    with monkeypatch.context() as patched:
        for module in ("timeball.stores.sqlite", "timeball.stores.postgres"):
            patched.setattr(f"{module}.known", lambda: [*known(), BROKEN])
        with pytest.raises(Exception, match="no_such_table"):
            await database.open()
    assert await database.columns() == before
    await database.open()


async def test_a_database_of_a_newer_version_is_refused(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        for module in ("timeball.stores.sqlite", "timeball.stores.postgres"):
            patched.setattr(f"{module}.known", lambda: [*known(), NEWER])
        await database.open()
    with pytest.raises(Conflict, match=r"schema 9999.*Upgrade Timeball"):
        await database.open()


def test_migrations_are_numbered_without_gaps() -> None:
    assert [migration.version for migration in known()] == list(range(1, len(known()) + 1))
    assert all(re.fullmatch(r"[a-z_]+", migration.name) for migration in known())
    assert migrate.known()[0].name == "initial"
