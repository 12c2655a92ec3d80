"""HTTP jobs from end to end: a real server with its loops, a real worker, and a target that answers as it likes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from tests.support.http_target import serving
from timeball import system
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND
from timeball.domain.job import JobSpec
from timeball.domain.lifecycle import Status
from timeball.domain.overlap import Overlap
from timeball.domain.retry import Retry
from timeball.domain.run import Run
from timeball.domain.schedule import Interval
from timeball.domain.task import Http
from timeball.executors.http import HttpExecutor
from timeball.operation.submit import Created, NewJob, Submit
from timeball.ports.dispatch import Hello
from timeball.ports.store import RunFilter, Settled, Settlement
from timeball.service.server import Server
from timeball.service.worker import Worker
from timeball.stores.sqlite import SqliteStore

TENANT = "default"


class AttentiveStore(SqliteStore):
    """Notes which hosts it is told of."""

    hosts: list[str | None]

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled | None]:
        self.hosts += [each.host for each in settlements]
        return await super().settle(settlements)


class Fleet:
    """One server and one worker."""

    def __init__(self, folder: Path) -> None:
        self.store = AttentiveStore(folder / "timeball.db", wall=system.wall, monotonic=system.monotonic)
        self.store.hosts = []
        clock, dice = system.SystemClock(), system.dice()
        self.server = Server(self.store, clock, dice)
        self._executor = HttpExecutor()
        hello = Hello(name="w", slots=10)
        self._worker = Worker(self.server.desk, {"http": self._executor}, clock, hello, dice=dice)

    async def start(self) -> None:
        await self.store.open()
        self.server.start()
        await self._worker.start()

    async def stop(self) -> None:
        await self._worker.stop()
        await self._executor.close()
        await self.server.stop()
        await self.store.close()

    async def submit(self, spec: JobSpec) -> str:
        (created,) = await Submit(self.server.context, lambda _: b"")([NewJob(TENANT, spec)])
        assert isinstance(created, Created)
        return created.job_id

    async def runs(self, job_id: str, until: Callable[[list[Run]], bool]) -> list[Run]:
        """The runs of a job, oldest first, once they are as they should be."""
        while True:
            page = await self.store.list_runs(RunFilter(tenant=TENANT, job_id=job_id), None, 100)
            found = sorted(page.items, key=lambda run: run.fire_time)
            if until(found):
                return found
            await asyncio.sleep(0.01)


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    await fleet.start()
    yield fleet
    await fleet.stop()


@pytest.mark.parametrize(
    ("status", "patience", "waits"),
    [
        (429, "7200", 2 * HOUR),
        (503, "Thu, 01 Jan 2026 02:00:00 GMT", 2 * HOUR),
        (503, "999999999999", DAY),
        (500, "7200", 10 * SECOND),
    ],
    ids=["seconds", "date", "at most a day", "not for other answers"],
)
async def test_retry_after_moves_the_retry_and_not_the_series(
    fleet: Fleet, status: int, patience: str, waits: int
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
                retry=Retry(backoff=["10s"]),
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


async def test_the_store_hears_which_host_was_called_whatever_came_of_it(fleet: Fleet) -> None:
    async def moody(request: web.Request) -> web.Response:
        return web.Response(status=200 if request.path == "/well" else 500)

    async with serving(moody) as url:
        once = Retry(max_retries=0)
        tasks = (Http(url=f"{url}well"), Http(url=f"{url}unwell"), Http(url=f"{url}well", breaker=False))
        for task in tasks:
            job_id = await fleet.submit(JobSpec(task=task, retry=once))
            await fleet.runs(job_id, lambda runs: bool(runs) and runs[0].is_terminal)
    assert fleet.store.hosts == [urlsplit(url).netloc, urlsplit(url).netloc, None]
