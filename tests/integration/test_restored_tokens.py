"""I4 after a restore: what a worker received from the store after the backup does not count in the restored store."""

import asyncio
from pathlib import Path

from tests.support.api import FakeWorker, serving
from tests.support.migrated import sqlite_store
from timeball import system
from timeball.stores.backup.backup import make_backup
from timeball.stores.backup.restore import restore_backup
from timeball.stores.backup.snapshot import TOKENS_BETWEEN
from timeball.stores.sqlite.store import SqliteStore


async def test_a_report_with_a_token_from_after_the_backup_is_refused(tmp_path: Path) -> None:
    old, new, file = tmp_path / "old", tmp_path / "new", tmp_path / "b.zip"
    old.mkdir()
    async with serving(sqlite_store(old / "timeball.db")) as api:
        job = (await api.create())["jobId"]
        await asyncio.to_thread(backup, old, file)
        worker = FakeWorker(api)
        await worker.hello()
        before = await worker.take()

    restore_backup(file, new, lambda _: None)
    async with serving(SqliteStore(new / "timeball.db", wall=system.wall, monotonic=system.monotonic)) as api:
        worker = FakeWorker(api)
        await worker.hello()
        await worker.succeed(before, "of the other store")
        (run,) = (await api.get(f"/v1/jobs/{job}/runs"))["items"]
        assert run["status"] != "succeeded"
        again = await worker.take()
        assert (again["runId"], again["attempt"]) == (before["runId"], before["attempt"])
        assert again["token"] > before["token"] + TOKENS_BETWEEN // 2
        await worker.succeed(before, "of the other store")
        await worker.fail({**before, "serial": again["serial"]})
        assert (await api.get(f"/v1/runs/{run['runId']}"))["status"] == "running"
        await worker.succeed(again)
        assert (await api.get(f"/v1/runs/{run['runId']}"))["status"] == "succeeded"


def backup(folder: Path, file: Path) -> None:
    make_backup(
        file, folder / "timeball.db", None, folder / "scripts", not_included=(), version="0.0.0", report=lambda _: None
    )
