"""The calls of a worker over HTTP: failover, lost sessions, refused keys."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web
from msgspec import structs

from tests.support.fake_worker_protocol import python
from timeball.domain.errors import Forbidden, Invalid, Unauthorized, Unavailable
from timeball.domain.instant import SECOND
from timeball.ports.worker_protocol import (
    Beat,
    Poll,
    PollResponse,
    RegisterWorker,
    Report,
    SessionLost,
    WorkerRegistered,
)
from timeball.worker.transport.http_worker_protocol import HttpWorkerProtocol

Handler = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/v1/worker/{call}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    await web.SockSite(runner, listener).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await runner.cleanup()


def unused_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def problem(status: int, code: str) -> web.Response:
    body = msgspec.json.encode({"title": "No", "detail": "because", "code": code, "status": status})
    return web.Response(status=status, body=body, content_type="application/problem+json")


POLL = Poll(session="w_1", seq=1, free=1, held=[], wait=SECOND)
BEAT = Beat(session="w_1", held=[1, 2])


async def test_messages_arrive_as_they_were_sent_with_the_key() -> None:
    heard: list[tuple[str, str, object]] = []

    async def handler(request: web.Request) -> web.Response:
        call = request.match_info["call"]
        heard.append((call, request.headers["Authorization"], msgspec.json.decode(await request.read())))
        answers: dict[str, object] = {
            "hello": WorkerRegistered(session="w_1", lease=15 * SECOND, beat_every=5 * SECOND),
            "poll": PollResponse(assignments=[python(7, "f", delay=3)], cancel=[1], kill=[5], lost=[2]),
            "beat": PollResponse(cancel=[3], kill=[6]),
            "report": {"stale": [4]},
        }
        return web.Response(status=204) if call == "goodbye" else web.Response(body=msgspec.json.encode(answers[call]))

    async with serving(handler) as url, HttpWorkerProtocol([f"{url}/"], "key") as dispatch:
        assert (await dispatch.hello(RegisterWorker(name="w", slots=3))).session == "w_1"
        orders = await dispatch.poll(POLL)
        assert (orders.assignments[0].token, orders.assignments[0].delay) == (7, 3)
        assert (orders.cancel, orders.kill, orders.lost) == ([1], [5], [2])
        assert msgspec.json.decode(orders.assignments[0].spec)["task"]["function"] == "f"
        assert await dispatch.beat(BEAT) == PollResponse(cancel=[3], kill=[6])
        assert (await dispatch.report(Report(session="w_1", poll_seq=1, free=1))).stale == [4]
        await dispatch.goodbye("w_1")
    assert [call for call, _, _ in heard] == ["hello", "poll", "beat", "report", "goodbye"]
    assert {key for _, key, _ in heard} == {"Bearer key"}
    assert heard[2][2] == {"session": "w_1", "held": [1, 2]}


async def test_the_next_server_is_asked_when_one_is_away() -> None:
    calls: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        calls.append(request.match_info["call"])
        return web.Response(body=b"{}")

    async with serving(handler) as url, HttpWorkerProtocol([unused_address(), url], None) as dispatch:
        await dispatch.beat(BEAT)
        await dispatch.poll(POLL)
        assert calls == ["beat", "poll"]
    async with serving(handler) as url, HttpWorkerProtocol([unused_address(), url], None) as dispatch:
        with pytest.raises(Unavailable):
            await dispatch.poll(POLL)
        await dispatch.poll(POLL)
        assert calls == ["beat", "poll", "poll"], "a poll is not repeated by itself, but the next goes elsewhere"


async def test_a_worker_logs_to_which_server_it_moved(caplog: pytest.LogCaptureFixture) -> None:
    away: set[str] = set()

    async def handler(request: web.Request) -> web.Response:
        if str(request.url.origin()) in away:
            return problem(503, "unavailable")
        return web.Response(body=msgspec.json.encode(PollResponse()))

    async with (
        serving(handler) as one,
        serving(handler) as two,
        HttpWorkerProtocol([one, two], None) as dispatch,
    ):
        await dispatch.beat(BEAT)
        assert caplog.messages == []
        away.add(one)
        await dispatch.beat(BEAT)
        await dispatch.beat(BEAT)
        assert caplog.messages == [f"the worker now uses the server {two}; before: {one}"]
        away.symmetric_difference_update({one, two})
        await dispatch.beat(BEAT)
        assert caplog.messages[1:] == [f"the worker now uses the server {one}, its first server, again; before: {two}"]


async def test_a_worker_begins_at_home_and_goes_back_there_with_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timeball.worker.transport.http_worker_protocol.HOME_AGAIN", 0.0)
    calls: list[tuple[str, str]] = []
    away: set[str] = set()

    async def handler(request: web.Request) -> web.Response:
        if request.host in away:
            return problem(503, "unavailable")
        calls.append((request.match_info["call"], request.host))
        return web.Response(body=b"{}")

    async with (
        serving(handler) as one,
        serving(handler) as two,
        HttpWorkerProtocol([one, two], None, home=1) as dispatch,
    ):
        first, second = (url.removeprefix("http://") for url in (one, two))
        await dispatch.poll(POLL)
        away.add(second)
        await dispatch.beat(BEAT)
        await dispatch.poll(POLL)
        await dispatch.beat(BEAT)
        assert calls == [("poll", second), ("beat", first), ("poll", first), ("beat", first)]
        calls.clear()
        away.clear()
        await dispatch.beat(BEAT)
        await dispatch.goodbye("w_1")
        await dispatch.poll(POLL)
        await dispatch.goodbye("w_1")
        assert calls == [("beat", second), ("goodbye", first), ("poll", second), ("goodbye", second)]


async def test_a_poll_does_not_hang_on_at_a_server_that_answers_nobody() -> None:
    """Its connection may be half-open: runs that were claimed for its answer come back only with the next poll."""
    hangs, over = asyncio.Event(), asyncio.Event()

    async def mute(request: web.Request) -> web.Response:
        if request.match_info["call"] == "poll":
            hangs.set()
            await over.wait()
        return problem(503, "unavailable")

    async def well(request: web.Request) -> web.Response:
        return web.Response(body=b"{}")

    async with serving(mute) as one, serving(well) as two, HttpWorkerProtocol([one, two], None) as dispatch:
        polling = asyncio.create_task(dispatch.poll(structs.replace(POLL, wait=60 * SECOND)))
        await hangs.wait()
        await dispatch.beat(BEAT)
        with pytest.raises(Unavailable):
            await asyncio.wait_for(polling, 60)
        assert await dispatch.poll(POLL) == PollResponse()
        over.set()


async def test_unavailable_only_after_every_server_was_tried() -> None:
    calls: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        calls.append(request.host)
        return problem(503, "unavailable") if len(calls) == 1 else web.Response(status=500, text="oops")

    async with serving(handler) as one, serving(handler) as two, HttpWorkerProtocol([one, two], None) as dispatch:
        with pytest.raises(Unavailable):
            await dispatch.beat(BEAT)
    assert len(calls) == len(set(calls)) == 2


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (409, "session_lost", SessionLost),
        (401, "unauthorized", Unauthorized),
        (403, "forbidden", Forbidden),
        (422, "invalid", Invalid),
    ],
)
async def test_refusals_are_not_asked_elsewhere(status: int, code: str, error: type[Exception]) -> None:
    calls: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        calls.append(request.host)
        return problem(status, code)

    async with serving(handler) as one, serving(handler) as two, HttpWorkerProtocol([one, two], "key") as dispatch:
        with pytest.raises(error):
            await dispatch.beat(BEAT)
    assert len(calls) == 1


async def test_an_answer_that_is_not_ours_counts_as_unavailable() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text="<html>a proxy's welcome page</html>")

    async with serving(handler) as url, HttpWorkerProtocol([url], None) as dispatch:
        with pytest.raises(Unavailable, match="no valid answer from"):
            await dispatch.beat(BEAT)
