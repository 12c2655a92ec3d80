"""HTTP jobs share a pool of connections and nothing else: no job reads or forges the answer to another (I31)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.api import Api, FakeWorker, running_api
from tests.support.builders import one_shot
from tests.support.fleet import Fleet, working
from tests.support.raw_target import RawRequest, listening, response
from timeball.domain.job.job import JobSpec
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.domain.task.task import Http
from timeball.executors.http.executor import HttpExecutor

FRAMING = (
    "Connection",
    "Content-Length",
    "Expect",
    "HTTP2-Settings",
    "Keep-Alive",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
)
SMUGGLED = b"0\r\n\r\nGET /forged HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as api:
        yield api


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    executor = HttpExecutor()
    async with working(tmp_path, executor) as fleet:
        yield fleet
    await executor.close()


def call(**headers: str) -> dict[str, Any]:
    return {"kind": "http", "url": "http://127.0.0.1:9/", "headers": headers}


async def pointer(api: Api, method: str, path: str, body: Any) -> str:
    """Where the answer says that the mistake is."""
    answer = await api(method, path, json=body)
    assert answer.status_code == 422, answer.text
    found: str = answer.json()["errors"][0]["pointer"]
    return found


async def call_one(fleet: Fleet, task: Http) -> Run:
    return await fleet.ended(await fleet.submit(JobSpec(task=task, retry=Retry(max_retries=0))))


def body_of(run: Run) -> str:
    assert run.status is Status.SUCCEEDED, run
    assert isinstance(run.result, msgspec.Raw)
    body: str = msgspec.json.decode(run.result)["body"]
    return body


async def answer_with_path(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(response(request.path.encode()))


@pytest.mark.parametrize("name", [*FRAMING, "transfer-encoding"])
async def test_a_job_with_a_header_of_the_connection_is_refused(api: Api, name: str) -> None:
    assert await pointer(api, "POST", "/v1/jobs", {"task": call(**{name: "x"})}) == f"/task/headers/{name}"


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Timeball-Run-Id": "r_1"},
        {"x-timeball-fencing-token": "9"},
        {"Host": "a.example/path"},
        {"Host": "a.example, b.example"},
        {"Host": ""},
        {"Accept": "a\x01b"},
        {"X-A": "1", "x-a": "2"},
    ],
    ids=["identity", "identity in lower case", "path", "two hosts", "no host", "control character", "twice"],
)
async def test_a_job_with_a_header_that_a_target_may_read_in_two_ways_is_refused(
    api: Api, headers: dict[str, str]
) -> None:
    assert (await pointer(api, "POST", "/v1/jobs", {"task": call(**headers)})).startswith("/task/headers/")


@pytest.mark.parametrize("host", ["a.example", "a.example:8080", "[2001:db8::1]:80", "127.0.0.1"])
async def test_a_job_may_name_the_virtual_host_that_it_calls(api: Api, host: str) -> None:
    await api.create(task=call(Host=host))


async def test_every_way_to_write_a_task_has_the_same_rule(api: Api) -> None:
    bad = call(**{"Transfer-Encoding": "chunked"})
    at = "/headers/Transfer-Encoding"
    assert await pointer(api, "PUT", "/v1/tasks/t", bad) == at
    tasks = [{"name": "a", "task": {"kind": "shell", "command": "true"}}, {"name": "b", "task": bad}]
    assert (await pointer(api, "POST", "/v1/workflows", {"name": "w", "tasks": tasks})).endswith(f"/tasks/1/task{at}")
    batch = await api("POST", "/v1/jobs:batch", json=[{"task": call()}, {"task": bad}])
    good, refused = batch.json()["items"]
    assert good["jobId"]
    assert refused["error"]["errors"][0]["pointer"] == f"/task{at}"
    job = await api.create(retry={"maxRetries": 0})
    assert await pointer(api, "PATCH", f"/v1/jobs/{job['jobId']}", {"task": bad}) == f"/task{at}"
    worker = FakeWorker(api)
    await worker.hello()
    for _ in range(2):
        await worker.fail(await worker.take())
    letters = (await api.get("/v1/dead-letters"))["items"]
    run_id = next(letter["runId"] for letter in letters if letter["jobId"] == job["jobId"])
    for action in ("retry", "replay"):
        assert await pointer(api, "POST", f"/v1/runs/{run_id}/{action}", {"edit": {"task": bad}}) == f"/edit/task{at}"


async def test_a_job_stored_before_the_rule_fails_for_good_and_sends_nothing(fleet: Fleet) -> None:
    seen: list[str] = []

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        seen.append(request.path)
        await answer_with_path(request, writer)

    async with listening(respond) as url:
        hostile = Http(
            url=f"{url}hostile",
            headers={"Transfer-Encoding": "chunked"},
            body=msgspec.Raw(msgspec.json.encode(SMUGGLED.decode())),
        )
        stored = one_shot(fleet.store.now(), task=hostile, retry=Retry(max_retries=3))
        await fleet.store.submit_and_claim([stored], ())
        run = await fleet.ended(stored.job.id)
        for name in ("one", "two", "three"):
            assert body_of(await call_one(fleet, Http(url=f"{url}{name}", method="GET"))) == f"/{name}"
    assert seen == ["/one", "/two", "/three"]
    assert (run.status, run.attempt) == (Status.FAILED, 1)
    assert run.failure is not None
    assert (run.failure.kind, "Transfer-Encoding" in run.failure.message) == ("invalid", True)


# --- a target that misbehaves ---------------------------------------------------------------------------------------

FORGED = response(b"forged")


async def extra_at_once(writer: asyncio.StreamWriter) -> None:
    writer.write(response(b"first") + FORGED)


async def extra_later(writer: asyncio.StreamWriter) -> None:
    writer.write(response(b"first"))
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.write(FORGED)


async def half_a_response_later(writer: asyncio.StreamWriter) -> None:
    writer.write(response(b"first"))
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.write(FORGED[:20])


async def garbage_later(writer: asyncio.StreamWriter) -> None:
    writer.write(response(b"first"))
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.write(b"\0\1\2")


async def informational(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 3 + response(b"first"))


async def body_of_no_content(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 204 No Content\r\n\r\n" + FORGED)


async def never_ending(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + FORGED * 3_000)


async def switched(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + FORGED)


@pytest.mark.parametrize(
    "misbehave",
    [
        extra_at_once,
        extra_later,
        half_a_response_later,
        garbage_later,
        informational,
        body_of_no_content,
        never_ending,
        switched,
    ],
    ids=lambda each: each.__name__,
)
async def test_what_a_target_sends_beside_its_answer_is_nobodys_answer(fleet: Fleet, misbehave: Any) -> None:
    sent = asyncio.Event()

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        if request.path == "/odd":
            await misbehave(writer)
            sent.set()
        else:
            await answer_with_path(request, writer)

    async with listening(respond) as url:
        await call_one(fleet, Http(url=f"{url}odd", method="GET", accepted_statuses=[101]))
        await sent.wait()  # from here on it is in the socket of the client
        for name in ("one", "two"):
            run = await call_one(fleet, Http(url=f"{url}{name}", method="GET", breaker=False))
            if run.status is Status.SUCCEEDED:
                assert body_of(run) == f"/{name}"
            else:
                assert misbehave is half_a_response_later, run


async def test_an_answer_that_comes_before_the_request_was_read_ends_its_connection(fleet: Fleet) -> None:
    """A target that refuses a large body early must not take the rest of that body for the next request."""
    serving: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        try:
            while True:
                path = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode("latin-1")
                writer.write(response(path.encode(), status="413 Too Large" if path == "/large" else "200 OK"))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    text = "GET /forged HTTP/1.1\r\nHost: x\r\n\r\n" * 20_000
    try:
        large = Http(url=f"{url}large", body=msgspec.Raw(msgspec.json.encode(text)), breaker=False)
        assert (await call_one(fleet, large)).status is not Status.SUCCEEDED
        for name in ("one", "two", "three"):
            task = Http(url=f"{url}{name}", method="GET", breaker=False)
            assert body_of(await call_one(fleet, task)) == f"/{name}"
    finally:
        server.close()
        for each in serving:
            assert each is not None
            each.cancel()
            await asyncio.wait([each])


async def test_calls_that_behave_share_a_connection(fleet: Fleet) -> None:
    connections: set[int] = set()

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        connections.add(request.connection)
        await answer_with_path(request, writer)

    async with listening(respond) as url:
        for name in ("one", "two", "three"):
            assert body_of(await call_one(fleet, Http(url=f"{url}{name}"))) == f"/{name}"
    assert connections == {1}
