"""The page docs/howto/backup.md, for PostgreSQL: a dump, and recovery to a point in time, of a fleet under load."""

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer
from tests.support.processes import Api, running_server, start_worker, until
from timeball.chaos.database import server_account

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "backup.md"
TOKENS = "SELECT setval('tokens', (SELECT last_value FROM tokens) + 1000000000)"
EVERY_SECOND = {"type": "cron", "expression": "* * * * * *"}

pytestmark = [pytest.mark.parts, pytest.mark.timeout(300)]


@pytest.fixture
def log_archive() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="timeball-wal-", dir="/tmp") as folder:
        if (account := server_account()) is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
        yield Path(folder)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Folders of the fleet before and after."""
    found = tmp_path / "old", tmp_path / "new"
    for folder in found:
        folder.mkdir()
    return found


@pytest.fixture
def server(log_archive: Path) -> Iterator[PostgresServer]:
    settings = {
        "archive_mode": "on",
        "archive_command": f"test ! -f {log_archive}/%f && cp %p {log_archive}/%f",
        "wal_level": "replica",
        "full_page_writes": "on",
    }
    with PostgresServer.start(fsync=True, settings=settings) as server:
        yield server


def documented(setting: str) -> str:
    """The setting as the page says it, which the test uses with its own folder and time."""
    found = re.search(rf"^{setting} = '(.+)'", PAGE.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def submit(api: Api, count: int) -> list[str]:
    return [api.create({"task": {"kind": "shell", "command": "true"}}) for _ in range(count)]


def tick(api: Api) -> str:
    return api.create({"name": "tick", "task": {"kind": "shell", "command": "true"}, "schedule": EVERY_SECOND})


def assert_complete(folder: Path, dsn: str, there: list[str], ticking: str) -> set[str]:
    """Start a fleet on a restored database: all these jobs exist and end, and the ledger adds up. Return the ids of all
    jobs."""
    with running_server(folder, dsn) as (_, api), start_worker(folder, api, name="new", slots=16):
        for job_id in there:
            until(lambda job_id=job_id: api.ended_run_of(job_id), "its run to end")
        api.call("POST", f"/v1/jobs/{ticking}/pause", json={})
        until(lambda: "open" not in api.call("GET", f"/v1/jobs/{ticking}/ledger")["counts"], "all fires to end")
        ledger = api.call("GET", f"/v1/jobs/{ticking}/ledger")
        assert ledger["due"] == sum(ledger["counts"].values()) > 0
        return {job["jobId"] for job in api.call("GET", "/v1/jobs", params={"limit": 500})["items"]}


def test_recovery_to_a_point_in_time_has_all_that_was_acknowledged_before(
    folders: tuple[Path, Path], server: PostgresServer, log_archive: Path
) -> None:
    assert TOKENS in PAGE.read_text()
    dsn = server.create_database()
    with running_server(folders[0], dsn) as (process, api), start_worker(folders[0], api, name="a", slots=16):
        ticking = tick(api)
        before = submit(api, 20)
        base = server.base_backup()
        before += submit(api, 20)
        moment = server.fetch_value("SELECT clock_timestamp()::text", dsn)
        after = submit(api, 20)
        last = server.fetch_value("SELECT pg_walfile_name(pg_switch_wal())", dsn)
        until(lambda: any(path.name >= last for path in log_archive.iterdir() if len(path.name) == 24), "the archive")
        process.kill()
    server.stop("immediate")
    assert documented("restore_command") == "cp /mnt/wal/%f %p"
    assert documented("recovery_target_action") == "promote"
    settings = {
        "restore_command": documented("restore_command").replace("/mnt/wal", str(log_archive)),
        "recovery_target_time": moment,
        "recovery_target_action": documented("recovery_target_action"),
    }
    with server.recovered(base, settings) as restored:
        name = dsn.split("/")[3].partition("?")[0]
        there = restored.dsn(name)
        restored.execute(TOKENS, there)
        found = assert_complete(folders[1], there, before, ticking)
    assert set(before) <= found
    assert found & set(after) == set(), "the log ends at the chosen moment"


def test_a_dump_under_load_has_all_that_was_acknowledged_before(
    folders: tuple[Path, Path], server: PostgresServer
) -> None:
    dsn = server.create_database()
    file = server.folder / "timeball.dump"
    with running_server(folders[0], dsn) as (process, api), start_worker(folders[0], api, name="a", slots=16):
        ticking = tick(api)
        before = submit(api, 40)
        assert "pg_dump --format=custom --file=/backup/timeball.dump" in PAGE.read_text()
        server.run("pg_dump", "--format=custom", f"--file={file}", dsn)
        submit(api, 10)
        process.kill()
    assert "pg_restore --no-owner --exit-on-error --dbname=" in PAGE.read_text()
    there = server.create_database()
    server.run("pg_restore", "--no-owner", "--exit-on-error", f"--dbname={there}", file)
    server.execute(TOKENS, there)
    found = assert_complete(folders[1], there, before, ticking)
    assert set(before) <= found
