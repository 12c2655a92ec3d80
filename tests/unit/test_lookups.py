"""Host names that cannot be resolved affect only the jobs that use them (I28, I29)."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from tests.support.fake_worker_protocol import FakeDispatch, assignment
from tests.support.http_target import serving
from tests.unit.executing import RecordedAttempt
from timeball import lookups
from timeball.domain.instant import MINUTE
from timeball.domain.run.lifecycle import Failed, Outcome, Released, Succeeded
from timeball.domain.task.task import Http
from timeball.executors.http.executor import LOOKUP_PAUSE, LOOKUP_TIMEOUT, HttpExecutor
from timeball.executors.lazy_executor import LazyExecutor
from timeball.lookups import CACHE_SECONDS, Lookups
from timeball.ports.executor import OutOfResources, TryLater
from timeball.ports.worker_protocol import RegisterWorker
from timeball.system import SystemClock, rng
from timeball.worker.transport.connection import Wire
from timeball.worker.worker import Worker

WAIT_SECONDS = 5.0
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
    async with asyncio.timeout(WAIT_SECONDS):
        return await http.execute(RecordedAttempt(Http(url=url)))


def at(url: str, host: str) -> str:
    return f"http://{host}:{urlsplit(url).port}/"


async def hang(http: HttpExecutor, names: Names, count: int) -> list[asyncio.Task[Outcome]]:
    """Calls whose lookups hang."""
    urls = [f"http://n{number}.hanging.example/" for number in range(count)]
    calls = [asyncio.create_task(http.execute(RecordedAttempt(Http(url=url)))) for url in urls]
    for _ in range(500):
        await asyncio.sleep(0.01)
        if len(names.asked) >= count:
            break
    return calls


@pytest.mark.parametrize("host", ["localhost", "well.example"])
async def test_hanging_lookups_hold_up_no_other_name(http: HttpExecutor, names: Names, host: str) -> None:
    async with serving(ok) as url:
        hanging = await hang(http, names, 240)
        assert isinstance(await call(http, at(url, host)), Succeeded)
    for each in hanging:
        each.cancel()
    assert await asyncio.gather(*hanging, return_exceptions=True)


async def test_a_worker_finds_its_server_while_jobs_hold_every_shared_thread(names: Names) -> None:
    """Functions of mode `async` share the event loop's threads with `asyncio.to_thread`."""
    hold = [asyncio.create_task(asyncio.to_thread(names.end.wait, 60)) for _ in range(100)]
    await asyncio.sleep(0)
    async with serving(ok) as url:
        wire = Wire(at(url, "server.example"), {})
        async with asyncio.timeout(WAIT_SECONDS):
            assert (await wire.post("/", b"")).status == 200
        wire.close()
    names.end.set()
    await asyncio.gather(*hold)


async def test_a_job_that_needs_the_http_client_first_waits_for_no_other_job(names: Names) -> None:
    hold = [asyncio.create_task(asyncio.to_thread(names.end.wait, 60)) for _ in range(100)]
    await asyncio.sleep(0)
    executor = LazyExecutor("http", HttpExecutor)
    async with serving(ok) as url, asyncio.timeout(WAIT_SECONDS):
        assert isinstance(await executor.execute(RecordedAttempt(Http(url=url))), Succeeded)
    await executor.close()
    names.end.set()
    await asyncio.gather(*hold)


async def test_all_that_ask_for_a_name_share_one_lookup(http: HttpExecutor, names: Names) -> None:
    async with serving(ok) as url:
        calls = [call(http, at(url, "well.example")) for _ in range(50)]
        assert all(isinstance(outcome, Succeeded) for outcome in await asyncio.gather(*calls))
    assert names.asked.count("well.example") == 1


async def test_an_address_is_not_looked_up(http: HttpExecutor, names: Names) -> None:
    async with serving(ok) as url:
        assert isinstance(await call(http, at(url, "127.0.0.1")), Succeeded)
    assert [found.host for found in await Lookups(0).addresses("::1")] == ["::1"]
    assert "127.0.0.1" not in names.asked
    assert "::1" not in names.asked


