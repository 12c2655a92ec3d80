"""PostgreSQL: daily partitions are created and dropped automatically, and no other transaction waits for that."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable
from functools import partial
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tests.conformance.test_lists import finished, run_id
from tests.conformance.test_retention import prune, remember
from tests.support.builders import LEASE, one_shot, recurring, settlement, worker
from tests.support.day_ranges import leading, patiently, prepare_days
from timeball import system
from timeball.domain.instant import DAY, HOUR, Micros
from timeball.domain.retention import DAYS_AHEAD, day_of
from timeball.domain.run.ledger import Verdict
from timeball.ports.store.jobs import Submission
from timeball.ports.store.maintenance import Occupied
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.runs import SlotRequest
from timeball.ports.store.store import Store
from timeball.stores.postgres.partitions import DAILY, name
from timeball.stores.postgres.store import PostgresStore
from timeball.stores.postgres.tx import Tx
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.statements import query


class House:
    """A store, and a look behind it."""

    def __init__(self, store: PostgresStore, connection: "asyncpg.Connection[Any]") -> None:
        self.store = store
        self.connection = connection
        self.today = day_of(store.now())

    async def partitions(self, table: str = "history") -> set[str]:
        rows = await self.connection.fetch(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = $1::text::regclass", table
        )
        return {partition for (partition,) in rows}

    async def count(self, table: str) -> int:
        return int(await self.connection.fetchval(f"SELECT count(*) FROM {table}"))


@pytest_asyncio.fixture(loop_scope="session")
async def house(postgres_dsn: str) -> AsyncIterator[House]:
    store = PostgresStore(postgres_dsn, monotonic=system.monotonic)
    await store.open()
    connection = await asyncpg.connect(postgres_dsn)
    yield House(store, connection)
    await connection.close()
    await store.close()


def expected(table: str, first: Micros, days: int) -> set[str]:
    return {f"{table}_rest"} | {name(table, first + at * DAY) for at in range(days)}


async def test_days_appear_before_they_come_and_disappear_when_they_are_old(house: House) -> None:
    for table in DAILY:
        assert await house.partitions(table) == expected(table, house.today, DAYS_AHEAD + 1)
    old = house.today - 45 * DAY
    await prepare_days(house.store, [old + at * DAY for at in range(45)])
    assert await house.partitions() == expected("history", old, 45 + DAYS_AHEAD + 1)
    sent = recurring(old)
    await house.store.submit([sent])
    await remember(house.store, [finished(sent.job, old + at * DAY + HOUR, at) for at in range(45)])
    assert await house.count("history_rest") == 0

    await prune(house.store, limit=10)

    for table in DAILY:
        assert await house.partitions(table) == expected(table, house.today - 30 * DAY, 30 + DAYS_AHEAD + 1)
    assert await house.count("history") == 30
    assert await house.connection.fetchval("SELECT to_regclass($1)", name("history", old)) is None
    assert (await house.store.ledger_sums(sent.job.id, 0, house.store.now())).counts == {Verdict.ON_TIME: 45}


async def test_what_ends_is_on_its_day(house: House) -> None:
    await house.store.register(worker("w_1"), LEASE)
    await house.store.submit([one_shot(house.store.now()) for _ in range(5)])
    claims = (await house.store.claim([SlotRequest("w_1", "", 10)], 0)).claims
    await house.store.settle([settlement(claim) for claim in claims])
    assert await house.count("history_rest") == 0
    assert await house.count("history") == 5


async def test_servers_that_prepare_at_once_do_it_once(house: House, postgres_dsn: str) -> None:
    others = [PostgresStore(postgres_dsn, monotonic=system.monotonic) for _ in range(3)]
    await asyncio.gather(*(store.open() for store in others))
    days = [house.today - at * DAY for at in range(1, 4)]
    lead = await leading(house.store)
    await asyncio.gather(*(store.prepare_days(lead, days) for store in others), return_exceptions=True)
    await prepare_days(house.store, days)
    assert await house.partitions() == expected("history", house.today - 3 * DAY, 4 + DAYS_AHEAD)
    await asyncio.gather(*(store.close() for store in others))


async def test_a_day_that_began_in_the_rest_stays_there_and_goes_from_there(house: House) -> None:
    old = house.today - 40 * DAY
    sent = recurring(old)
    await house.store.submit([sent])
    await remember(house.store, [finished(sent.job, old + at, at) for at in range(3)])
    await prepare_days(house.store, [old, old + DAY])
    assert await house.partitions() >= {name("history", old + DAY)}
    assert name("history", old) not in await house.partitions()
    await prune(house.store)
    assert await house.count("history") == 0
    assert (await house.store.ledger_sums(sent.job.id, 0, house.store.now())).due == 3


async def test_writers_are_not_made_to_wait_for_a_day_that_is_prepared(house: House, postgres_dsn: str) -> None:
    writer = await asyncpg.connect(postgres_dsn)
    async with writer.transaction():
        await writer.execute("INSERT INTO logs VALUES ($1, 1, 0, 'stdout', 1, '')", run_id(house.store.now(), 1))
        await prepare_days(house.store, [house.today - DAY])
    assert name("logs", house.today - DAY) in await house.partitions("logs")
    await writer.close()


async def test_who_reads_is_not_disturbed_and_the_day_goes_later(house: House, postgres_dsn: str) -> None:
    store, old = house.store, house.today - 40 * DAY
    lead, before = await leading(store), store.now() - 30 * DAY
    await prepare_days(store, [old])
    reader = await asyncpg.connect(postgres_dsn)
    async with reader.transaction():
        await reader.fetch("SELECT * FROM history")
        with pytest.raises(Occupied):
            await store.prune_day(lead, old, before, 10)
        assert name("history", old) in await house.partitions()
    await reader.close()
    await prune(store)
    assert name("history", old) not in await house.partitions()


async def test_another_server_goes_on_where_the_last_one_stopped(house: House, postgres_dsn: str) -> None:
    store, old = house.store, house.today - 40 * DAY
    lead, before = await leading(store), store.now() - 30 * DAY
    await prepare_days(store, [old])
    sent = recurring(old)
    await store.submit([sent])
    await remember(store, [finished(sent.job, old + at, at) for at in range(10)])
    for _ in range(3):
        assert await patiently(partial(store.prune_day, lead, old, before, 3))
    other: Store = PostgresStore(postgres_dsn, monotonic=system.monotonic)
    await other.open()
    assert (await other.ledger_sums(sent.job.id, 0, store.now())).due == 10
    await prune(other)
    assert (await other.ledger_sums(sent.job.id, 0, store.now())).due == 10
    assert await house.count("departures") == 0
    await other.close()


async def test_runs_that_are_named_are_looked_for_on_their_days_only(house: House) -> None:
    """To plan for all days would take longer than everything else."""
    old = house.today - 20 * DAY
    await prepare_days(house.store, [old + at * DAY for at in range(20)])
    compiler = house.store._db._compiler  # type: ignore[attr-defined]
    for statement in ("finished_runs", "spans", "specs_of_runs", "run_statuses", "runs_to_follow", "first_attempts"):
        sql, arguments = compiler.arguments(query(statement), {"b": [run_id(house.today - 5 * DAY, 1)]})
        plan = "\n".join(line for (line,) in await house.connection.fetch(f"EXPLAIN {sql}", *arguments))
        days = {day for day in range(-20, DAYS_AHEAD) if _named(plan, house.today + day * DAY)}
        assert days == {-5}, statement


def _named(plan: str, day: Micros) -> bool:
    return name("history", day) in plan or name("attempts", day) in plan


async def test_a_read_looks_at_no_day_on_which_its_runs_cannot_have_been_made(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, planned = house.store, set[str]()
    await prepare_days(store, [house.today - at * DAY for at in range(1, 20)])
    old, new = recurring(house.today - 19 * DAY, tags=["x"]).job, recurring(store.now(), tags=["x"]).job
    await store.submit([Submission(old, ()), Submission(new, ())])
    numbers = iter(range(1_000))
    runs = [finished(old, house.today - at * DAY, next(numbers)) for at in range(19)]
    runs += [finished(new, store.now() - at, next(numbers)) for at in range(5)]
    await remember(store, runs)
    original = Tx.fetch

    async def explained(tx: Any, query: Query, **parameters: Any) -> list[Any]:
        sql, arguments = tx._compiler.arguments(query, parameters)
        for (line,) in await tx._connection.fetch(f"EXPLAIN {sql}", *arguments):
            planned.update(re.findall(r" on (history_\w+)", line))
        return await original(tx, query, **parameters)

    async def days_of(reading: Awaitable[object]) -> set[str]:
        planned.clear()
        await reading
        return set(planned)

    monkeypatch.setattr(Tx, "fetch", explained)
    near = {name("history", house.today + at * DAY) for at in (-2, -1, 0, 1)}
    now = store.now()
    assert await days_of(store.current_run(new.id)) <= near
    assert await days_of(store.standing(new.id)) <= near
    assert await days_of(store.ledger(new.id, new.created_at, now, None, 100)) <= near
    assert await days_of(store.ledger_sums(new.id, new.created_at, now)) <= near
    assert await days_of(store.list_runs(RunFilter(tenant=new.tenant, job_id=new.id), None, 100)) <= near
    in_order = [row.id for row in sorted(runs, key=lambda row: row.fire_time, reverse=True)]
    for where in (RunFilter(tenant=new.tenant), RunFilter(tenant=new.tenant, tag="x")):
        assert await days_of(store.list_runs(where, None, 3)) <= near
        assert len(await days_of(store.list_runs(where, None, 10))) > 20
        for limit in (3, 10):
            page = await store.list_runs(where, None, limit)
            assert [run.id for run in page.items] == in_order[:limit]
