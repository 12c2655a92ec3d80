"""Promises of the SQLite store only: one process, durable commits, and no damage without an error."""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import LEASE, one_shot, settlement, worker
from timeball import system
from timeball.domain.errors import Conflict, Unavailable
from timeball.domain.instant import HOUR, SECOND
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.runs import SlotRequest
from timeball.stores.sql.dialect import SQLITE
from timeball.stores.sql.reading.ledger import LEDGER_SUMS
from timeball.stores.sql.runs.settle_plain_success import RECORD_SUCCESSES
from timeball.stores.sqlite.clock import SteadyClock
from timeball.stores.sqlite.file import Database
from timeball.stores.sqlite.store import SqliteStore

ROOT = Path(__file__).parents[2]

WRITER = """
import asyncio, sys
from pathlib import Path
from typing import Any
from tests.support.builders import one_shot
from timeball import system
from timeball.stores.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(Path(sys.argv[1]), wall=system.wall, monotonic=system.monotonic)
    await store.open()
    async def write():
        while True:
            sent = one_shot(store.now())
            await store.submit([sent])
            print(sent.job.id, flush=True)
    await asyncio.gather(*(write() for _ in range(8)))

asyncio.run(main())
"""


def make(path: Path | str, *, inline: bool = False) -> SqliteStore:
    return SqliteStore(path, wall=system.wall, monotonic=system.monotonic, inline=inline)


def start_writer(path: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def test_what_was_acknowledged_survives_kill_nine(tmp_path: Path) -> None:
    path = tmp_path / "timeball.db"
    for _ in range(2):
        writer = start_writer(path)
        assert writer.stdout is not None
        acknowledged = [writer.stdout.readline().strip() for _ in range(200)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [line.strip() for line in writer.stdout if line.endswith("\n")]
        writer.wait()
        writer.stdout.close()
        store = make(path)
        await store.open()
        assert set(acknowledged) <= set(await store.jobs(acknowledged))
        await store.close()


async def test_a_second_process_is_told_who_has_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "timeball.db"
    writer = start_writer(path)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(Conflict, match=rf"{tmp_path} is in use by process {writer.pid}"):
            await make(path).open()
    finally:
        writer.kill()
        writer.communicate()
    store = make(path)
    await store.open()
    with pytest.raises(Conflict, match=f"process {os.getpid()}"):
        await make(path).open()
    await store.close()


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "timeball.db"
    path.write_bytes(b"not a database at all" * 1_000)
    with pytest.raises(Conflict, match="is damaged"):
        await make(path).open()
    assert path.read_bytes().startswith(b"not a database")


async def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "timeball.db"
    store = make(path)
    await store.open()
    await store.submit([one_shot(store.now()) for _ in range(500)])
    await store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] + b"\xff" * 8_192 + whole[len(whole) // 2 + 8_192 :])
    with pytest.raises(Conflict, match="is damaged"):
        await make(path).open()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Conflict, match="is damaged"):
        await make(path).open()
    path.write_bytes(whole)
    await store.open()
    assert len((await store.list_runs(RunFilter(tenant="default"), None, 1_000)).items) == 500
    await store.close()


async def test_a_folder_that_cannot_be_used_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="data folder"):
        await make(tmp_path / "file" / "timeball.db").open()


async def test_a_closed_store_is_unavailable_and_opens_again(tmp_path: Path) -> None:
    store = make(tmp_path / "timeball.db")
    with pytest.raises(Unavailable):
        await store.ping()
    for _ in range(2):
        await store.open()
        await store.ping()
        await store.close()
        with pytest.raises(Unavailable):
            await store.submit([one_shot(1)])
        with pytest.raises(Unavailable):
            await store.ping()
    await store.close()


async def test_a_close_that_nobody_waits_for_any_more_is_carried_out(tmp_path: Path) -> None:
    path = tmp_path / "timeball.db"
    store = make(path)
    await store.open()
    begun, go_on = threading.Event(), threading.Event()

    async def read(_: Any) -> None:
        begun.set()
        go_on.wait(30)

    reading = asyncio.create_task(store._db.read(read))
    while not begun.is_set():
        await asyncio.sleep(0.001)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0.01)
    closing.cancel()
    await asyncio.wait([closing])
    await store.close()  # there is nothing left for this one to do
    with pytest.raises(Conflict, match="is in use"):
        await make(path).open()
    go_on.set()
    await reading
    again = make(path)
    while True:
        with contextlib.suppress(Conflict):
            await again.open()
            break
        await asyncio.sleep(0.01)
    await again.close()