async def test_a_call_whose_name_finds_no_thread_is_handed_back(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    """I29: a full pool, and a machine without threads, cost no attempt. The first concerns only such calls."""
    http = HttpExecutor(Lookups(2))
    async with serving(ok) as url:
        hanging = await hang(http, names, 2)
        with pytest.raises(TryLater):
            await call(http, at(url, "well.example"))
        assert isinstance(await call(http, at(url, "localhost")), Succeeded)
        names.end.set()
        await asyncio.gather(*hanging, return_exceptions=True)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", no_thread)
            with pytest.raises(OutOfResources) as short:
                await call(http, at(url, "well.example"))
        assert not isinstance(short.value, TryLater)
        assert isinstance(await call(http, at(url, "well.example")), Succeeded)
    await http.close()


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


async def test_a_name_that_no_server_answers_for_costs_no_attempt_for_a_while(
    http: HttpExecutor, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I29, and not for ever: then it is a failure of the target."""
    loop = asyncio.get_running_loop()
    passed = 0.0
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + passed)
    names.errors["away.example"] = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    async with serving(ok) as url:
        for _ in range(10):
            with pytest.raises(TryLater) as later:
                await call(http, at(url, "away.example"))
            assert 0 < later.value.wait <= MINUTE
            passed += LOOKUP_TIMEOUT / 10
        passed += 1
        outcome = await call(http, at(url, "away.example"))
        assert isinstance(outcome, Failed)
        assert "Temporary failure in name resolution" in outcome.failure.message
        error = names.errors.pop("away.example")
        assert isinstance(await call(http, at(url, "away.example")), Succeeded)
        names.errors["away.example"] = error
        passed += CACHE_SECONDS
        await http.close()  # without its kept connection
        with pytest.raises(TryLater):  # it has answered in between
            await call(http, at(url, "away.example"))


async def test_more_failing_names_than_are_remembered_are_failures(
    http: HttpExecutor, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups, "MAX_REMEMBERED", 1)
    for name in ("one.example", "two.example"):
        names.errors[name] = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    with pytest.raises(TryLater):
        await call(http, "http://one.example/")
    assert isinstance(await call(http, "http://two.example/"), Failed)
    with pytest.raises(TryLater):
        await call(http, "http://one.example/")


async def test_a_name_that_does_not_exist_is_a_failure_of_the_target(http: HttpExecutor, names: Names) -> None:
    names.errors["none.example"] = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    outcome = await call(http, "http://none.example/")
    assert isinstance(outcome, Failed)
    assert outcome.failure.message.endswith("cannot connect to none.example:80: Name or service not known")


async def test_behind_a_redirect_a_name_that_cannot_be_looked_up_is_a_failure(names: Names) -> None:
    """The target has done something already."""
    http = HttpExecutor(Lookups(0))

    async def redirect(request: web.Request) -> web.Response:
        raise web.HTTPSeeOther("http://elsewhere.example/")

    async with serving(redirect) as url:
        outcome = await call(http, url)
    await http.close()
    assert isinstance(outcome, Failed)
    assert "cannot look up the name elsewhere.example" in outcome.failure.message


async def test_a_worker_that_hands_back_one_name_goes_on_with_others(names: Names) -> None:
    names.errors["away.example"] = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    server, http = FakeDispatch(), HttpExecutor()
    worker = Worker(server, {"http": http}, SystemClock(), RegisterWorker(name="w", slots=4), rng=rng())
    await worker.start()
    try:
        server.give(assignment(1, Http(url="http://away.example/")))
        await server.until(lambda: 1 in server.ended)
        assert server.ended[1].outcome == Released(wait=LOOKUP_PAUSE, begun=False)
        assert server.ended[1].age is None
        assert worker.free == 4
    finally:
        await worker.stop()
        await http.close()
