"""Two servers on one PostgreSQL: a page at one of them shows what happens at the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from tests.support.api import OTHER, Api, FakeWorker, serving
from tests.support.event_streams import HttpApi, over_http, until
from timeball import system
from timeball.ports.store.store import MAX_MESSAGE_BYTES
from timeball.stores.postgres.store import PostgresStore
from timeball.stores.postgres.wakeups import MESSAGE_CHANNEL


@pytest.fixture
async def servers(postgres_dsn: str) -> AsyncIterator[tuple[HttpApi, HttpApi]]:
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(2):
            api = await stack.enter_async_context(serving(PostgresStore(postgres_dsn, monotonic=system.monotonic)))
            found.append(await stack.enter_async_context(over_http(api)))
        yield found[0], found[1]


@asynccontextmanager
async def tapped(dsn: str) -> AsyncIterator[list[str]]:
    """The messages between the servers."""
    messages: list[str] = []
    connection: asyncpg.Connection[Any] = await asyncpg.connect(dsn)
    await connection.add_listener(MESSAGE_CHANNEL, lambda *given: messages.append(str(given[-1])))
    try:
        yield messages
    finally:
        await connection.close()


async def until_told(api: Api, tenant: str = "default") -> None:
    """The server knows that another one has listeners of the tenant."""
    await until(lambda: tenant in api.server.context.events._listening_elsewhere)


async def test_a_page_at_one_server_shows_what_runs_at_the_other(servers: tuple[HttpApi, HttpApi]) -> None:
    page, work = servers
    worker = FakeWorker(work.api)
    await worker.hello()
    async with page.events() as events, page.events("?tag=db") as tagged:
        await until_told(work.api)
        job = await work.api.create(name="nightly", tags=["db"])
        await worker.succeed(await worker.take())
        for reader in (events, tagged):
            ended = await reader.until("timeball.run.succeeded")
            assert (ended.data["jobId"], ended.data["jobName"], ended.data["tags"]) == (job["jobId"], "nightly", ["db"])
        other = await work.api.create(name="other")
        by_job = await events.until("timeball.job.created", lambda data: data["jobId"] == other["jobId"])
        assert by_job.data["name"] == "other"
        await worker.send("goodbye", {"session": worker.session}, status=204)
        assert (await events.until("timeball.worker.left")).data["workerId"] == worker.session
    async with page.events(last_id=ended.id) as resumed:
        assert (await resumed.until("timeball.job.created")).data["name"] == "other"


async def test_no_tenant_sees_what_another_one_does_at_another_server(servers: tuple[HttpApi, HttpApi]) -> None:
    """I24."""
    page, work = servers
    async with page.events() as mine, page.events(key=OTHER) as theirs:
        await until_told(work.api)
        await until_told(work.api, "other")
        jobs = [{"name": f"theirs {number}", "task": {"kind": "shell", "command": "true"}} for number in range(300)]
        answer = await work.api("POST", "/v1/jobs:batch", OTHER, json=jobs)
        assert answer.status_code in (200, 201, 207), answer.text
        summary = await theirs.until("timeball.runs.changed")
        assert summary.data["count"] == 300
        await work.api.create(name="mine")
        first = await mine.next()
        assert (first.type, first.data["name"]) == ("timeball.job.created", "mine")


async def test_messages_are_few_and_small(servers: tuple[HttpApi, HttpApi], postgres_dsn: str) -> None:
    """Nothing without listeners, and with them at most one per window of 250 ms for any number of runs."""
    page, work = servers
    async with tapped(postgres_dsn) as messages:
        jobs = [{"name": f"job {number}", "task": {"kind": "shell", "command": "true"}} for number in range(100)]
        for _ in range(3):
            await work.api("POST", "/v1/jobs:batch", json=jobs)
        await asyncio.sleep(0.3)
        assert messages == []
        async with page.events() as events:
            await until_told(work.api)
            announced = len(messages)
            started = system.monotonic()
            for _ in range(20):
                await work.api("POST", "/v1/jobs:batch", json=jobs)
            await work.api.create(name="last")
            count = 0
            while count < 2_001:
                frame = await events.next()
                count += frame.data.get("count", int(frame.type == "timeball.run.queued"))
            windows = (system.monotonic() - started) // 250_000 + 2
            told = messages[announced:]
            assert [message for message in told if len(message.encode()) > MAX_MESSAGE_BYTES] == []
            assert 0 < sum('"news"' in message for message in told) <= windows


async def test_a_broken_connection_between_servers_is_a_reset(
    servers: tuple[HttpApi, HttpApi], postgres_dsn: str
) -> None:
    page, work = servers
    async with page.events() as events:
        await until_told(work.api)
        connection: asyncpg.Connection[Any] = await asyncpg.connect(postgres_dsn)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND (query LIKE 'LISTEN%' OR query LIKE '%pg_notify%')"
        )
        await connection.close()
        frame = await events.until("reset")
        assert frame.event == {}
        # A change that is lost because its server has not connected again yet is followed by another reset.
        for number in range(3):
            await work.api.create(name=f"after {number}")
            frame = await events.first("reset", "timeball.job.created")
            if frame.type != "reset":
                break
        assert frame.data["name"].startswith("after")
