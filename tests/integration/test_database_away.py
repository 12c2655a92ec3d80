"""I25: while PostgreSQL has no free connection or accepts none, a request is refused with a 503 and a time to try
again. Nothing of it was accepted, and the first request after that succeeds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.support.api import Api, serving
from tests.support.migrated import empty_postgres
from tests.support.postgres import PostgresCluster
from timeball import system
from timeball.stores.postgres.store import PostgresStore

MAX_CONNECTIONS = 2
JOB = {"task": {"kind": "shell", "command": "true"}}


@pytest.fixture
async def api(migrated_dsn: str) -> AsyncIterator[Api]:
    await empty_postgres(migrated_dsn)
    store = PostgresStore(
        migrated_dsn, monotonic=system.monotonic, min_connections=1, max_connections=MAX_CONNECTIONS, timeout=0.5
    )
    async with serving(store) as api:
        yield api


async def assert_refused(api: Api, told: str) -> None:
    for method, path in (("POST", "/v1/jobs"), ("GET", f"/v1/jobs/j_{0:028x}"), ("GET", "/v1/runs")):
        answer = await api(method, path, json=JOB if method == "POST" else None)
        assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json"), answer.text
        assert answer.json()["code"] == "unavailable"
        assert told in answer.json()["detail"]
        assert int(answer.headers["retry-after"]) >= 1


async def assert_accepted(api: Api) -> None:
    """As soon as the loops have noticed; and of what was refused nothing is there."""
    async with asyncio.timeout(60):
        while (answer := await api("POST", "/v1/jobs", json=JOB)).status_code == 503:
            await asyncio.sleep(0.05)
    assert answer.status_code == 201
    assert [each["jobId"] for each in (await api.get("/v1/jobs"))["items"]] == [answer.json()["jobId"]]


@asynccontextmanager
async def all_taken(api: Api) -> AsyncIterator[None]:
    """Every connection that the server may have is at work, and goes on being so."""
    pool = api.server.context.store._db._pool._pool  # type: ignore[attr-defined]
    async with AsyncExitStack() as taken:
        for _ in range(MAX_CONNECTIONS):
            await taken.enter_async_context(pool.acquire(timeout=10))
        yield


async def test_all_connections_are_busy(api: Api) -> None:
    await api.get("/v1/jobs")  # the key is known from now on
    async with all_taken(api):
        await assert_refused(api, f"all {MAX_CONNECTIONS} connections to PostgreSQL are busy")
    await assert_accepted(api)


async def test_the_database_lets_nobody_in(api: Api, postgres: PostgresCluster, migrated_dsn: str) -> None:
    await api.get("/v1/jobs")
    name = urlsplit(migrated_dsn).path.removeprefix("/")
    admin = await asyncpg.connect(postgres.admin_dsn)
    try:
        await admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
        await assert_refused(api, "PostgreSQL does not answer")
        await admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        await assert_accepted(api)
    finally:
        await admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        await admin.close()
