"""Moving a store from SQLite to PostgreSQL: every row arrives once, and only one of the two stores stays in use."""

import asyncio
import contextlib
import os
import re
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio

from tests.support.builders import LEASE, TENANT, bits, one_shot, plan_due, recurring, settlement, worker
from tests.support.postgres import PostgresCluster
from timeball import system
from timeball.domain import ids, instant, retention
from timeball.domain.dispatch.limits import Concurrency
from timeball.domain.errors import Conflict, Unavailable
from timeball.domain.instant import DAY, MINUTE, SECOND
from timeball.domain.run.lifecycle import Failed, Failure
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store
from timeball.ports.store_transfer import TransferProgress, TransferResult
from timeball.ports.worker_protocol import LOCAL_KEY
from timeball.stores.postgres.store import PostgresStore
from timeball.stores.sql.maintenance.clock import MAX_LEASE
from timeball.stores.sql.migrate import Migration, known
from timeball.stores.sqlite.store import SqliteStore
from timeball.stores.transfer import target as targets
from timeball.stores.transfer.source import Source
from timeball.stores.transfer.target import TransferTarget, shown
from timeball.stores.transfer.transfer import StoreTransfer

NOT_MOVED = {"migrations", "meta"}
"""The schema's own records, which the target has already; and numbers, some of which are something else there."""
ONLY_THERE = {"departing"}
"""Tables of PostgreSQL that have no rows of their own."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "timeball.db"


@pytest_asyncio.fixture(loop_scope="session")
async def dsn(postgres_dsn: str) -> str:
    return postgres_dsn


@pytest.fixture
def mover(path: Path, dsn: str) -> StoreTransfer:
    return StoreTransfer(path, dsn, system.wall, system.monotonic, system.rng())


def say_nothing(_: TransferProgress) -> None:
    pass


@contextlib.asynccontextmanager
async def on_sqlite(path: Path) -> AsyncIterator[Store]:
    store = SqliteStore(path, wall=system.wall, monotonic=system.monotonic)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def on_postgres(dsn: str) -> AsyncIterator[Store]:
    store = PostgresStore(dsn, monotonic=system.monotonic)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def make_store(path: Path) -> None:
    async with on_sqlite(path):
        pass


def fill(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Two rows in every table: one with something in every column, one with nothing where that may be."""
    kinds: dict[str, Callable[[int], Any]] = {
        "TEXT": lambda n: f"ä'\"\\\t{n}",
        "BIGINT": lambda n: 2**62 + n,
        "DOUBLE PRECISION": lambda n: n / 7,
        "BLOB": lambda n: bytes([0, 255, n % 256]),
    }
    filled = {}
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM tenants")
    for table in tables_of(path) - NOT_MOVED:
        columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
        full = [kinds[kind](at + 1) for at, _, kind, *_ in columns]
        bare = [kinds[kind](at + 100) if needed or key else None for at, _, kind, needed, _, key in columns]
        places = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO {table} VALUES ({places})", [full, bare])
        filled[table] = sorted([tuple(full), tuple(bare)], key=repr)
    connection.commit()
    connection.close()
    return filled


