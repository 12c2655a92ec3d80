"""HTTP jobs against a real server on this machine."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.support.http_target import serving
from tests.support.raw_target import RawRequest, listening
from tests.unit.executing import RecordedAttempt
from timeball.domain.instant import DAY, SECOND
from timeball.domain.run.lifecycle import Failed, Failure, Outcome, Succeeded
from timeball.domain.task.task import Http
from timeball.executors.http.executor import HttpExecutor
from timeball.executors.http.response import retry_after


@pytest.fixture
async def http() -> AsyncIterator[HttpExecutor]:
    executor = HttpExecutor()
    yield executor
    await executor.close()


def result(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome, Succeeded), outcome
    assert isinstance(outcome.result, msgspec.Raw)
    decoded: dict[str, Any] = msgspec.json.decode(outcome.result)
    return decoded


def failure(outcome: Outcome) -> Failure:
    assert isinstance(outcome, Failed), outcome
    return outcome.failure


async def echo(request: web.Request) -> web.Response:
    return web.json_response(
        {
            "method": request.method,
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "body": (await request.read()).decode(),
        }
    )


async def test_a_call_says_which_attempt_it_is(http: HttpExecutor) -> None:
    async with serving(echo) as url:
        attempt = RecordedAttempt(Http(url=url, headers={"X-Mine": "1"}), days=3)
        answer = result(await http.execute(attempt))
    heard = answer["body"]
    assert (answer["status"], heard["method"], heard["body"]) == (200, "POST", '{"days":3}')
    headers = heard["headers"]
    assert headers["idempotency-key"] == headers["x-timeball-run-id"] == attempt.run_id
    assert (headers["x-timeball-attempt"], headers["x-timeball-fencing-token"]) == ("2", "17")
    assert (headers["content-type"], headers["x-mine"]) == ("application/json", "1")
    assert headers["traceparent"].startswith("00-")


@pytest.mark.parametrize(
    ("task", "body", "content_type"),
    [
        ({"body": '"as it is"'}, "as it is", "text/plain; charset=utf-8"),
        ({"body": '{"a": [1]}'}, '{"a": [1]}', "application/json"),
        ({"body": "7", "headers": {"content-TYPE": "application/x"}}, "7", "application/x"),
        ({"method": "GET"}, "", None),
        ({"method": "PUT"}, '{"days":3}', "application/json"),
    ],
)
async def test_bodies(http: HttpExecutor, task: dict[str, Any], body: str, content_type: str | None) -> None:
    if "body" in task:
        task = {**task, "body": msgspec.Raw(task["body"].encode())}
    async with serving(echo) as url:
        heard = result(await http.execute(RecordedAttempt(Http(url=url, **task), days=3)))["body"]
    assert heard["body"] == body
    assert heard["headers"].get("content-type") == content_type


async def test_requests_are_prepared_by_task_and_parameters(http: HttpExecutor) -> None:
    task, other = (Http(url="http://127.0.0.1:1/", headers={"X-Mine": value}) for value in "ab")
    attempts = [RecordedAttempt(task, days=3), RecordedAttempt(task, days=4), RecordedAttempt(other, days=4)]
    seen = [http._request(attempt) for attempt in attempts for _ in range(2)]
    assert [each.body for each in seen] == [b'{"days":3}'] * 2 + [b'{"days":4}'] * 4
    assert [b"X-Mine: b" in each.head for each in seen] == [False] * 4 + [True] * 2
    assert seen[0] is seen[1]
    assert seen[4] is seen[5]


class Text(str):
    """A text that can be observed."""


async def test_large_parameters_and_headers_of_a_job_are_not_kept_after_its_call(http: HttpExecutor) -> None:
    """I28: hundreds of them would fill the memory of the worker."""
    for what in ("parameter", "header"):
        large = Text("x" * 8_000)
        headers = {"X-Large": large} if what == "header" else {}
        attempt = RecordedAttempt(Http(url="http://127.0.0.1:1/", method="GET", headers=headers))
        if what == "parameter":
            attempt.spec.parameters["large"] = large
        seen = weakref.ref(large)
        assert failure(await http.execute(attempt)).kind == "http"
        del attempt, large, headers
        gc.collect()
        assert seen() is None, what


async def test_statuses_decide(http: HttpExecutor) -> None:
    async def handler(request: web.Request) -> web.Response:
        status = int(request.path.strip("/"))
        return web.Response(status=status, text="what  \n happened", headers={"Retry-After": "120"})

    async with serving(handler) as url:
        assert result(await http.execute(RecordedAttempt(Http(url=f"{url}204"))))["status"] == 204
        assert result(await http.execute(RecordedAttempt(Http(url=f"{url}404", accepted_statuses=[404]))))
        ended = failure(await http.execute(RecordedAttempt(Http(url=f"{url}404?secret=1"))))
        assert (ended.kind, ended.status, ended.retry_after) == ("http", 404, None)
        assert ended.message == f"POST {url}404: 404 Not Found: what happened"
        for status in (429, 503):
            ended = failure(await http.execute(RecordedAttempt(Http(url=f"{url}{status}"))))
            assert ended.retry_after == 120 * SECOND


def test_retry_after_needs_no_clock() -> None:
    date = {"Date": "Thu, 01 Jan 2026 00:00:00 GMT"}
    assert retry_after({"Retry-After": "Thu, 01 Jan 2026 00:01:30 GMT", **date}) == 90 * SECOND
    assert retry_after({"Retry-After": "Wed, 31 Dec 2025 00:00:00 GMT", **date}) == 0
    assert retry_after({"Retry-After": "9" * 50}) == DAY
    assert retry_after({"Retry-After": "Thu, 01 Jan 2026 00:01:30 GMT"}) is None
    assert retry_after({"Retry-After": "soon", **date}) is None
    assert retry_after({}) is None


async def test_a_large_answer_is_cut(http: HttpExecutor) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_type = "application/json"
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65_536)
        except ConnectionError:
            return response

    async with serving(handler) as url:
        answer = result(await http.execute(RecordedAttempt(Http(url=url))))
    assert (len(answer["body"]), answer["truncated"]) == (65_536, True)


async def test_redirects_are_followed_within_bounds(http: HttpExecutor) -> None:
    async def handler(request: web.Request) -> web.Response:
        targets = {"/once": "/end", "/loop": "/loop", "/away": "file:///etc/passwd"}
        if request.path in targets:
            raise web.HTTPFound(targets[request.path])
        return web.Response(text="end")

    async with serving(handler) as url:
        assert result(await http.execute(RecordedAttempt(Http(url=f"{url}once"))))["body"] == "end"
        for path in ("loop", "away"):
            assert failure(await http.execute(RecordedAttempt(Http(url=f"{url}{path}")))).kind == "http"
        kept = Http(url=f"{url}once", accepted_statuses=[302])
        assert result(await http.execute(RecordedAttempt(kept)))["headers"]["Location"] == "/end"


async def test_cookies_of_one_job_do_not_reach_another(http: HttpExecutor) -> None:
    seen: list[str | None] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Cookie"))
        return web.Response(headers={"Set-Cookie": "a=b"})

    async with serving(handler) as url:
        for _ in range(2):
            result(await http.execute(RecordedAttempt(Http(url=url))))
    assert seen == [None, None]


async def test_nobody_there(http: HttpExecutor) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ended = failure(await http.execute(RecordedAttempt(Http(url=f"http://127.0.0.1:{port}/"))))
    assert (ended.kind, ended.status) == ("http", None)
    where = f"127.0.0.1:{port}"
    assert ended.message == f"POST http://{where}/: cannot connect to {where}: Connection refused"


async def test_an_interrupted_call_hangs_up(http: HttpExecutor) -> None:
    arrived, left = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        arrived.set()
        while True:
            if request.transport is None or request.transport.is_closing():
                break
            await asyncio.sleep(0.01)
        left.set()
        return web.Response()

    async with serving(handler) as url:
        executing = asyncio.create_task(http.execute(RecordedAttempt(Http(url=url))))
        await arrived.wait()
        executing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await executing
        await left.wait()


@pytest.mark.parametrize("depth", [200, 20_000])
async def test_an_answer_nested_too_deep_is_kept_as_text(http: HttpExecutor, depth: int) -> None:
    text = "[" * depth + "]" * depth

    async def handler(request: web.Request) -> web.Response:
        return web.Response(text=text, content_type="application/json")

    async with serving(handler) as url:
        outcome = await http.execute(RecordedAttempt(Http(url=url)))
    assert result(outcome)["body"] == text


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "POST"])
async def test_an_attempt_sends_its_request_once_also_on_a_connection_that_breaks(
    http: HttpExecutor, method: str
) -> None:
    """The target may have done its work before the connection broke: I12, and nothing of it counts as not begun."""
    seen: list[tuple[int, str]] = []

    async def break_the_second(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        seen.append((request.connection, request.method))
        if len(seen) == 2:
            writer.close()
        else:
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with listening(break_the_second) as url:
        attempt = RecordedAttempt(Http(url=url, method=method))
        result(await http.execute(attempt))
        assert failure(await http.execute(attempt)).kind == "http"
        assert seen == [(1, method), (1, method)]
        result(await http.execute(attempt))
