"""I1, I2, I6: the database crashes under load, or a synchronous replica takes over. Nothing acknowledged is lost, and
scheduling continues by itself. The servers' loops, the submits of the API and a worker are real, in this process."""

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator

import asyncpg
import pytest
from msgspec import Raw

from tests.support.builders import recurring
from tests.support.pgbouncer import pgbouncer, pgbouncer_program
from tests.support.postgres import PostgresServer
from timeball import system
from timeball.domain.errors import Unavailable
from timeball.domain.job.job import JobSpec
from timeball.domain.run.lifecycle import Outcome, Succeeded
from timeball.domain.schedule.schedule import Interval
from timeball.domain.task.task import Http
from timeball.operation.jobs.submit import Created, NewJob, Submit
from timeball.ports.executor import ExecutorAttempt
from timeball.ports.store.jobs import JobFilter
from timeball.ports.worker_protocol import RegisterWorker
from timeball.server.server import Server
from timeball.stores.postgres.connect import single_hosts
from timeball.stores.postgres.store import PostgresStore
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Tx
from timeball.worker.worker import Worker

WAIT_SECONDS = 30.0


class Witness:
    """Executes nothing, and remembers what it was asked to."""

    kind = "http"

    def __init__(self) -> None:
        self.attempts: Counter[tuple[str, int]] = Counter()

    async def execute(self, attempt: ExecutorAttempt, *_: object) -> Outcome:
        self.attempts[attempt.run_id, attempt.attempt] += 1
        return Succeeded(Raw(b"null"))


class Load:
    """Submits one job after the other and keeps what was acknowledged; what was refused is asked for no more."""

    def __init__(self, submit: Submit) -> None:
        self._submit = submit
        self.acknowledged: list[str] = []
        self.refused = 0
        self.task = asyncio.create_task(self._go_on())

    async def _go_on(self) -> None:
        while True:
            try:
                (created,) = await self._submit([NewJob("default", JobSpec(task=Http(url="http://x/")))])
            except Unavailable:
                self.refused += 1
                await asyncio.sleep(0.05)
                continue
            assert isinstance(created, Created)
            self.acknowledged.append(created.job_id)
            await asyncio.sleep(0.005)


class House:
    def __init__(self, store: PostgresStore, server: Server) -> None:
        self.store, self.server = store, server
        self.witness = Witness()
        self.submit = Submit(server.context, lambda _: b"")
        self.load = Load(self.submit)

    async def more(self, count: int, what: str) -> float:
        """Seconds until this many more jobs were acknowledged and this many more attempts were made."""
        began = time.monotonic()
        acknowledged, attempts = len(self.load.acknowledged), self.witness.attempts.total()
        await until(
            lambda: (
                len(self.load.acknowledged) >= acknowledged + count
                and self.witness.attempts.total() >= attempts + count
            ),
            what,
        )
        return time.monotonic() - began


async def until(look: Callable[[], bool], what: str) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not look():
            await asyncio.sleep(0.01)
    assert look(), what


@contextlib.asynccontextmanager
async def house(dsn: str, **options: str) -> AsyncIterator[House]:
    clock, rng = system.SystemClock(), system.rng()
    store = PostgresStore(dsn, monotonic=system.monotonic, **options)  # type: ignore[arg-type]
    await store.open()
    server = Server(store, clock, rng)
    built = House(store, server)
    executors = {"http": built.witness}
    worker = Worker(server.gateway, executors, clock, RegisterWorker(name="w", slots=50), rng=rng)  # type: ignore[arg-type]
    try:
        server.start()
        await worker.start()
        yield built
    finally:
        built.load.task.cancel()
        await worker.stop()
        await server.stop()
        await store.close()


