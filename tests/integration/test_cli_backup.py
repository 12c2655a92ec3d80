"""The commands `timeball backup` and `timeball restore`: what they contain, print and refuse."""

import fcntl
import json
import os
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.support.migrated import sqlite_store
from timeball.cli.root import timeball
from timeball.ports.store_backup import FORMAT, BackupManifest
from timeball.stores.backup.backup import DRAFT
from timeball.stores.backup.container import BackupWriter
from timeball.stores.sql.migrate import known
from timeball.stores.sqlite.clock import SteadyClock
from timeball.stores.sqlite.file import Database


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
    assert list(data.parent.glob(f"{DRAFT}*")) == []

    done = restore(data)
    assert done.exit_code == 0, done.output
    new = data.parent / "new"
    assert sorted(path.name for path in new.iterdir()) == ["objects", "scripts", "timeball.db", "timeball.db.lock"]
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
    manifest["rows"]["jobs"] = 1
    writer = BackupWriter(data.parent / "b.zip")
    writer.add("timeball.db", data / "timeball.db")
    writer.seal(msgspec.convert(manifest, BackupManifest))
    done = restore(data)
    assert (done.exit_code, "its rows are not those" in done.stderr) == (6, True)
    assert [path.name for path in (data.parent / "new").iterdir()] == ["timeball.db.lock"]


def test_a_folder_with_files_is_refused(data: Path) -> None:
    assert backup(data).exit_code == 0
    done = run("restore", data.parent / "b.zip", "--data-dir", data)
    assert done.exit_code == 6
    assert "is not empty: it contains admin.key, objects, scripts, timeball.db" in done.stderr
    new = data.parent / "new"
    new.mkdir()
    server = Database(new / "timeball.db", SteadyClock(lambda: 0, lambda: 0))
    server.lock()  # as a server that starts there does
    done = restore(data)
    assert (done.exit_code, "is in use by process" in done.stderr) == (6, True)
    server.unlock()
    (new / ".restoring").mkdir(parents=True)  # of an interrupted restore
    (new / "lost+found").mkdir()  # of a volume
    assert restore(data).exit_code == 0
    names = ["lost+found", "objects", "scripts", "timeball.db", "timeball.db.lock"]
    assert sorted(path.name for path in new.iterdir()) == names


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


# --- hostile files and folders --------------------------------------------------------------------------------------

MANIFEST = BackupManifest(
    format=FORMAT, version="0.0.0", schema=1, oldest_schema=1, store_time="", rows={}, objects=0, scripts=0
)


def crafted(data: Path, change: Callable[[zipfile.ZipFile], object]) -> None:
    """Write a file with a right checksum, as anyone can."""
    writer = BackupWriter(data.parent / "b.zip")
    change(writer._zip)
    writer.seal(MANIFEST)


def named(name: str) -> Callable[[zipfile.ZipFile], object]:
    return lambda archive: archive.writestr(zipfile.ZipInfo(name), b"x")


def bomb(archive: zipfile.ZipFile) -> None:
    archive.writestr("timeball.db", b"x")
    archive.filelist[0].file_size = 1 << 60


def encrypted(archive: zipfile.ZipFile) -> None:
    archive.writestr("timeball.db", b"x")
    archive.filelist[0].flag_bits |= 1


def garbled(archive: zipfile.ZipFile) -> None:
    archive.writestr("timeball.db", b"x" * 100)
    archive.filelist[0].CRC ^= 1


def foreign(archive: zipfile.ZipFile) -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript("CREATE TABLE meta (name, value); CREATE TABLE migrations (version, name, applied_at)")
    archive.writestr("timeball.db", connection.serialize())


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        *((named(name), 6, "which no backup of Timeball has") for name in (
            "../x", "/etc/x", "scripts/../../x", "scripts", "scripts/", "admin.key", "timeball.db/..", "./timeball.db/x"
        )),
        (named("objects/a"), 6, "has no database"),
        (bomb, 3, "are free"),
        (encrypted, 6, "cannot be read"),
        (garbled, 6, "cannot be read"),
        (foreign, 6, "not a store of Timeball"),
        (lambda archive: archive.writestr("timeball.db", b"x" * 5_000), 6, "the database is damaged"),
    ],
)  # fmt: skip
def test_a_hostile_file_is_refused(
    data: Path, change: Callable[[zipfile.ZipFile], object], code: int, told: str
) -> None:
    crafted(data, change)
    done = restore(data)
    assert (done.exit_code, told in done.stderr) == (code, True), done.output
    new = data.parent / "new"
    assert [path.name for path in new.iterdir()] == ["timeball.db.lock"]
    assert not list(data.parent.glob("x")), "outside of the folder"


@pytest.mark.parametrize("manifest", [b"[]", b"1", b"{}", b'{"format": "x"}', b"\xff", b" " * 2_000_000])
def test_a_hostile_manifest_is_refused(data: Path, manifest: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("msgspec.json.format", lambda _: manifest)
    crafted(data, foreign)
    monkeypatch.undo()
    done = run("restore", data.parent / "b.zip", "--data-dir", data.parent / "new")
    assert (done.exit_code, "is not a backup of Timeball" in done.stderr) == (6, True), done.output


def test_what_a_killed_backup_left_is_removed_by_the_next_one(data: Path) -> None:
    for name in ("killed", "running"):
        folder = data.parent / f"{DRAFT}{name}"
        folder.mkdir()
        (folder / "lock").touch()
        (folder / "timeball.db").write_text("a copy that is not complete")
    with (data.parent / f"{DRAFT}running" / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert backup(data).exit_code == 0
        assert [path.name for path in data.parent.glob(f"{DRAFT}*")] == [f"{DRAFT}running"]


def test_a_file_system_without_links_is_used_as_well(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert backup(data).exit_code == 0
    assert (backup(data).exit_code, restore(data).exit_code) == (6, 0)


def test_a_server_may_start_while_a_backup_of_its_store_is_made(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from timeball.stores.backup import snapshot

    server, examine = Database(data / "timeball.db", SteadyClock(lambda: 0, lambda: 0)), snapshot.examine
    connect = Database.connect_reader

    def started(database: Database) -> sqlite3.Connection:
        if server._lock is None:
            server.lock()
        return connect(database)

    monkeypatch.setattr(Database, "connect_reader", started)
    assert backup(data).exit_code == 0
    server.unlock()
    assert examine(data / "timeball.db").schema == known()[-1].version


def test_files_that_a_backup_cannot_have_are_named(data: Path) -> None:
    elsewhere = data.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.sh").write_text("true")
    (data / "scripts" / "linked").symlink_to(elsewhere)
    (data / "scripts" / "one.sh").symlink_to(elsewhere / "x.sh")
    (data / "scripts" / "gone.sh").symlink_to(elsewhere / "none")
    Path(os.fsdecode(bytes(data) + b"/scripts/\xff.sh")).write_text("true")
    os.mkfifo(data / "scripts" / "pipe")
    done = backup(data, "-o", "json")
    assert done.exit_code == 0, done.output
    left_out = [f"{data}/scripts/\\xff.sh", f"{data}/scripts/linked"]
    assert sorted(json.loads(done.stdout)["notIncluded"]) == left_out
    assert all(f"Not in this backup: {name}." in done.stderr for name in left_out)
    assert restore(data).exit_code == 0
    assert sorted(path.name for path in (data.parent / "new" / "scripts").iterdir()) == ["etl.sh", "one.sh"]
