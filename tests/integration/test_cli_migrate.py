"""The command `timeball migrate`: what it moves, prints and refuses."""

import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from timeball.cli.root import timeball


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a store and a key in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def run(data: Path, *arguments: str, stdin: str | None = None) -> Result:
    command = ("migrate", "--data-dir", str(data), *arguments)
    return CliRunner().invoke(timeball, command, input=stdin, prog_name="timeball")


def make_store(data: Path) -> None:
    from timeball.stores.sqlite.clock import SteadyClock
    from timeball.stores.sqlite.file import Database

    database = Database(data / "timeball.db", SteadyClock(lambda: 1, lambda: 1))
    connection = database.connect(durable=False)
    columns = "id, tenant, name, role, digest, created_at"
    connection.execute(f"INSERT INTO keys ({columns}) VALUES ('k_1', 'default', 'admin', 'admin', 'digest', 1)")
    connection.close()


def test_the_way_from_a_rehearsal_to_the_move_and_back(data: Path, postgres_dsn: str) -> None:
    make_store(data)
    rehearsed = run(data, "--to", postgres_dsn, "--dry-run", "-o", "json")
    assert rehearsed.exit_code == 0, rehearsed.output
    told = json.loads(rehearsed.stdout)
    assert (told["dryRun"], told["heldBy"], told["rows"]["keys"], told["next"]) == (True, None, 1, [])

    done = run(data, "--to", postgres_dsn)
    assert done.exit_code == 0, done.output
    assert "keys\t1\n" in done.stdout
    assert "keys: 1 of 1\n" in done.stderr
    assert "Moved 2 rows from" in done.stderr
    assert f"timeball up --store '{postgres_dsn}' --data-dir {data}" in done.stderr

    again = run(data, "--to", postgres_dsn)
    assert again.exit_code == 6
    assert "--take-back" in again.stderr
    assert run(data, "--take-back", stdin="n\n").exit_code == 1
    assert run(data, "--take-back", "--yes").exit_code == 0
    connection = sqlite3.connect(data / "timeball.db")
    assert connection.execute("SELECT count(*) FROM keys").fetchone() == (1,)
    connection.close()
    refused = run(data, "--to", postgres_dsn)
    assert refused.exit_code == 6
    assert "is not empty: it has rows in keys 1" in refused.stderr


def test_a_terminal_gets_a_table_and_bars(data: Path, postgres_dsn: str) -> None:
    make_store(data)
    done = run(data, "--to", postgres_dsn, "-o", "table")
    assert done.exit_code == 0, done.output
    assert "table" in done.stdout
    assert "Moved 2 rows from" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "give either --to or --take-back"),
        (("--to", "postgresql://db/x", "--take-back"), "give either --to or --take-back"),
        (("--to", "sqlite:///x.db"), "write postgresql://user@host/database"),
        (("--to", "postgresql://db/x", "--store", "postgresql://db/y"), "already PostgreSQL"),
    ],
)
def test_what_cannot_be_meant_is_refused(data: Path, arguments: tuple[str, ...], told: str) -> None:
    result = run(data, *arguments)
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_folder_without_a_store_stays_as_it_is(data: Path) -> None:
    result = run(data, "--to", "postgresql://db/x")
    assert result.exit_code == 6
    assert "there is no store to move" in result.stderr
    assert list(data.iterdir()) == []


def test_a_password_is_not_repeated(data: Path, postgres_dsn: str) -> None:
    make_store(data)
    with_password = postgres_dsn.replace("timeball@", "timeball:secret@")
    assert with_password != postgres_dsn
    done = run(data, "--to", with_password)
    assert done.exit_code == 0, done.output
    assert "secret" not in done.output
    assert "The password is left out here" in done.stderr
    assert "secret" not in run(data, "--to", with_password).output
    assert b"secret" not in (data / "timeball.db").read_bytes()


def test_large_values_go_along_under_their_names(data: Path, postgres_dsn: str, tmp_path: Path) -> None:
    make_store(data)
    connection = sqlite3.connect(data / "timeball.db")
    connection.execute("INSERT INTO meta VALUES ('objects', 7)")
    connection.commit()
    connection.close()
    name = f"payloads/{7:016x}/2026/11/15/j_{0:028x}-1.json"
    (data / "objects" / name).parent.mkdir(parents=True)
    (data / "objects" / name).write_text("{}")

    for dry in (("--dry-run",), ()):
        refused = run(data, "--to", postgres_dsn, *dry)
        assert refused.exit_code == 6
        assert "--objects" in refused.stderr
    shared = tmp_path / "shared"
    done = run(data, "--to", postgres_dsn, "--objects", str(shared))
    assert done.exit_code == 0, done.output
    assert f"--objects {shared}" in done.stderr
    assert (shared / name).read_text() == "{}"
