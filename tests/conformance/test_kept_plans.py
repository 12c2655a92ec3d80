"""Plans that connections to PostgreSQL keep: they have to be right for every size of the tables."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tests.support.builders import one_shot, settlement, worker
from timeball import system
from timeball.domain.instant import HOUR
from timeball.ports.store.runs import SlotRequest
from timeball.stores.postgres.connect import SETTINGS
from timeball.stores.postgres.store import PostgresStore
from timeball.stores.sql.dialect import POSTGRES, Query
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.runs.settle_plain_success import (
    DELETE_RUNS,
    RECORD_SUCCESSES,
    RECORD_SUCCESSES_OF_SESSIONS,
)
from timeball.stores.sql.statements import query

PLANS = "SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements"
ROLLED_BACK = "rolled back"


@pytest_asyncio.fixture(loop_scope="session")
async def store(postgres_dsn: str) -> AsyncIterator[PostgresStore]:
    """A store with one connection, and a worker `w_1`."""
    store = PostgresStore(postgres_dsn, monotonic=system.monotonic, min_connections=1, max_connections=1)
    await store.open()
    await store.register(worker("w_1"), HOUR)
    yield store
    await store.close()


async def settle(store: PostgresStore, jobs: int = 3) -> int:
    await store.submit([one_shot(store.now()) for _ in range(jobs)])
    claims = (await store.claim([SlotRequest("w_1", "", jobs)], 0)).claims
    return len(await store.settle([settlement(claim) for claim in claims]))


async def plans(store: PostgresStore, of: Query) -> tuple[int, int]:
    """How often the connection used a plan that it keeps, and how often a new one."""
    sql = POSTGRES.compile(of.text).sql

    async def read(tx: Tx) -> list[Any]:
        return await tx.fetch(Query("plans", PLANS))

    return next((generic, custom) for text, generic, custom in await store._db.read(read) if text == sql)


async def test_successes_are_settled_with_plans_that_are_kept(store: PostgresStore) -> None:
    for _ in range(10):
        assert await settle(store) == 3
    for statement in (RECORD_SUCCESSES, DELETE_RUNS):
        assert await plans(store, statement) == (10, 0)
    assert await plans(store, query("claim_for_one")) == (0, 10)


async def test_other_statements_of_the_transaction_and_later_ones_are_planned_anew(store: PostgresStore) -> None:
    modes: list[str] = []
    mode = Query("mode", "SELECT current_setting('plan_cache_mode')")

    async def work(tx: Tx) -> None:
        await tx.execute(DELETE_RUNS, b=["r_1"])
        ((kept,),) = await tx.fetch(Query("mode", mode.text, planned_once=True))
        ((anew,),) = await tx.fetch(mode)
        modes.extend([kept, anew])

    async def unlocked(tx: Tx) -> None:
        await tx.execute(DELETE_RUNS, b=["r_1"])
        ((anew,),) = await tx.fetch_unlocked(mode)
        modes.append(anew)

    async def failing(tx: Tx) -> None:
        await tx.execute(DELETE_RUNS, b=["r_1"])
        raise ValueError(ROLLED_BACK)

    await store._db.write(work)
    await store._db.write(unlocked)
    with pytest.raises(ValueError, match=ROLLED_BACK):
        await store._db.write(failing)
    ((after,),) = await store._db.read(lambda tx: tx.fetch(mode))
    custom = SETTINGS["plan_cache_mode"]
    assert modes == ["force_generic_plan", custom, custom]
    assert after == custom


async def test_a_transaction_that_fails_is_rolled_back(store: PostgresStore) -> None:
    await store.submit([one_shot(store.now())])
    (claim,) = (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims

    async def failing(tx: Tx) -> None:
        assert await tx.execute(DELETE_RUNS, b=[claim.run_id]) == 1
        raise ValueError(ROLLED_BACK)

    with pytest.raises(ValueError, match=ROLLED_BACK):
        await store._db.write(failing)
    assert await store.settle([settlement(claim)]) != [None]


@pytest.mark.parametrize(
    "statement", [RECORD_SUCCESSES, RECORD_SUCCESSES_OF_SESSIONS, DELETE_RUNS], ids=lambda q: q.name
)
async def test_a_plan_from_an_empty_table_finds_runs_by_their_id(
    store: PostgresStore, postgres_dsn: str, statement: Query
) -> None:
    """A kept plan stays until the next ANALYZE, whatever has arrived since it was made."""
    compiled = POSTGRES.compile(statement.text)
    connection = await asyncpg.connect(postgres_dsn, server_settings=SETTINGS)
    try:
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        prepared = await connection.prepare(compiled.sql)
        name = prepared.get_name()
        values = ["'{}'" if each.name == "text" else "0" for each in prepared.get_parameters()]
        rows = await connection.fetch(f"EXPLAIN EXECUTE {name}({', '.join(values)})")
    finally:
        await connection.close()
    plan = "\n".join(row[0] for row in rows)
    used = re.findall(r"(?:Index Scan using|Bitmap Index Scan on|Index Only Scan using) (runs\w+)", plan)
    assert used == ["runs_pkey"], plan
    assert "Index Cond: (id = " in plan
    assert "Seq Scan on runs" not in plan
    assert "Hash Join" not in plan
    assert "Merge Join" not in plan
