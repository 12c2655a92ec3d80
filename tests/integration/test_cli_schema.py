"""The command `timeball schema`, and servers that may not change tables."""

import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.postgres import run_apart
from timeball.cli.root import timeball
from timeball.domain.errors import Conflict
from timeball.stores.postgres.store import PostgresStore
from timeball.stores.sql.dialect import SQLITE
from timeball.stores.sql.migrate import known, migrate
from timeball.stores.sqlite.clock import SteadyClock
from timeball.stores.sqlite.store import SqliteStore
from timeball.stores.sqlite.tx import Tx, transact

NEWEST = known()[-1]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(timeball, ["schema", *map(str, arguments)], prog_name="timeball")


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A data folder whose store lacks the newest migration."""
    connection = sqlite3.connect(tmp_path / "timeball.db", isolation_level=None)
    tx = Tx(connection, SteadyClock(lambda: 1, lambda: 1))
    transact(connection, lambda tx: migrate(tx, SQLITE, known()[:-1]), tx)
    connection.close()
    return tmp_path


@pytest.fixture
def newer(older: Path) -> Path:
    """A data folder whose store was written by a later version."""
    connection = sqlite3.connect(older / "timeball.db")
    connection.execute("INSERT INTO migrations VALUES (9999, 'later', 1)")
    connection.execute("UPDATE meta SET value = 9999 WHERE name = 'oldest_schema'")
    connection.commit()
    connection.close()
    return older


def test_an_older_schema_is_shown_and_upgraded(older: Path) -> None:
    shown = run("status", "--data-dir", older, "-o", "json")
    assert shown.exit_code == 1
    assert json.loads(shown.stdout) == {
        "schema": NEWEST.version - 1,
        "newest": NEWEST.version,
        "oldest": json.loads(shown.stdout)["oldest"],
        "missing": [f"{NEWEST.version:04}_{NEWEST.name}"],
    }
    assert run("upgrade", "--data-dir", older).exit_code == 0
    after = run("status", "--data-dir", older)
    assert (after.exit_code, f"schema of the store\t{NEWEST.version}\n" in after.stdout) == (0, True)
    assert run("upgrade", "--data-dir", older).exit_code == 0


def test_a_newer_schema_is_never_downgraded(newer: Path) -> None:
    for verb in ("status", "upgrade"):
        refused = run(verb, "--data-dir", newer)
        assert refused.exit_code == 6
        assert f"the store has schema 9999, and this version knows {NEWEST.version}" in refused.stderr
        assert "restore a backup from before the upgrade" in refused.stderr


def test_a_folder_without_a_store_stays_empty(tmp_path: Path) -> None:
    for verb in ("status", "upgrade"):
        refused = run(verb, "--data-dir", tmp_path)
        assert (refused.exit_code, "there is no store" in refused.stderr) == (6, True)
    assert list(tmp_path.iterdir()) == []


async def test_a_server_that_may_not_migrate_refuses_an_older_schema(older: Path) -> None:
    before = (older / "timeball.db").read_bytes()
    store = SqliteStore(older / "timeball.db", wall=lambda: 1, monotonic=lambda: 1, inline=True, may_migrate=False)
    with pytest.raises(Conflict, match="run `timeball schema upgrade`"):
        await store.open()
    assert (older / "timeball.db").read_bytes()[100:] == before[100:]
    assert run("upgrade", "--data-dir", older).exit_code == 0
    await store.open()
    await store.close()


def test_postgresql_is_upgraded_before_servers_that_may_not_migrate(postgres_dsn: str) -> None:
    empty = run("status", "--store", postgres_dsn)
    assert (empty.exit_code, "schema of the store\t0\n" in empty.stdout) == (1, True)

    async def opened() -> None:
        store = PostgresStore(postgres_dsn, monotonic=lambda: 1, may_migrate=False)
        await store.open()
        await store.close()

    with pytest.raises(Conflict, match="run `timeball schema upgrade`"):
        run_apart(opened())
    done = run("upgrade", "--store", postgres_dsn)
    assert done.exit_code == 0, done.output
    run_apart(opened())
    assert run("status", "--store", postgres_dsn).exit_code == 0
