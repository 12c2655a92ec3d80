"""Promises of the PostgreSQL store only: several servers, and a database that stops and returns."""

import asyncio
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tests.support.builders import one_shot, recurring, run, settlement, worker
from tests.support.postgres import PostgresServer
from tests.support.statement_proxy import statement_proxy
from timeball import system
from timeball.domain.errors import Conflict, Unavailable
from timeball.ports.store.jobs import Accepted
from timeball.ports.store.runs import SlotRequest
from timeball.ports.store.store import Store
from timeball.stores.postgres.clock import ServerClock
from timeball.stores.postgres.connect import Address
from timeball.stores.postgres.store import PostgresStore
from timeball.stores.postgres.tx import array
from timeball.stores.postgres.wakeups import PostgresWakeups
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.schema.jobs import TAGS


def make(dsn: str, **options: float) -> PostgresStore:
    return PostgresStore(dsn, monotonic=system.monotonic, **options)  # type: ignore[arg-type]


@pytest_asyncio.fixture(loop_scope="session")
async def pair(postgres_dsn: str) -> "tuple[Store, Store]":
    return make(postgres_dsn), make(postgres_dsn)


async def test_servers_that_start_at_once_migrate_once(postgres_dsn: str) -> None:
    stores = [make(postgres_dsn) for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(store.ping() for store in stores))
    await asyncio.gather(*(store.close() for store in stores))


async def test_hints_reach_the_other_servers_and_not_oneself(pair: tuple[Store, Store]) -> None:
    heard: list[tuple[int, str]] = []
    for number, store in enumerate(pair):
        await store.open()
        store.listen(lambda topic, number=number: heard.append((number, topic)))  # type: ignore[misc]
    for _ in range(100):
        pair[0].wake_all("plan")
        pair[0].wake_all("ready")
        await asyncio.sleep(0.05)
        if heard:
            break
    assert set(heard) == {(1, "plan"), (1, "ready")}
    for store in pair:
        await store.close()


