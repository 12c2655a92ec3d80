"""Names that cannot be looked up concern the jobs that name them, and no others (I28, I29)."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from tests.support.http_target import serving
from tests.unit.executing import RecordedAttempt
from timeball.client.wire import Wire
from timeball.domain.lifecycle import Outcome, Succeeded
from timeball.domain.task import Http
from timeball.executors.http import HttpExecutor

SHARED = pytest.mark.xfail(strict=True, reason="item 7: hanging lookups hold up every other lookup")
PATIENCE = 5.0
"""Seconds after which something counts as held up for good."""


class Names:
    """Stands in for the system's resolver. Names of `hanging.example` hang until the end."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.asked: list[str] = []
        self.errors: dict[str, Exception] = {}
        self._real = socket.getaddrinfo

    def getaddrinfo(self, host: Any, *rest: Any, **how: Any) -> Any:
        if not isinstance(host, str):
            return self._real(host, *rest, **how)
        self.asked.append(host)
        if host.endswith("hanging.example"):
            self.end.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        if host in self.errors:
            raise self.errors[host]
        return self._real("127.0.0.1" if host.endswith(".example") else host, *rest, **how)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names.getaddrinfo)
    yield names
    names.end.set()


@pytest.fixture
async def http() -> AsyncIterator[HttpExecutor]:
    executor = HttpExecutor()
    yield executor
    await executor.close()


async def ok(request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def call(http: HttpExecutor, url: str) -> Outcome:
    async with asyncio.timeout(PATIENCE):
        return await http.execute(RecordedAttempt(Http(url=url)))


def at(url: str, host: str) -> str:
    return f"http://{host}:{urlsplit(url).port}/"


async def hang(http: HttpExecutor, names: Names, count: int) -> list[asyncio.Task[Outcome]]:
    """Calls whose lookups hang."""
    urls = [f"http://n{number}.hanging.example/" for number in range(count)]
    calls = [asyncio.create_task(http.execute(RecordedAttempt(Http(url=url)))) for url in urls]
    for _ in range(100):
        await asyncio.sleep(0.01)
        if len(names.asked) >= count:
            break
    return calls


@SHARED
@pytest.mark.parametrize("host", ["localhost", "well.example"])
async def test_hanging_lookups_hold_up_no_other_name(http: HttpExecutor, names: Names, host: str) -> None:
    async with serving(ok) as url:
        hanging = await hang(http, names, 60)
        assert isinstance(await call(http, at(url, host)), Succeeded)
    for each in hanging:
        each.cancel()
    assert await asyncio.gather(*hanging, return_exceptions=True)


@SHARED
async def test_a_worker_finds_its_server_while_jobs_hold_every_shared_thread(names: Names) -> None:
    """Functions of mode `async` share the event loop's threads with `asyncio.to_thread`."""
    hold = [asyncio.create_task(asyncio.to_thread(names.end.wait, 60)) for _ in range(100)]
    await asyncio.sleep(0)
    async with serving(ok) as url:
        wire = Wire(at(url, "server.example"), {})
        async with asyncio.timeout(PATIENCE):
            assert (await wire.post("/", b"")).status == 200
        wire.close()
    names.end.set()
    await asyncio.gather(*hold)
