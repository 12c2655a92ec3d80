"""HTTP jobs from end to end: a real server with its loops, a real worker, and a target that the tests control."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from tests.support.fleet import Fleet, working
from tests.support.http_target import serving
from tests.support.raw_target import RawRequest, listening
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND
from timeball.domain.job.job import JobSpec
from timeball.domain.run.circuit_breaker import TRIPS_AT
from timeball.domain.run.status import Status
from timeball.domain.schedule.schedule import Interval
from timeball.domain.task.retry import Retry
from timeball.domain.task.task import Http
from timeball.executors.http.executor import HttpExecutor


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    executor = HttpExecutor()
    async with working(tmp_path, executor) as fleet:
        yield fleet
    await executor.close()


@pytest.mark.parametrize(
    ("status", "patience", "cap", "waits"),
    [
        (429, "7200", "7d", 2 * HOUR),
        (503, "Thu, 01 Jan 2026 02:00:00 GMT", "7d", 2 * HOUR),
        (503, "999999999999", "7d", DAY),
        (503, "7200", "1h", HOUR),
        (500, "7200", "7d", 10 * SECOND),
    ],
    ids=["seconds", "date", "at most a day", "at most the cap", "not for other answers"],
)
async def test_retry_after_moves_the_retry_and_not_the_series(
    fleet: Fleet, status: int, patience: str, cap: str, waits: int
) -> None:
    calls = 0

    async def busy_at_first(request: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        if calls > 1:
            return web.Response()
        headers = {"Retry-After": patience, "Date": "Thu, 01 Jan 2026 00:00:00 GMT"}
        return web.Response(status=status, headers=headers)

    async with serving(busy_at_first) as url:
        job_id = await fleet.submit(
            JobSpec(
                task=Http(url=url),
                schedule=Interval(expression="1s"),
                overlap=Overlap.ALLOW,
                retry=Retry(backoff=["10s"], cap=cap),
            )
        )
        runs = await fleet.runs(job_id, lambda runs: [run.status for run in runs[1:3]] == [Status.SUCCEEDED] * 2)
    first = runs[0]
    assert (first.status, first.attempt) == (Status.RETRYING, 1)
    assert first.failure is not None
    assert first.failure.status == status
    assert first.eligible_at is not None
    assert waits <= first.eligible_at - first.fire_time < waits + MINUTE
    assert [run.fire_time - first.fire_time for run in runs[:3]] == [0, SECOND, 2 * SECOND]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 201 Created\r\nLocation: /caf\xe9\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun",
    ],
    ids=["a header in Latin-1", "a body that breaks off"],
)
async def test_a_2xx_is_executed_once_however_it_reads(fleet: Fleet, answer: bytes) -> None:
    """I30: it was executed four times, and ended dead."""
    calls = 0

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        writer.write(answer)
        await writer.drain()
        raise ConnectionError

    async with listening(respond) as url:
        spec = JobSpec(task=Http(url=url), retry=Retry(max_retries=3, backoff=["0s"]))
        run = await fleet.ended(await fleet.submit(spec))
    assert (run.status, run.attempt, calls) == (Status.SUCCEEDED, 1, 1)


async def test_the_store_hears_which_host_was_called_whatever_came_of_it(fleet: Fleet) -> None:
    async def moody(request: web.Request) -> web.Response:
        return web.Response(status=200 if request.path == "/well" else 500)

    async with serving(moody) as url:
        once = Retry(max_retries=0)
        tasks = (Http(url=f"{url}well"), Http(url=f"{url}unwell"), Http(url=f"{url}well", breaker=False))
        for task in tasks:
            await fleet.ended(await fleet.submit(JobSpec(task=task, retry=once)))
    assert fleet.store.hosts == [urlsplit(url).netloc, urlsplit(url).netloc, None]


async def test_a_host_that_keeps_failing_is_left_in_peace_but_by_those_who_opted_out(fleet: Fleet) -> None:
    calls = 0

    async def unwell(request: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return web.Response(status=500)

    async with serving(unwell) as url:
        once = Retry(max_retries=0)
        for _ in range(TRIPS_AT):
            assert (await fleet.ended(await fleet.submit(JobSpec(task=Http(url=url), retry=once)))).attempt == 1
        held = await fleet.submit(JobSpec(task=Http(url=url), retry=once))
        (run,) = await fleet.runs(held, lambda runs: bool(runs) and runs[0].status is Status.BLOCKED)
        assert (run.attempt, run.gate) == (0, f"host:{urlsplit(url).netloc}")
        assert calls == TRIPS_AT
        await fleet.ended(await fleet.submit(JobSpec(task=Http(url=url, breaker=False), retry=once)))
        assert calls == TRIPS_AT + 1
