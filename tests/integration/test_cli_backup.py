"""The commands `timeball backup` and `timeball restore`: what they contain, print and refuse."""

import json
import os
import shutil
import sqlite3
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.migrated import sqlite_store
from timeball.cli.root import timeball
from timeball.stores.backup.container import BackupWriter
from timeball.stores.sql.migrate import known


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a store, two large values and a script in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "data"
    folder.mkdir()
    sqlite_store(folder / "timeball.db")
    for name in ("payloads/07/2026/11/15/j_1-ab.json", "logs/07/2026/11/15/r_1-1.ndjson.gz"):
        (folder / "objects" / name).parent.mkdir(parents=True)
        (folder / "objects" / name).write_text(name)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "etl.sh").write_text("true")
    (folder / "scripts" / "etl.sh").chmod(0o750)
    (folder / "admin.key").write_text("secret-admin-key")
    return folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(timeball, [str(each) for each in arguments], prog_name="timeball")


def backup(data: Path, *more: object) -> Result:
    return run("backup", data.parent / "b.zip", "--data-dir", data, *more)


def restore(data: Path, *more: object) -> Result:
    return run("restore", data.parent / "b.zip", "--data-dir", data.parent / "new", *more)


def execute(data: Path, *statements: str) -> None:
    connection = sqlite3.connect(data / "timeball.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def value(folder: Path, query: str) -> object:
    connection = sqlite3.connect(folder / "timeball.db")
    (found,) = connection.execute(query).fetchone()
    connection.close()
    return found


def test_a_restored_folder_has_all_but_the_keys(data: Path) -> None:
    before = value(data, "SELECT value FROM meta WHERE name = 'token'")
    done = backup(data, "-o", "json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["manifest"]["schema"] == known()[-1].version
    assert (told["manifest"]["objects"], told["manifest"]["scripts"]) == (2, 1)
    assert told["manifest"]["rows"]["tenants"] == 1
    file = data.parent / "b.zip"
    assert file.stat().st_mode & 0o777 == 0o600
    assert b"secret-admin-key" not in file.read_bytes()
    assert list(data.parent.glob(".b.zip*")) == []

    done = restore(data)
    assert done.exit_code == 0, done.output
    new = data.parent / "new"
    assert sorted(path.name for path in new.iterdir()) == ["objects", "scripts", "timeball.db"]
    for path in (path for path in data.rglob("*") if path.is_file() and path.parent != data):
        assert (new / path.relative_to(data)).read_bytes() == path.read_bytes()
    assert (new / "scripts/etl.sh").stat().st_mode & 0o777 == 0o750
    assert (new / "timeball.db").stat().st_mode & 0o777 == 0o600
    assert value(new, "SELECT value FROM meta WHERE name = 'token'") == before + 1_000_000_000
    assert "timeball up --data-dir" in done.stderr


def test_a_backup_overwrites_nothing(data: Path) -> None:
    (data.parent / "b.zip").write_text("older")
    done = backup(data)
    assert (done.exit_code, "overwrites nothing" in done.stderr) == (6, True)
    assert (data.parent / "b.zip").read_text() == "older"


def test_every_damage_is_refused_and_leaves_the_folder_empty(data: Path) -> None:
    assert backup(data).exit_code == 0
    file = data.parent / "b.zip"
    good = file.read_bytes()
    places = [*range(0, len(good), len(good) // 40), len(good) - 100, len(good) - 1]
    damaged = [good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in places]
    for content in (*damaged, good[:-1], good[: len(good) // 2], b"", good + b"x"):
        file.write_bytes(content)
        done = restore(data)
        assert done.exit_code == 6, done.output
        assert "damaged" in done.stderr or "is not a backup of Timeball" in done.stderr
        assert not (data.parent / "new").exists()


def test_a_damaged_store_gives_no_backup(data: Path) -> None:
    content = bytearray((data / "timeball.db").read_bytes())
    content[8192:12288] = os.urandom(4096)
    (data / "timeball.db").write_bytes(content)
    done = backup(data)
    assert done.exit_code == 6, done.output
    assert "damaged" in done.stderr
    assert not (data.parent / "b.zip").exists()


def test_a_backup_of_a_newer_version_is_refused(data: Path) -> None:
    newer = known()[-1].version + 1
    assert backup(data).exit_code == 0
    with zipfile.ZipFile(data.parent / "b.zip") as found:
        manifest = json.loads(found.read("manifest.json"))
    shutil.move(data.parent / "b.zip", data.parent / "old.zip")
    writer = BackupWriter(data.parent / "b.zip")
    writer.add("timeball.db", data / "timeball.db")
    import msgspec

    from timeball.ports.store_backup import BackupManifest

    writer.seal(msgspec.convert({**manifest, "schema": newer, "oldestSchema": newer}, BackupManifest))
    done = restore(data)
    assert done.exit_code == 6
    assert f"it has schema {newer}, this version knows {newer - 1}. Upgrade Timeball" in done.stderr
    assert not (data.parent / "new").exists()


def test_a_store_of_a_newer_version_gives_no_backup(data: Path) -> None:
    execute(data, "INSERT INTO migrations VALUES (9999, 'newer', 1)", "DELETE FROM meta WHERE name = 'oldest_schema'")
    done = backup(data)
    assert (done.exit_code, "written by a newer Timeball" in done.stderr) == (6, True)


def test_rows_that_differ_from_the_manifest_are_refused(data: Path) -> None:
    assert backup(data).exit_code == 0
    with zipfile.ZipFile(data.parent / "b.zip") as found:
        manifest = json.loads(found.read("manifest.json"))
    (data.parent / "b.zip").unlink()
    import msgspec

    from timeball.ports.store_backup import BackupManifest

    manifest["rows"]["jobs"] = 1
    writer = BackupWriter(data.parent / "b.zip")
    writer.add("timeball.db", data / "timeball.db")
    writer.seal(msgspec.convert(manifest, BackupManifest))
    done = restore(data)
    assert (done.exit_code, "its rows are not those" in done.stderr) == (6, True)
    assert list((data.parent / "new").iterdir()) == []


def test_a_folder_with_files_is_refused(data: Path) -> None:
    assert backup(data).exit_code == 0
    done = run("restore", data.parent / "b.zip", "--data-dir", data)
    assert done.exit_code == 6
    assert "is not empty: it contains admin.key, objects, scripts, timeball.db" in done.stderr
    new = data.parent / "new"
    (new / ".restoring").mkdir(parents=True)  # of an interrupted restore
    (new / "lost+found").mkdir()  # of a volume
    assert restore(data).exit_code == 0
    assert sorted(path.name for path in new.iterdir()) == ["lost+found", "objects", "scripts", "timeball.db"]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--store", "postgresql://db/x"), 2, "pg_dump"),
        (("--store", "sqlite:////nowhere/timeball.db"), 6, "there is no store to back up"),
    ],
)
def test_what_cannot_be_backed_up_is_refused(data: Path, arguments: tuple[str, ...], code: int, told: str) -> None:
    done = backup(data, *arguments)
    assert (done.exit_code, told in done.stderr) == (code, True), done.output


def test_a_store_that_was_moved_is_refused(data: Path) -> None:
    execute(data, "CREATE TABLE moved (move, target, at, arrived)", "INSERT INTO moved VALUES ('m', 'there', 0, 1)")
    done = backup(data)
    assert (done.exit_code, "moved to there" in done.stderr) == (6, True)


def test_objects_in_a_bucket_are_named_without_their_credentials(data: Path) -> None:
    done = backup(data, "--objects", "s3://bucket/prefix?secret_access_key=hidden")
    assert done.exit_code == 0, done.output
    assert "Not in this backup: s3://bucket/prefix. " in done.stderr
    assert "hidden" not in done.output


def test_missing_large_values_are_counted(data: Path) -> None:
    execute(
        data,
        "INSERT INTO logs (run_id, attempt, seq, stream, at, text) VALUES ('r_1', 1, 1, '@', 1, 'logs/07/gone.gz')",
        "INSERT INTO logs (run_id, attempt, seq, stream, at, text)"
        " VALUES ('r_1', 2, 1, '@', 1, 'logs/07/2026/11/15/r_1-1.ndjson.gz')",
    )
    done = backup(data)
    assert done.exit_code == 0, done.output
    assert "1 large values are missing" in done.stderr


def test_a_file_that_cannot_be_written_is_said_plainly(data: Path) -> None:
    done = run("backup", data.parent / "no" / "b.zip", "--data-dir", data)
    assert (done.exit_code, "cannot be written: No such file or directory" in done.stderr) == (3, True)
    assert (run("restore", data.parent / "no.zip", "--data-dir", data.parent / "new")).exit_code == 6
