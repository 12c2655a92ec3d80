"""PostgreSQL errors that report a shortage, a restart or a server that is not the primary become `Unavailable` (I25),
for every statement: requests are answered with 503, and loops try again."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tests.support.api import WORKER, Api, FakeWorker, serving
from tests.support.migrated import empty_postgres
from timeball import system
from timeball.domain.errors import Unavailable
from timeball.stores.postgres.store import PostgresStore
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Tx

CODES = {
    "08000": "connection_exception",
    "08003": "connection_does_not_exist",
    "08006": "connection_failure",
    "08007": "transaction_resolution_unknown",
    "08P01": "protocol_violation, as a pooler says it",
    "25006": "read_only_sql_transaction",
    "25P03": "idle_in_transaction_session_timeout",
    "25P04": "transaction_timeout",
    "40001": "serialization_failure",
    "40P01": "deadlock_detected",
    "53000": "insufficient_resources",
    "53100": "disk_full",
    "53200": "out_of_memory",
    "53300": "too_many_connections",
    "55P03": "lock_not_available",
    "57014": "query_canceled, as by statement_timeout",
    "57P01": "admin_shutdown",
    "57P02": "crash_shutdown",
    "57P03": "cannot_connect_now",
    "57P05": "idle_session_timeout",
    "58030": "io_error",
}
CREATE_FUNCTION = """
CREATE OR REPLACE FUNCTION refuse() RETURNS trigger AS $$
BEGIN RAISE EXCEPTION 'refused for a test' USING ERRCODE = '{code}'; END $$ LANGUAGE plpgsql
"""
JOB = {"task": {"kind": "shell", "command": "true"}}


@pytest_asyncio.fixture(loop_scope="session")
async def behind(migrated_dsn: str) -> AsyncIterator["asyncpg.Connection[Any]"]:
    await empty_postgres(migrated_dsn)
    connection = await asyncpg.connect(migrated_dsn)
    yield connection
    await connection.execute("DROP FUNCTION IF EXISTS refuse() CASCADE")
    await connection.close()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Works whose connection broke are repeated for a moment only."""
    monkeypatch.setattr("timeball.stores.postgres.store.UNCERTAIN", 20_000)
    monkeypatch.setattr("timeball.stores.postgres.store.TRY_AGAIN_AFTER", 0.005)


@pytest_asyncio.fixture(loop_scope="session")
async def plain_store(migrated_dsn: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(migrated_dsn, monotonic=system.monotonic, min_connections=1, max_connections=2)
    await store.open()
    yield store
    await store.close()


@pytest.mark.parametrize("code", CODES)
async def test_every_statement_that_is_refused_is_unavailable(code: str, plain_store: PostgresStore) -> None:
    refusing = Query("refuse", f"DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{code}'; END $$")

    async def work(tx: Tx) -> None:
        await tx.execute(refusing)

    driver: Any = plain_store._db
    for attempt in (driver.write, driver.read, lambda work: driver.read(work, slow=True)):
        with pytest.raises(Unavailable) as refused:
            await attempt(work)
        assert refused.value.retry_after > 0
    await plain_store.ping()
    assert driver._pool._working == 0


@pytest_asyncio.fixture(loop_scope="session")
async def api(migrated_dsn: str, behind: "asyncpg.Connection[Any]") -> AsyncIterator[Api]:
    store = PostgresStore(migrated_dsn, monotonic=system.monotonic, min_connections=1, max_connections=5)
    async with serving(store) as api:
        yield api


async def test_a_request_that_meets_such_an_error_is_answered_with_503_and_spends_nothing(
    api: Api, behind: "asyncpg.Connection[Any]"
) -> None:
    """I25, I29: nothing is accepted, a worker's report can be repeated, and the run has still had one attempt."""
    worker = FakeWorker(api)
    await worker.hello()
    job = await api.create(**JOB)
    assigned = await worker.take()
    for table in ("jobs", "history"):
        await behind.execute(CREATE_FUNCTION.format(code="53100"))
        await behind.execute(f"CREATE TRIGGER refuse BEFORE INSERT ON {table} EXECUTE FUNCTION refuse()")
    end = {
        **{name: assigned[name] for name in ("runId", "jobId", "attempt", "token", "serial")},
        "outcome": {"type": "succeeded"},
        "age": 2_000,
        "took": 1_000,
    }
    report = {"session": worker.session, "pollSeq": 1, "free": 1, "ended": [end]}
    for code in CODES:
        await behind.execute(CREATE_FUNCTION.format(code=code))
        for path, key, body in (("/v1/jobs", {}, JOB), ("/v1/worker/report", {"key": WORKER}, report)):
            answer = await api("POST", path, json=body, **key)
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable"), (code, path, answer.text)
            assert int(answer.headers["retry-after"]) >= 1
    await behind.execute("DROP FUNCTION refuse() CASCADE")
    assert [each["jobId"] for each in (await api.get("/v1/jobs"))["items"]] == [job["jobId"]]
    await worker.send("report", report)
    run = await api.get(f"/v1/runs/{assigned['runId']}")
    assert (run["status"], run["attempt"]) == ("succeeded", 1)
    assert (await api.create(**JOB))["jobId"] != job["jobId"]