def tables_of(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    connection.close()
    return found


def columns_of(path: Path, table: str) -> list[str]:
    connection = sqlite3.connect(path)
    found = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    connection.close()
    return found


async def fetch(dsn: str, sql: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetch(sql)
    finally:
        await connection.close()


async def tables_in(dsn: str) -> set[str]:
    """Those that are not part of another."""
    rows = await fetch(
        dsn,
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition "
        "AND relnamespace = 'public'::regnamespace",
    )
    return {row[0] for row in rows}


async def indexes_in(dsn: str) -> set[tuple[str, int]]:
    """What they are, and in how many parts."""
    rows = await fetch(
        dsn,
        "SELECT pg_get_indexdef(c.oid), (SELECT count(*) FROM pg_inherits WHERE inhparent = c.oid) FROM pg_class c "
        "WHERE c.relkind IN ('i', 'I') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace",
    )
    return {(row[0], row[1]) for row in rows}


# --- everything ----------------------------------------------------------------------------------------------------


async def test_every_column_of_every_table_arrives(path: Path, dsn: str, mover: StoreTransfer) -> None:
    await make_store(path)
    filled = fill(path)
    move = await mover.move(say_nothing)
    # Both ways: a table that only one of the two databases has would be forgotten, or has to be thought of here.
    assert set(filled) == set(move.rows) == await tables_in(dsn) - NOT_MOVED - ONLY_THERE
    assert set(move.rows.values()) == {2}
    for table, rows in filled.items():
        columns = columns_of(path, table)
        arrived = [tuple(row) for row in await fetch(dsn, f"SELECT {', '.join(columns)} FROM {table}")]
        if table == "workers":  # leases are told by another clock
            at = columns.index("lease_until")
            rows, arrived = ([row[:at] + row[at + 1 :] for row in side] for side in (rows, arrived))
        assert sorted(arrived, key=repr) == rows, table


async def test_a_table_of_a_later_version_is_moved_too(
    path: Path, dsn: str, mover: StoreTransfer, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = Migration(9_999, "later", "CREATE TABLE later (id BIGINT PRIMARY KEY, word {id} NOT NULL) {clustered};\n")
    for module in ("timeball.stores.sqlite.file", "timeball.stores.postgres.schema"):
        monkeypatch.setattr(f"{module}.known", lambda: [*known(), later])
    await make_store(path)
    fill(path)
    await mover.move(say_nothing)
    assert len(await fetch(dsn, "SELECT * FROM later")) == 2


async def test_a_table_that_the_target_lacks_is_refused(path: Path, dsn: str, mover: StoreTransfer) -> None:
    await make_store(path)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE only_here (id BIGINT)")
    connection.close()
    with pytest.raises(Conflict, match=r"PostgreSQL has no column only_here\.id"):
        await mover.move(say_nothing)
    assert await tables_in(dsn) == set()


async def test_the_target_has_the_indexes_of_any_other_store(path: Path, dsn: str, mover: StoreTransfer) -> None:
    async with on_postgres(dsn):
        pass
    usual = await indexes_in(dsn)
    await make_store(path)
    fill(path)
    await mover.move(say_nothing)
    assert await indexes_in(dsn) == usual


async def test_history_of_the_last_days_is_put_into_partitions_by_day(
    path: Path, dsn: str, mover: StoreTransfer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timeball.stores.transfer.transfer.MAX_DAYS", 3)
    await make_store(path)
    fill(path)
    connection = sqlite3.connect(path)
    today = retention.day_of(system.wall())
    for ago in (0, 1, 2, 2, 40):
        run_id = ids.run(today - ago * DAY, bits)
        copied = ", ".join(["?", *columns_of(path, "history")[1:]])
        connection.execute(f"INSERT INTO history SELECT {copied} FROM history LIMIT 1", (run_id,))
    connection.commit()
    connection.close()
    await mover.move(say_nothing)
    found = {
        row[0]: row[1] for row in await fetch(dsn, "SELECT tableoid::regclass::text, count(*) FROM history GROUP BY 1")
    }
    days = [f"history_{instant.to_datetime(today - ago * DAY):%Y%m%d}" for ago in (0, 1, 2)]
    assert found == {days[0]: 1, days[1]: 1, days[2]: 2, "history_rest": 3}
    tomorrow = f"logs_{instant.to_datetime(today + DAY):%Y%m%d}"
    assert tomorrow in {row[0] for row in await fetch(dsn, "SELECT inhrelid::regclass::text FROM pg_inherits")}


async def test_what_postgres_cannot_keep_in_a_text_is_replaced(path: Path, dsn: str, mover: StoreTransfer) -> None:
    await make_store(path)
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO logs VALUES ('r', 1, 1, 'stdout', 0, ?)", ("a\x00b",))
    connection.commit()
    connection.close()
    await mover.move(say_nothing)
    assert [row[0] for row in await fetch(dsn, "SELECT text FROM logs")] == ["a\ufffdb"]


async def test_large_tables_go_in_batches_and_each_is_told(
    path: Path, dsn: str, mover: StoreTransfer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timeball.stores.transfer.source.ROWS", 100)
    await make_store(path)
    connection = sqlite3.connect(path)
    rows = [("r", 1, at, "stdout", 0, "x") for at in range(250)]
    connection.executemany("INSERT INTO logs VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    told: list[TransferProgress] = []
    await mover.move(told.append)
    assert [(each.rows, each.of) for each in told if each.doing == "logs"] == [
        (0, 250),
        (100, 250),
        (200, 250),
        (250, 250),
    ]
    assert len(await fetch(dsn, "SELECT * FROM logs")) == 250


def test_a_batch_is_bounded_by_what_is_in_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timeball.stores.transfer.source.TEXT", 1_000)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE texts (id BIGINT, text TEXT)")
    connection.executemany("INSERT INTO texts VALUES (?, ?)", [(at, "x" * 400) for at in range(10)])
    source = Source(path, connection, None)  # type: ignore[arg-type]
    assert [len(batch) for batch in source.batches("texts", ("id", "text"))] == [3, 3, 3, 1]
    connection.close()


# --- fires ---------------------------------------------------------------------------------------------------------


async def claim_all(store: Store, session: str = "w_1") -> dict[str, Claim]:
    """What is ready now, by job."""
    return {claim.job_id: claim for claim in (await store.claim([SlotRequest(session, "", 100)], 0)).claims}


async def test_runs_of_every_state_go_on_where_they_were(path: Path, dsn: str, mover: StoreTransfer) -> None:
    async with on_sqlite(path) as store:
        await store.register(worker("w_1"), MAX_LEASE)
        now = store.now()
        running, once = one_shot(now), one_shot(now, delivery="at_most_once")
        retrying = one_shot(now, retry=Retry(backoff=["1ms"]))
        first, second = (one_shot(now, ordering_key="k") for _ in range(2))
        limit = Concurrency(key="db", limit=1)
        inside, outside = (one_shot(now, concurrency=limit) for _ in range(2))
        await store.submit([running, once, retrying, first, second, inside, outside])
        before = await claim_all(store)
        assert set(before) == {each.job.id for each in (running, once, retrying, first, inside)}
        failed = Failed(Failure(kind="exit", message="no"))
        await store.settle([settlement(before[retrying.job.id], failed, at=now)])
        ready = one_shot(now)
        await store.submit([ready])
        last = max(claim.token for claim in before.values())

    assert (await mover.move(say_nothing)).token == last

    async with on_postgres(dsn) as store:
        assert await store.lapsed(100) == [], "leases go on"
        assert await store.renew([("w_1", LOCAL_KEY)], LEASE) != [None], (
            "so that a worker which is still there keeps what it has"
        )
        after = await claim_all(store)
        assert set(after) == {retrying.job.id, ready.job.id}
        assert [after[each.job.id].attempt for each in (retrying, ready)] == [2, 1]
        assert min(claim.token for claim in after.values()) > last
        ended = [before[each.job.id] for each in (running, once, first, inside)]
        assert None not in await store.settle([settlement(claim) for claim in ended])
        assert set(await claim_all(store)) == {second.job.id, outside.job.id}


async def test_a_stale_report_of_an_attempt_before_the_move_changes_nothing_after_it_was_lost(
    path: Path, dsn: str, mover: StoreTransfer
) -> None:
    async with on_sqlite(path) as store:
        once = one_shot(store.now(), delivery="at_most_once")
        again = one_shot(store.now())
        await store.register(worker("w_2"), MAX_LEASE)
        await store.submit([once, again])
        claims = list((await claim_all(store, "w_2")).values())
        assert len(claims) == 2
    connection = sqlite3.connect(path)
    connection.execute("UPDATE workers SET lease_until = 1")
    connection.commit()
    connection.close()
    await mover.move(say_nothing)
    async with on_postgres(dsn) as store:
        lapsed = await store.lapsed(100)
        assert len(lapsed) == 2
        await store.settle(lapsed)
        assert await store.settle([settlement(claim) for claim in claims]) == [None, None]
        page = await store.list_runs(RunFilter(tenant=TENANT), None, 10)
        assert {run.job_id: run.status for run in page.items} == {
            once.job.id: Status.FAILED,
            again.job.id: Status.RETRYING,
        }


async def test_instants_around_the_move_have_one_run_each(path: Path, dsn: str, mover: StoreTransfer) -> None:
    async with on_sqlite(path) as store:
        start = store.now()
        series = recurring(start, seconds=1, next_fire_at=start, overlap="allow", catch_up="all")
        await store.submit([series])
        await plan_due(store)
    await mover.move(say_nothing)
    async with on_postgres(dsn) as store:
        await store.register(worker("w_1"), LEASE)
        async with asyncio.timeout(60):
            while True:
                await plan_due(store)
                page = await store.list_runs(RunFilter(tenant=TENANT), None, 100)
                if len(page.items) >= 4:
                    break
                await asyncio.sleep(0.05)
    fires = sorted(run.fire_time for run in page.items)
    assert fires == [start + at * SECOND for at in range(len(fires))]


async def test_tokens_go_on_above_those_of_the_old_store_and_of_the_new_one(
    path: Path, dsn: str, mover: StoreTransfer
) -> None:
    async with on_postgres(dsn):
        pass
    await fetch(dsn, "SELECT setval('tokens', 1000)")
    await make_store(path)
    await mover.move(say_nothing)
    assert (await fetch(dsn, "SELECT nextval('tokens')"))[0][0] == 1001


async def test_other_numbers_go_along_and_never_become_smaller(path: Path, dsn: str, mover: StoreTransfer) -> None:
    await make_store(path)
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO meta VALUES ('epoch', 7)")
    connection.commit()
    connection.close()
    await mover.move(say_nothing)
    found = dict(map(tuple, await fetch(dsn, "SELECT name, value FROM meta")))
    assert found.pop("epoch") == 7
    assert "clock" not in found
    assert "token" not in found


# --- clocks --------------------------------------------------------------------------------------------------------


def set_postgres_clock(monkeypatch: pytest.MonkeyPatch, ahead: int) -> None:
    monkeypatch.setattr(targets, "_CLOCK", f"{targets._CLOCK} + ({ahead})")


async def test_the_new_clock_is_waited_for_if_it_is_a_little_behind(
    path: Path, dsn: str, mover: StoreTransfer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_sqlite(path) as store:
        await store.submit([one_shot(store.now())])
    connection = sqlite3.connect(path)
    (mark,) = connection.execute("SELECT value FROM meta WHERE name = 'clock'").fetchone()
    connection.close()
    told: list[TransferProgress] = []

    async def now(self: TransferTarget) -> int:
        waited = any("clock" in each.doing for each in told)
        return mark + waited - 5_000 * (not waited)

    monkeypatch.setattr(TransferTarget, "now", now)
    await mover.move(told.append)
    assert [each.doing for each in told if "clock" in each.doing] == ["waiting 5 ms for PostgreSQL's clock"]


async def test_a_clock_that_is_far_behind_is_refused(
    path: Path, dsn: str, mover: StoreTransfer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_sqlite(path) as store:
        await store.submit([one_shot(store.now())])
    set_postgres_clock(monkeypatch, -10 * MINUTE)
    with pytest.raises(Conflict, match=r"PostgreSQL's clock is \d+ min.* behind .*time must not run backwards"):
        await mover.move(say_nothing)
    assert await tables_in(dsn) == set()


@pytest.mark.parametrize("ahead", [-30 * SECOND, 0, 3_600 * SECOND])
async def test_as_much_is_left_of_a_lease_as_before_whatever_the_clocks_say(
    path: Path, dsn: str, mover: StoreTransfer, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    monkeypatch.setattr("timeball.stores.transfer.transfer._await_clock", _not_at_all)
    async with on_sqlite(path) as store:
        await store.register(worker("w_1"), 10 * SECOND)
    set_postgres_clock(monkeypatch, ahead)
    connection = sqlite3.connect(path)
    (before,) = connection.execute("SELECT lease_until FROM workers").fetchone()
    connection.close()
    await mover.move(say_nothing)
    ((after, left),) = await fetch(dsn, f"SELECT lease_until, lease_until - ({targets._CLOCK}) FROM workers")
    assert after - before >= ahead, "not less: the worker counts on it"
    assert left <= MAX_LEASE


async def _not_at_all(*_: object) -> None:
    pass


# --- one of the two ------------------------------------------------------------------------------------------------


async def test_a_store_that_was_moved_says_where_it_went(path: Path, dsn: str, mover: StoreTransfer) -> None:
    await make_store(path)
    await mover.move(say_nothing)
    with pytest.raises(Conflict) as refused:
        await make_store(path)
    assert f"moved to {shown(dsn)} at 20" in refused.value.detail
    assert f"timeball migrate --store sqlite:///{path} --take-back" in refused.value.detail
    with pytest.raises(Conflict, match="moved to"):
        await mover.move(say_nothing)
    with pytest.raises(Conflict, match="moved to"):
        await mover.rehearse()


async def test_a_move_can_be_taken_back(path: Path, dsn: str, mover: StoreTransfer) -> None:
    async with on_sqlite(path) as store:
        await store.submit([one_shot(store.now())])
    with pytest.raises(Conflict, match="was not moved"):
        mover.take_back()
    await mover.move(say_nothing)
    async with on_postgres(dsn) as store:
        await store.register(worker("w_1"), LEASE)
        there = await claim_all(store)
    mover.take_back()
    async with on_sqlite(path) as store:
        await store.register(worker("w_1"), LEASE)
        here = await claim_all(store)
    assert set(here) == set(there)
    assert [claim.token for claim in here.values()] > [claim.token for claim in there.values()]


async def test_a_store_in_use_is_not_moved(path: Path, dsn: str, mover: StoreTransfer) -> None:
    async with on_sqlite(path):
        with pytest.raises(Conflict, match=f"in use by process {os.getpid()}; stop that one first"):
            await mover.move(say_nothing)
    assert await tables_in(dsn) == set()


async def test_a_store_that_is_not_there_is_not_made(path: Path, mover: StoreTransfer) -> None:
    with pytest.raises(Conflict, match="no store to move"):
        await mover.move(say_nothing)
    assert list(path.parent.iterdir()) == []


async def test_nobody_writes_to_the_old_store_meanwhile(path: Path, mover: StoreTransfer) -> None:
    await make_store(path)
    refused: list[str] = []

    def intrude(_: TransferProgress) -> None:
        intruder = sqlite3.connect(path, timeout=0)
        try:
            intruder.execute("DELETE FROM jobs")
        except sqlite3.OperationalError as error:
            refused.append(str(error))
        finally:
            intruder.close()

    await mover.move(intrude)
    assert set(refused) == {"database is locked"}


async def test_a_target_with_something_in_it_is_refused(path: Path, dsn: str, mover: StoreTransfer) -> None:
    async with on_sqlite(path) as store:
        await store.submit([one_shot(store.now())])
    async with on_postgres(dsn) as store:
        await store.submit([one_shot(store.now()), one_shot(store.now())])
    for attempt in (mover.rehearse(), mover.move(say_nothing)):
        with pytest.raises(Conflict, match=r"is not empty: it has rows in jobs 2, runs 2\..*createdb"):
            await attempt
    async with on_sqlite(path) as store:
        assert len((await store.list_runs(RunFilter(tenant=TENANT), None, 10)).items) == 1


async def test_a_server_that_starts_meanwhile_waits_until_everything_is_there(
    path: Path, dsn: str, mover: StoreTransfer
) -> None:
    async with on_sqlite(path) as store:
        await store.submit([one_shot(store.now())])
    starting: list[asyncio.Task[int]] = []

    async def start() -> int:
        async with on_postgres(dsn) as store:
            return len((await store.list_runs(RunFilter(tenant=TENANT), None, 10)).items)

    def begin(_: TransferProgress) -> None:
        if not starting:
            starting.append(asyncio.get_running_loop().create_task(start()))

    await mover.move(begin)
    assert await starting[0] == 1


# --- interrupted ---------------------------------------------------------------------------------------------------


class Interruption(Exception):
    pass


async def test_an_interrupted_move_leaves_nothing_and_can_be_started_anew(
    path: Path, dsn: str, mover: StoreTransfer
) -> None:
    await make_store(path)
    filled = fill(path)

    def interrupt_at(doing: str) -> Callable[[TransferProgress], None]:
        def report(progress: TransferProgress) -> None:
            if progress.doing == doing and progress.rows == (progress.of or 0):
                raise Interruption

        return report

    for doing in ("history", "workers", "creating indexes"):
        with pytest.raises(Interruption):
            await mover.move(interrupt_at(doing))
        assert await tables_in(dsn) == set()
        await make_store(path)  # still to be used
    move = await mover.move(say_nothing)
    assert set(move.rows) == set(filled)


async def test_a_database_that_goes_away_in_the_middle_changes_nothing(
    path: Path, dsn: str, mover: StoreTransfer, postgres: PostgresCluster
) -> None:
    await make_store(path)
    fill(path)
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'timeball migrate'"

    def cut(progress: TransferProgress) -> None:
        if progress.doing == "logs":
            postgres.execute(f"{ended} AND datname = '{urlsplit(dsn).path.removeprefix('/')}'")

    with pytest.raises(Unavailable, match="PostgreSQL does not answer"):
        await mover.move(cut)
    assert await tables_in(dsn) == set()
    await make_store(path)
    assert len((await mover.move(say_nothing)).rows) == len(tables_of(path) - NOT_MOVED - {"moved"})


@pytest.mark.parametrize("arrived", [False, True])
async def test_a_commit_without_an_answer_leaves_two_closed_doors_and_one_way_on(
    path: Path, dsn: str, mover: StoreTransfer, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    async with on_sqlite(path) as store:
        await store.submit([one_shot(store.now())])
    commit = TransferTarget.commit

    async def without_answer(self: TransferTarget) -> None:
        if arrived:
            await commit(self)
        raise ConnectionResetError("connection reset by peer")

    with monkeypatch.context() as patched:
        patched.setattr(TransferTarget, "commit", without_answer)
        with pytest.raises(Unavailable, match="Run the same command again"):
            await mover.move(say_nothing)
    with pytest.raises(Conflict, match=f"not known here whether all data arrived.*--to '{re.escape(shown(dsn))}'"):
        await make_store(path)

    assert (await mover.rehearse()).was_complete is arrived
    move: TransferResult = await mover.move(say_nothing)
    assert move.was_complete is arrived
    assert len(await fetch(dsn, "SELECT * FROM runs")) == 1
    with pytest.raises(Conflict, match="moved to"):
        await make_store(path)


async def test_an_unfinished_move_is_not_finished_somewhere_else(
    path: Path, dsn: str, mover: StoreTransfer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_store(path)

    async def without_answer(self: TransferTarget) -> None:
        raise ConnectionResetError

    with monkeypatch.context() as patched:
        patched.setattr(TransferTarget, "commit", without_answer)
        with pytest.raises(Unavailable):
            await mover.move(say_nothing)
    elsewhere = StoreTransfer(
        path,
        f"{dsn}&application_name=other" if "?" in dsn else f"{dsn}?application_name=other",
        system.wall,
        system.monotonic,
        system.rng(),
    )
    with pytest.raises(Conflict, match="was interrupted"):
        await elsewhere.move(say_nothing)


# --- rehearsed -----------------------------------------------------------------------------------------------------


async def test_a_rehearsal_counts_and_changes_nothing_also_while_the_store_is_in_use(
    path: Path, dsn: str, mover: StoreTransfer
) -> None:
    async with on_sqlite(path) as store:
        await store.submit([one_shot(store.now())])
        move = await mover.rehearse()
        assert move.held_by == str(os.getpid())
        assert {table: rows for table, rows in move.rows.items() if rows} == {"jobs": 1, "runs": 1, "tenants": 1}
    assert (await mover.rehearse()).held_by is None
    assert await tables_in(dsn) == set()
    await make_store(path)


async def test_an_address_is_shown_without_its_password() -> None:
    assert shown("postgresql://me:secret@a:1,b:2/jobs?sslmode=require&password=secret") == (
        "postgresql://me@a:1,b:2/jobs?sslmode=require"
    )
    assert shown("postgresql:///jobs") == "postgresql:///jobs"


async def test_a_database_that_is_not_there_is_named(path: Path, mover: StoreTransfer, dsn: str) -> None:
    await make_store(path)
    missing = StoreTransfer(path, dsn.replace("timeball_", "no_such_"), system.wall, system.monotonic, system.rng())
    with pytest.raises(Conflict, match="does not exist; check the address"):
        await missing.move(say_nothing)
    nobody = StoreTransfer(path, "postgresql://127.0.0.1:1/jobs", system.wall, system.monotonic, system.rng())
    with pytest.raises(Unavailable, match="does not answer"):
        await nobody.move(say_nothing)
    await make_store(path)
