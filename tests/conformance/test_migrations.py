"""Migrations add up to the schema, are applied completely or not at all, and refuse a newer database."""

import asyncio
import re
import sqlite3
from pathlib import Path

import asyncpg
import pytest

from tests.support.builders import one_shot, settlement, worker
from timeball import system
from timeball.domain.errors import Conflict
from timeball.ports.store.runs import SlotRequest
from timeball.ports.store.store import Store
from timeball.stores.postgres.store import PostgresStore
from timeball.stores.sql import migrate
from timeball.stores.sql.migrate import Migration, known
from timeball.stores.sql.schema.tables import TABLES
from timeball.stores.sqlite.store import SqliteStore

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
            "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 "
            "WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
            "ORDER BY c.relname, a.attnum"
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
    others = {"meta", "workers", "tasks", "turns", "leases", "daily_sums", "departures", "migrations"}
    others |= {"calendars", "slot_loads", "run_stats", "stats_writers"}
    others |= {"web_sessions", "sign_in_tokens", "sign_in_attempts"}
    others |= {"usage_sums", "usage_marks", "usage_pending", "tenant_prices"}
    assert set(columns) - {"departing"} == {*TABLES, *others}


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
        for module in ("timeball.stores.sqlite.file", "timeball.stores.postgres.schema"):
            patched.setattr(f"{module}.known", lambda: [*known(), BROKEN])
        with pytest.raises(Exception, match="no_such_table"):
            await database.open()
    assert await database.columns() == before
    await database.open()


async def test_a_database_of_a_newer_version_is_refused(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        for module in ("timeball.stores.sqlite.file", "timeball.stores.postgres.schema"):
            patched.setattr(f"{module}.known", lambda: [*known(), NEWER])
        await database.open()
    with pytest.raises(Conflict, match=r"schema 9999.*Upgrade Timeball"):
        await database.open()


EXPANDING = Migration(
    9_999,
    "expanding",
    f"-- A column for what the next version remembers.\n-- works with: {known()[-1].version}\n"
    "ALTER TABLE jobs ADD COLUMN remembered TEXT;\n"
    "CREATE TABLE remembered_things (id BIGINT);\n",
)


async def life_cycle(store: Store) -> None:
    """A job from its beginning to its end."""
    sent = one_shot(store.now())
    await store.submit([sent])
    await store.register(worker("w_1"), 10**9)
    (claimed,) = (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims
    (settled,) = await store.settle([settlement(claimed)])
    assert settled is not None
    assert (await store.runs([claimed.run_id]))[claimed.run_id].is_terminal


async def test_versions_work_side_by_side_on_a_schema_that_only_grew(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I27: the new version migrates under the old one, which goes on, and may be started again."""
    old, new, old_again = (PostgresStore(postgres_dsn, monotonic=system.monotonic) for _ in range(3))
    await old.open()
    await life_cycle(old)
    with monkeypatch.context() as patched:
        patched.setattr("timeball.stores.postgres.schema.known", lambda: [*known(), EXPANDING])
        await new.open()
    await old_again.open()
    for store in (old, new, old_again):
        await life_cycle(store)
        await store.close()


async def test_an_older_version_refuses_what_was_contracted_and_starts_on_what_was_expanded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = ("timeball.stores.sqlite.file", "timeball.stores.postgres.schema")
    with monkeypatch.context() as patched:
        for module in modules:
            patched.setattr(f"{module}.known", lambda: [*known(), EXPANDING])
        await database.open()
    await database.open()
    contracting = Migration(10_000, "contracting", "DROP TABLE remembered_things;\n")
    with monkeypatch.context() as patched:
        for module in modules:
            patched.setattr(f"{module}.known", lambda: [*known(), EXPANDING, contracting])
        await database.open()
    with pytest.raises(Conflict, match=r"schema 10000.*Upgrade Timeball"):
        await database.open()


async def test_a_migration_does_not_hold_up_everybody_behind_a_table_that_is_in_use(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lets go after two seconds and tries again: meanwhile others get at the table."""
    store = PostgresStore(postgres_dsn, monotonic=system.monotonic)
    await store.open()
    reader, other = await asyncpg.connect(postgres_dsn), await asyncpg.connect(postgres_dsn)
    monkeypatch.setattr("timeball.stores.postgres.schema.known", lambda: [*known(), EXPANDING])
    newer = PostgresStore(postgres_dsn, monotonic=system.monotonic)
    async with reader.transaction():
        await reader.execute("SELECT 1 FROM jobs")
        migrating = asyncio.create_task(newer.open())
        while not await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            await asyncio.sleep(0.02)
        await other.execute("SELECT 1 FROM jobs", timeout=30)  # comes through while the first still reads
    await migrating
    assert "remembered" in (await Database(postgres_dsn).columns())["jobs"]
    for each in (store, newer, reader, other):
        await each.close()


def test_migrations_are_numbered_without_gaps() -> None:
    assert [migration.version for migration in known()] == list(range(1, len(known()) + 1))
    assert all(re.fullmatch(r"[a-z_]+", migration.name) for migration in known())
    assert migrate.known()[0].name == "initial"