async def test_a_close_that_is_cancelled_before_a_thread_is_free_is_carried_out(tmp_path: Path) -> None:
    store = make(tmp_path / "timeball.db")
    await store.open()
    loop = asyncio.get_running_loop()
    free = threading.Event()
    with ThreadPoolExecutor(1) as only:
        loop.set_default_executor(only)
        busy = loop.run_in_executor(None, free.wait, 30)
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0.001)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        free.set()
        await busy
    loop.set_default_executor(ThreadPoolExecutor())
    again = make(tmp_path / "timeball.db")
    await again.open()
    await again.close()


async def test_after_a_clean_end_everything_is_in_one_file(tmp_path: Path) -> None:
    store = make(tmp_path / "timeball.db")
    await store.open()
    sent = one_shot(store.now())
    await store.submit([sent])
    assert sent.job.id in await store.jobs([sent.job.id])  # a reader has been there
    await store.close()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(tmp_path / "timeball.db", elsewhere)
    copied = make(elsewhere / "timeball.db")
    await copied.open()
    assert sent.job.id in await copied.jobs([sent.job.id])
    await copied.close()


async def test_a_full_disk_is_unavailable_and_heals(tmp_path: Path) -> None:
    store = make(tmp_path / "timeball.db")
    await store.open()
    await store.submit([one_shot(store.now())])
    resource = pytest.importorskip("resource")
    sent = [one_shot(store.now(), description="x" * 4_000) for _ in range(300)]
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        answers = await asyncio.gather(*(store.submit([each]) for each in sent), return_exceptions=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    refused = [each for each, answer in zip(sent, answers, strict=True) if isinstance(answer, Unavailable)]
    accepted = [each.job.id for each, answer in zip(sent, answers, strict=True) if isinstance(answer, list)]
    assert refused
    assert len(refused) + len(accepted) == len(sent)
    await store.submit(refused)
    assert len(await store.jobs([each.job.id for each in sent])) == len(sent)
    await store.close()


class Brittle:
    """A connection on which a commit fails and cannot even be rolled back."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if sql in ("COMMIT", "ROLLBACK"):
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(sql, *arguments)


async def test_a_connection_that_breaks_is_unavailable_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, brittle = Database.connect, [True, False, True]

    def connect_badly(self: Database, **options: bool) -> Any:
        if not brittle:
            return connect(self, **options)
        if brittle.pop():
            return Brittle(connect(self, **options))
        raise Unavailable("no such luck")

    monkeypatch.setattr(Database, "connect", connect_badly)
    store = make(tmp_path / "timeball.db")
    await store.open()
    sent = [one_shot(store.now()) for _ in range(4)]
    for each in sent[:3]:
        with pytest.raises(Unavailable):
            await asyncio.wait_for(store.submit([each]), 60)
    await asyncio.wait_for(store.submit(sent), 60)
    assert len(await store.jobs([each.job.id for each in sent])) == 4
    await store.close()


async def test_a_caller_whose_loop_is_gone_costs_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make(tmp_path / "timeball.db")
    await store.open()
    loop = asyncio.get_running_loop()
    with monkeypatch.context() as patched:
        patched.setattr(loop, "call_soon_threadsafe", lambda *_, **__: 1 / 0)
        lost = asyncio.create_task(store.submit([one_shot(store.now())]))
        await asyncio.sleep(0.2)
    lost.cancel()
    await asyncio.wait_for(store.submit([one_shot(store.now())]), 60)
    await store.close()


async def test_calls_that_wait_for_a_commit_share_the_next_one(tmp_path: Path) -> None:
    store = make(tmp_path / "timeball.db")
    await store.open()
    began = time.perf_counter()
    for _ in range(20):
        await store.submit([one_shot(store.now())])
    one_by_one = (time.perf_counter() - began) / 20
    began = time.perf_counter()
    await asyncio.gather(*(store.submit([one_shot(store.now())]) for _ in range(400)))
    together = (time.perf_counter() - began) / 400
    assert together < one_by_one
    await store.close()


async def test_inline_works_in_memory_without_threads() -> None:
    ticking = iter(range(10**15, 10**16))
    store = SqliteStore(":memory:", wall=lambda: next(ticking), monotonic=lambda: 0, inline=True)
    await store.open()
    await store.register(worker("w_1"), LEASE)
    await store.submit([one_shot(store.now())])
    (claim,) = (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims
    assert await store.settle([settlement(claim)]) != [None]
    with pytest.raises(Conflict, match="inline only"):
        await make(":memory:").open()
    await store.close()


def test_the_clock_goes_on_slowly_while_the_wall_clock_is_behind() -> None:
    wall, steady = [1_000_000], [0]
    clock = SteadyClock(lambda: wall[0], lambda: steady[0])
    assert clock() == 1_000_000
    wall[0], steady[0] = 500_000, 10
    assert clock() == 1_000_005
    for _ in range(10):
        steady[0] += 1
        clock()
    assert clock() == 1_000_010
    wall[0] = 1_000_009
    assert clock() == 1_000_010
    wall[0] = 1_000_020
    assert clock() == 1_000_020


@pytest.mark.parametrize("inline", [False, True])
async def test_time_does_not_run_backwards_over_a_restart(tmp_path: Path, inline: bool) -> None:
    """And what a worker held that died meanwhile is free after its lease, not when the wall clock has caught up."""
    off, steady = [0], [0]

    def restarted() -> SqliteStore:
        return SqliteStore(
            tmp_path / "timeball.db",
            wall=lambda: 10**15 + steady[0] + off[0],
            monotonic=lambda: steady[0],
            inline=inline,
        )

    store = restarted()
    await store.open()
    steady[0] += HOUR
    await store.register(worker("w_1"), 15 * SECOND)
    await store.submit([one_shot(store.now())])
    assert len((await store.claim([SlotRequest("w_1", "", 1)], 0)).claims) == 1
    before = store.now()
    await store.close()

    off[0] = -HOUR
    store = restarted()
    await store.open()
    assert store.now() == before
    steady[0] += 10 * SECOND
    assert store.now() == before + 5 * SECOND
    assert await store.lapsed(10) == []
    steady[0] += 21 * SECOND
    assert len(await store.lapsed(10)) == 1
    off[0] = 0
    store.now()
    await store.lapsed(10)  # every write absorbs a step that was seen
    assert store.now() == 10**15 + steady[0] + off[0]
    await store.close()


async def test_a_lease_from_before_is_never_longer_than_a_new_one(tmp_path: Path) -> None:
    """Of a database that does not say how far its time had come."""
    store = make(tmp_path / "timeball.db")
    await store.open()
    await store.register(worker("w_1"), HOUR)
    await store.register(worker("w_2"), SECOND)
    leases = {each.session: each.lease_until for each in await store.workers()}
    await store.close()
    await store.open()
    now = store.now()
    after = {each.session: each.lease_until for each in await store.workers()}
    assert now <= after["w_1"] <= now + 15 * SECOND
    assert leases["w_2"] <= after["w_2"] <= now + SECOND
    await store.close()


async def test_claims_that_do_not_fit_into_one_piece_come_row_by_row(tmp_path: Path) -> None:
    store = make(tmp_path / "timeball.db")
    await store.open()
    await store.register(worker(), LEASE)
    sent = [one_shot(store.now(), description="x" * 30_000) for _ in range(40)]
    await store.submit(sent)

    async def lower_the_limit(tx: Any) -> None:
        tx._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000)

    await store._db.write(lower_the_limit)
    claims = (await store.claim([SlotRequest("w_1", "", 100)], 0)).claims
    assert {claim.run_id for claim in claims} == {each.runs[0].id for each in sent}
    await store.close()


async def test_what_was_on_time_is_counted_in_an_index_alone(tmp_path: Path) -> None:
    store = make(tmp_path / "timeball.db", inline=True)
    await store.open()
    compiled = SQLITE.compile(LEDGER_SUMS.text).sql
    nothing = dict.fromkeys(re.findall(r":(\w+)", compiled), 0)

    async def plan(tx: Any) -> list[str]:
        return [row[3] for row in tx._connection.execute(f"EXPLAIN QUERY PLAN {compiled}", nothing)]

    counted, notable, *_ = [step for step in await store._db.read(plan) if step.startswith("SEARCH r ")]
    assert counted.startswith("SEARCH r USING COVERING INDEX history_of_job ")
    assert notable.startswith("SEARCH r USING INDEX history_notable_of_job ")
    await store.close()


@pytest.mark.parametrize("rows", [0, 3], ids=["as JSON", "as values"])
async def test_successes_look_their_runs_up_by_id(tmp_path: Path, rows: int) -> None:
    """However many runs the session holds. By the index on sessions, the report of one success would read all."""
    store = make(tmp_path / "timeball.db", inline=True)
    await store.open()
    compiled = SQLITE.compile(RECORD_SUCCESSES.text, rows)
    names = dict.fromkeys(re.findall(r":(\w+)", compiled.sql), 0)
    nothing = [0] * (len(compiled.parameters) + 6 * rows) if rows else names

    async def plan(tx: Any) -> list[str]:
        return [row[3] for row in tx._connection.execute(f"EXPLAIN QUERY PLAN {compiled.sql}", nothing)]

    assert [step for step in await store._db.read(plan) if " r " in step] == ["SEARCH r USING PRIMARY KEY (id=?)"]
    await store.close()