async def everything_adds_up(built: House, dsn: str, ticking: str) -> None:
    """Each acknowledged job has one run, which succeeded; no attempt was made twice; the ledger has no gap."""
    built.load.task.cancel()
    connection = await asyncpg.connect(dsn)
    ran = "SELECT run.job_id, count(*) FROM history run WHERE run.status = 'succeeded' GROUP BY 1"
    acknowledged = set(built.load.acknowledged)
    async with asyncio.timeout(WAIT_SECONDS):
        while missing := acknowledged - {job_id for job_id, _ in await connection.fetch(ran)}:
            await asyncio.sleep(0.1)
    assert not missing
    counts = dict(await connection.fetch(ran))
    assert {counts[job_id] for job_id in acknowledged} == {1}
    fires = [at for (at,) in await connection.fetch(
        "SELECT fire_time FROM history WHERE job_id = $1 UNION ALL SELECT fire_time FROM runs WHERE job_id = $1 "
        "ORDER BY 1", ticking
    )]  # fmt: skip
    assert len(fires) == len(set(fires)), "one fire, one run"
    assert {after - before for before, after in itertools.pairwise(fires)} == {1_000_000}, "and no gap"
    assert set(built.witness.attempts.values()) == {1}, "no attempt was made twice"
    await connection.close()


async def ticking_job(built: House) -> str:
    spec = JobSpec(task=Http(url="http://x/"), schedule=Interval(expression="1s"), overlap="allow", catch_up="all")
    (created,) = await built.submit([NewJob("default", spec)])
    assert isinstance(created, Created)
    return created.job_id


@pytest.fixture
def pair() -> Iterator[tuple[PostgresServer, PostgresServer, str]]:
    """A primary, its synchronous standby, and the name of a database."""
    with PostgresServer.start(settings={"wal_level": "replica"}) as primary:
        name = primary.create_database().split("?")[0].rsplit("/", 1)[1]
        with primary.standby() as standby:
            yield primary, standby, name


async def test_a_synchronous_replica_takes_over(pair: tuple[PostgresServer, PostgresServer, str]) -> None:
    primary, standby, name = pair
    dsn = f"postgresql://timeball@/{name}?host={standby.folder},{primary.folder}"
    async with house(dsn) as built:
        ticking = await ticking_job(built)
        await built.more(50, "a beginning")
        await asyncio.to_thread(primary.stop, "immediate")
        await asyncio.sleep(0.3)
        await asyncio.to_thread(standby.promote)
        took = await built.more(50, "it to go on with the replica")
        print(f"50 more jobs were accepted and run {took:.2f} s after the promotion; {built.load.refused} were refused")
        await asyncio.sleep(1)
        await everything_adds_up(built, standby.dsn(name), ticking)


async def test_a_crash_of_the_database_under_load(private_postgres: PostgresServer) -> None:
    dsn = private_postgres.create_database()
    async with house(dsn) as built:
        ticking = await ticking_job(built)
        for _ in range(2):
            await built.more(50, "a beginning")
            await asyncio.to_thread(private_postgres.restart, "immediate")
            took = await built.more(50, "it to go on")
            print(f"50 more jobs were accepted and run {took:.2f} s after the restart; {built.load.refused} refused")
        await asyncio.sleep(1)
        await everything_adds_up(built, dsn, ticking)


async def test_connections_that_are_ended_again_and_again_refuse_nobody(postgres_dsn: str) -> None:
    """Also in the middle of a commit: what may have been done is asked for again until it is known."""
    killer = await asyncpg.connect(postgres_dsn)
    async with house(postgres_dsn) as built:
        ticking = await ticking_job(built)
        await built.more(20, "a beginning")
        for _ in range(20):
            await killer.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'timeball' AND datname = current_database()"
            )
            await asyncio.sleep(0.05)
        took = await built.more(20, "it to go on")
        print(f"20 more jobs were accepted and run {took:.2f} s after the last connection was ended")
        assert built.load.refused == 0
        await everything_adds_up(built, postgres_dsn, ticking)
    await killer.close()