async def test_a_connection_for_hints_that_fell_silent_is_replaced(
    pair: tuple[Store, Store], postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A middlebox that forgot the connection, or a host without power behind a proxy, sends no farewell: whoever only
    listens sends nothing that could fail."""
    monkeypatch.setattr("timeball.stores.postgres.wakeups.LOOK_EVERY", 0.02)
    monkeypatch.setattr("timeball.stores.postgres.wakeups.RECONNECT_AFTER", 0.02)
    monkeypatch.setattr("timeball.stores.postgres.wakeups.PROBE_AFTER", 2)
    monkeypatch.setattr("timeball.stores.postgres.wakeups.PROBE_SECONDS", 0.2)
    heard: list[str] = []
    async with statement_proxy(postgres_dsn) as proxy:
        for store in pair:
            driver: Any = store._db  # type: ignore[attr-defined]
            if store is pair[1]:
                driver._wakeups = PostgresWakeups(lambda: Address(proxy.dsn, 5).connect(command_timeout=5))
            await store.open()
        pair[1].listen(heard.append)
        for silent in (False, True):
            if silent:
                proxy.fall_silent()
            heard.clear()
            for _ in range(100):
                pair[0].wake_all("plan")
                await asyncio.sleep(0.05)
                if heard:
                    break
            assert heard, "hints arrive" if not silent else "over a new connection"
        for store in pair:
            await store.close()


async def test_many_hints_are_few_messages(pair: tuple[Store, Store]) -> None:
    heard: list[str] = []
    for store in pair:
        await store.open()
    pair[1].listen(heard.append)
    await asyncio.sleep(0.2)
    for _ in range(1_000):
        pair[0].wake_all("plan")
    await asyncio.sleep(0.3)
    assert 1 <= len(heard) <= 3
    for store in pair:
        await store.close()


async def test_the_clock_is_never_ahead_of_the_servers(postgres_dsn: str) -> None:
    store = make(postgres_dsn)
    await store.open()
    connection = await asyncpg.connect(postgres_dsn)
    for _ in range(50):
        mine = store.now()
        server = await connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        assert mine <= server
        assert server - mine < 1_000_000
        await asyncio.sleep(0.002)
    await connection.close()
    await store.close()


def test_the_best_of_the_last_answers_counts() -> None:
    steady = [0]
    clock = ServerClock(lambda: steady[0])
    clock.sample(1_000_000)
    steady[0] = 1_000
    clock.sample(1_000_500)  # a slow answer proves less than the first one
    assert clock() == 1_001_000
    clock.sample(1_002_000)
    assert clock() == 1_002_000
    steady[0] = 11_000
    assert clock() == 1_012_000 - 10_000 // 5_000
    steady[0] = 10_000  # a step back must not show
    assert clock() == 1_012_000 - 10_000 // 5_000


def test_the_clock_of_a_server_that_took_over_counts_also_if_it_is_behind() -> None:
    """I3: what is handed out ahead of its time waits by the clock of the server that is there now."""
    steady = [0]
    clock = ServerClock(lambda: steady[0])
    clock.sample(1_000_000)
    steady[0] = 1_000
    clock.sample(990_000, clock())
    assert clock() == 990_000
    asked_at, steady[0] = clock(), 2_000
    clock.sample(990_500, asked_at)  # a slow answer of the same one proves nothing against it
    assert clock() == 991_000


async def test_a_crash_of_the_server_is_unavailable_and_heals(private_postgres: PostgresServer) -> None:
    store = make(private_postgres.create_database(), timeout=5)
    await store.open()
    sent = [one_shot(store.now()) for _ in range(3)]
    await store.submit(sent[:1])
    private_postgres.stop("immediate")
    with pytest.raises(Unavailable):
        await store.submit(sent[1:])
    with pytest.raises(Unavailable):
        await store.ping()
    assert store.now() > 0
    private_postgres.restart()
    for _ in range(50):
        try:
            assert await store.submit(sent) == [Accepted(each.job.id) for each in sent]
            break
        except Unavailable:
            await asyncio.sleep(0.1)
    assert len(await store.jobs([each.job.id for each in sent])) == 3
    await store.close()


async def test_a_backend_that_is_killed_costs_reads_nothing(postgres_dsn: str) -> None:
    store = make(postgres_dsn)
    await store.open()
    sent = recurring(store.now())
    await store.submit([sent])
    killer = await asyncpg.connect(postgres_dsn)
    for _ in range(3):
        await killer.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'timeball' AND datname = current_database()"
        )
        assert list(await store.jobs([sent.job.id])) == [sent.job.id]
    await killer.close()
    await store.close()


async def test_a_database_that_lets_nobody_in_is_unavailable_and_heals(private_postgres: PostgresServer) -> None:
    """The clock goes on being read, too: without that it would fall behind for good."""
    dsn = private_postgres.create_database()
    store = make(dsn, timeout=5)
    await store.open()
    clock = next(task for task in asyncio.all_tasks() if task.get_name() == "postgres-clock")
    wakeups = next(task for task in asyncio.all_tasks() if task.get_name() == "postgres-hints")
    admin = await asyncpg.connect(private_postgres.dsn())
    name = dsn.split("?")[0].rsplit("/", 1)[1]
    await admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    for _ in range(3):
        with pytest.raises(Unavailable):
            await store.ping()
        with pytest.raises(Unavailable):
            await store.submit([one_shot(store.now())])
        await asyncio.sleep(0.5)
    await admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    assert len(await store.submit([one_shot(store.now())])) == 1
    assert not clock.done()
    assert not wakeups.done()
    await admin.close()
    await store.close()


@pytest.mark.parametrize("error", [asyncpg.DeadlockDetectedError, asyncpg.UniqueViolationError])
async def test_a_work_that_is_refused_again_and_again_is_unavailable(
    postgres_dsn: str, error: type[asyncpg.PostgresError]
) -> None:
    store = make(postgres_dsn)
    await store.open()
    tries = []

    async def work(tx: Tx) -> None:
        tries.append(tx)
        raise error("again")

    with pytest.raises(Unavailable, match="again"):
        await store._db.write(work)
    assert len(tries) == 5
    await store.close()


async def test_a_server_that_was_demoted_is_left_for_its_successor(postgres_dsn: str) -> None:
    """The address may lead elsewhere by now, so connections are made anew."""
    store = make(postgres_dsn, min_connections=1, max_connections=1)
    await store.open()
    admin = await asyncpg.connect(postgres_dsn)
    name = postgres_dsn.split("?")[0].rsplit("/", 1)[1]
    await admin.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    await store._db._pool.expire()  # type: ignore[attr-defined]
    with pytest.raises(Unavailable, match="read-only"):
        await store.submit([one_shot(store.now())])
    await admin.execute("SET default_transaction_read_only = off")
    await admin.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
    assert len(await store.submit([one_shot(store.now())])) == 1
    await admin.close()
    await store.close()


async def test_a_lock_that_does_not_come_free_is_unavailable(postgres_dsn: str) -> None:
    store = make(postgres_dsn, timeout=3)
    await store.open()
    sent = recurring(store.now())
    await store.submit([sent])
    other = await asyncpg.connect(postgres_dsn)
    async with other.transaction():
        await other.execute("SELECT 1 FROM jobs FOR UPDATE")
        with pytest.raises(Unavailable):
            await store.trigger([run(sent.job, store.now())])
    assert (await store.trigger([run(sent.job, store.now())]))[0] is not None
    await other.close()
    await store.close()


async def test_what_comes_at_once_shares_the_connections_that_there_are_and_what_keeps_coming_gets_more(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timeball.stores.postgres.pool.GROW_AFTER", 60)
    store: Any = make(postgres_dsn, min_connections=2)
    await store.open()

    async def pings(count: int) -> None:
        for _ in range(count):
            await store.ping()

    await asyncio.gather(*(pings(1) for _ in range(50)))
    assert store._db._pool.size <= 3  # one more if the clock was read meanwhile
    await asyncio.gather(*(pings(20) for _ in range(20)))
    assert store._db._pool.size > 3
    await store.close()
    assert store._db._pool._working == 0


async def test_who_waits_too_long_for_a_connection_gets_another(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timeball.stores.postgres.pool.GROW_AFTER", 0.01)
    store: Any = make(postgres_dsn, min_connections=2, max_connections=5)
    await store.open()
    enough, at_work = asyncio.Event(), asyncio.Semaphore(0)

    async def work(_: Tx) -> None:
        at_work.release()
        await enough.wait()

    lengthy = [asyncio.create_task(store._db.read(work)) for _ in range(4)]
    for _ in lengthy:
        await at_work.acquire()
    for _ in range(3):
        cancelled = asyncio.create_task(store.ping())
        await asyncio.sleep(0.001)
        cancelled.cancel()
    await store.ping()
    assert store._db._pool.size == 5
    enough.set()
    await asyncio.gather(*lengthy, cancelled, return_exceptions=True)
    await store.close()
    assert store._db._pool._working == 0


async def test_a_server_that_is_not_there_is_unavailable(postgres_dsn: str) -> None:
    store = make(postgres_dsn.replace("timeball-pg", "no-such-folder"), timeout=1)
    with pytest.raises(Unavailable, match="PostgreSQL does not answer"):
        await store.open()
    await store.close()


async def test_a_database_that_is_not_there_is_told(postgres_dsn: str) -> None:
    with pytest.raises(Conflict, match="nowhere"):
        await make(postgres_dsn.replace("/timeball_", "/nowhere_", 1), timeout=5).open()


async def test_a_table_that_grows_does_not_bring_the_store_to_its_knees(postgres_dsn: str) -> None:
    """Plans that were made while the tables were small must not be kept: no statement may read a whole table."""
    store = make(postgres_dsn, min_connections=1, max_connections=1)
    await store.open()
    await store.register(worker("w_1"), 10**9)
    connection = await asyncpg.connect(postgres_dsn)

    async def life_cycles() -> int:
        """How many rows were read without an index by a dozen life cycles."""
        await connection.execute("SELECT pg_stat_reset()")
        for _ in range(12):
            await store.submit([one_shot(store.now()) for _ in range(10)])
            claims = (await store.claim([SlotRequest("w_1", "", 10)], 0)).claims
            assert len(claims) == 10
            await store.settle([settlement(claim) for claim in claims])
        await asyncio.sleep(1.2)  # a backend tells its statistics at most once a second
        await store.ping()
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        read: int = await connection.fetchval(
            "SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname IN ('jobs', 'runs', 'history')"
        )
        return read

    await life_cycles()
    await connection.execute(
        "INSERT INTO jobs SELECT 'j_' || n, 'default', '', '{}', NULL, '', 1, 'active', 0, NULL, NULL, 0, 0, '', NULL "
        "FROM generate_series(1, 20000) n"
    )
    await connection.execute(
        "INSERT INTO runs (id, job_id, tenant, version, fire_time, origin, state, serial, priority, eligible_at, "
        "attempt, created_at) SELECT 'r_' || n, 'j_' || n, 'default', 1, n, 'schedule', 'ready', 0, n % 10, n, 0, 0 "
        "FROM generate_series(1, 20000) n"
    )
    assert await life_cycles() < 20_000
    await connection.close()
    await store.close()


async def test_what_came_before_costs_nothing(postgres_dsn: str) -> None:
    """PostgreSQL may believe for a minute that a table is as small as it was when it was looked at last, and that
    reading all of it, with all who have left, is cheaper than looking up who is wanted."""
    store = make(postgres_dsn, min_connections=1, max_connections=1)
    await store.open()
    await store.register(worker("w_1"), 10**9)
    connection = await asyncpg.connect(postgres_dsn)
    jobs, batch = 2_000, 500

    async def life_cycles() -> int:
        """How many entries of indexes were read by some life cycles."""
        await connection.execute("SELECT pg_stat_reset()")
        for _ in range(jobs // batch):
            await store.submit([one_shot(store.now()) for _ in range(batch)])
            claims = (await store.claim([SlotRequest("w_1", "", batch)], 0)).claims
            await store.settle([settlement(claim) for claim in claims])
        await asyncio.sleep(1.2)  # a backend tells its statistics at most once a second
        await store.ping()
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        read: int = await connection.fetchval("SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes")
        return read

    await life_cycles()
    await connection.execute("VACUUM ANALYZE")
    read = [await life_cycles() for _ in range(4)]
    assert min(read[2:]) < 1.3 * read[0], "it grows from one to the next"
    await connection.close()
    await store.close()


@pytest.mark.parametrize("kind", ["text", "bigint", "double precision"])
async def test_arrays_arrive_as_they_were_sent(postgres_dsn: str, kind: str) -> None:
    texts = ["", "plain", "NULL", "None", 'a "quoted" word', '","', "back\\slash", "{}", "\n\t ", "naïve 🛰", None]
    sent: list[Any] = {"text": texts, "bigint": [0, -1, 2**63 - 1, None], "double precision": [0.1, 1e300, None]}[kind]
    connection = await asyncpg.connect(postgres_dsn)
    whole = [value for value in sent if value is not None]
    for column in [[], sent, whole, *([value] for value in sent)]:
        assert await connection.fetchval(f"SELECT $1::text::{kind}[]", array(column, kind)) == column
    assert await connection.fetchval("SELECT $1::text::text[]", array(["a\x00b", "c"], "text")) == ["a\ufffdb", "c"]
    await connection.close()


async def test_rows_are_inserted_as_they_were_when_it_was_asked_for(postgres_dsn: str) -> None:
    store = PostgresStore(postgres_dsn, monotonic=system.monotonic)
    await store.open()
    rows = [("j_1", "first")]

    async def work(tx: Tx) -> None:
        await tx.insert(TAGS, rows)
        rows.append(("j_1", "second"))
        await tx.insert(TAGS, [])

    async def read(tx: Tx) -> list[tuple[str, ...]]:
        return [tuple(row) for row in await tx.fetch(Query("tags", "SELECT job_id, tag FROM job_tags"))]

    await store._db.write(work)
    assert await store._db.read(read) == [("j_1", "first")]
    await store.close()