@pytest.mark.skipif(pgbouncer_program() is None, reason="pgbouncer is not installed: apt-get install pgbouncer")
async def test_a_pooler_in_transaction_mode(private_postgres: PostgresServer) -> None:
    """Neither statements nor settings are kept from one transaction to the next; hints take the direct way."""
    dsn = private_postgres.create_database()
    heard: list[str] = []
    with pgbouncer(private_postgres, dsn, connections=3) as pooled:
        async with house(pooled, direct=dsn) as built, house(pooled, direct=dsn) as other:
            other.load.task.cancel()
            other.store.listen(heard.append)
            ticking = await ticking_job(built)
            await built.more(100, "a beginning")
            await asyncio.to_thread(private_postgres.restart, "immediate")
            took = await built.more(50, "it to go on")
            print(f"50 more jobs were accepted and run {took:.2f} s after the restart behind the pooler")
            await until(lambda: "plan" in heard or "ready" in heard, "a hint")
            settings: list[tuple[str, str]] = []

            async def ask(tx: Tx) -> None:
                rows = await tx.fetch(
                    Query("settings", "SELECT name, setting FROM pg_settings WHERE source = 'session'")
                )
                settings.extend((name, value) for name, value in rows)

            await built.store._db.write(ask)
            assert ("synchronous_commit", "on") in settings
            assert ("enable_seqscan", "off") in settings
            connections = private_postgres.fetch_value(
                "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'", dsn
            )
            assert connections <= 3 + 2 + 1, "those of the pooler, one of each server for hints, and this one"
            witnessed = built.witness.attempts + other.witness.attempts
            built.witness.attempts = witnessed
            await everything_adds_up(built, dsn, ticking)


async def test_lists_are_read_from_a_replica_while_there_is_one(
    pair: tuple[PostgresServer, PostgresServer, str],
) -> None:
    """And nothing else: a replica that stands still shows old lists, and holds up nobody."""
    primary, standby, name = pair
    store = PostgresStore(primary.dsn(name), monotonic=system.monotonic, replica=standby.dsn(name))
    await store.open()
    primary.execute("ALTER SYSTEM RESET synchronous_standby_names")
    primary.execute("SELECT pg_reload_conf()")
    everything = JobFilter(tenant="default")
    first, second = recurring(store.now()), recurring(store.now())
    await store.submit([first])

    def jobs_of_replica() -> int:
        with contextlib.suppress(asyncpg.UndefinedTableError):
            return int(standby.fetch_value("SELECT count(*) FROM jobs", standby.dsn(name)))
        return 0

    async def listed(*, may_lag: bool) -> set[str]:
        page = await store.list_jobs(everything, None, 10, may_lag=may_lag)
        return {status.job.id for status in page.items}

    async with asyncio.timeout(WAIT_SECONDS):
        while await asyncio.to_thread(jobs_of_replica) != 1:
            await asyncio.sleep(0.05)
    standby.execute("SELECT pg_wal_replay_pause()")
    await store.submit([second])
    async with asyncio.timeout(WAIT_SECONDS):  # the store asks the replica again some time after it had no tables yet
        while await listed(may_lag=True) != {first.job.id}:
            await asyncio.sleep(0.05)
    assert await listed(may_lag=False) == {first.job.id, second.job.id}
    assert list(await store.jobs([second.job.id])) == [second.job.id]
    await asyncio.to_thread(standby.stop, "immediate")
    assert await listed(may_lag=True) == {first.job.id, second.job.id}, "the primary answers"
    await store.close()


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("postgresql://u@a/db", ["postgresql://u@a/db"]),
        ("postgresql://u@/db?host=/run/a", ["postgresql://u@/db?host=/run/a"]),
        (
            "postgresql://u:p@a:1,b:2/db?sslmode=require",
            [
                "postgresql://u:p@a:1/db?sslmode=require&target_session_attrs=read-write",
                "postgresql://u:p@b:2/db?sslmode=require&target_session_attrs=read-write",
            ],
        ),
        (
            "postgresql://u@/db?host=a,b&port=1,2&target_session_attrs=primary",
            [
                "postgresql://u@/db?target_session_attrs=primary&host=a&port=1",
                "postgresql://u@/db?target_session_attrs=primary&host=b&port=2",
            ],
        ),
    ],
)
def test_each_host_of_an_address_is_asked_for_itself(dsn: str, expected: list[str]) -> None:
    assert single_hosts(dsn) == expected
