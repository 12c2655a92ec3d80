"""Requests on a socket: what arrives whole goes the short way, everything else uvicorn's, and nobody can tell which."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Self, cast

import httptools
import pytest
import uvicorn
import uvloop
from starlette.types import Message

from timeball.api import app
from timeball.api.app import Endpoint, Paths
from timeball.api.express import LONGEST_REMEMBERED, MOST_BYTES, Express
from timeball.api.route import Answer, Call, Permission, Route, Services, answer_json
from timeball.api.wire import WholeAnswers
from timeball.domain.errors import TooLarge

LATE = 20.0
"""Seconds after which something will not come any more."""
LARGE = bytes(30_000_000)
"""More than fits into the buffers of two sockets."""


@dataclass
class House:
    """A server with a few routes, and what happened in it."""

    port: int = 0
    server: Any = None
    paths: Any = None
    seen: list[str] = field(default_factory=list)
    cut_off: list[str] = field(default_factory=list)
    visitors: list[asyncio.StreamWriter] = field(default_factory=list)
    loop: Any = None
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def echo(self, call: Call) -> Answer:
        self.seen.append(call.raw.decode())
        told = {
            "method": call.request.method,
            "path": call.request.path,
            "parameters": dict(call.path),
            "query": call.request.query.decode(),
            "body": call.raw.decode(),
            "short": call.request.body is not None,
        }
        return answer_json(told, headers=[(b"etag", b'"1"')])

    async def slow(self, call: Call) -> Answer:
        self.seen.append("slow")
        await self.goes_on.wait()
        return answer_json({"body": call.raw.decode()})

    async def poll(self, call: Call) -> Answer:
        self.seen.append("poll")
        message: Message = await call.request.receive()
        self.cut_off.append(message["type"])
        return Answer(status=204)

    async def lines(self, call: Call) -> Answer:
        async def body() -> AsyncIterator[bytes]:
            yield b"one\n"
            yield b"two\n"

        return Answer(body())

    async def nothing(self, call: Call) -> Answer:
        return Answer(status=204)

    async def large(self, call: Call) -> Answer:
        return Answer(LARGE)

    async def refuse(self, call: Call) -> Answer:
        raise TooLarge("too much of it")

    def routes(self) -> Iterable[Route]:
        def route(method: str, path: str, handle: Any, **more: Any) -> Route:
            return Route(method=method, path=path, permission=Permission.PUBLIC, summary="", handle=handle, **more)

        yield route("GET", "/echo", self.echo)
        yield route("POST", "/echo", self.echo, body=Any, reads_raw=True)
        yield route("GET", "/echo/{name}", self.echo)
        yield route("POST", "/slow", self.slow, body=Any, reads_raw=True)
        yield route("POST", "/poll", self.poll, body=Any, reads_raw=True, lasts=True)
        yield route("GET", "/lines", self.lines, lasts=True)
        yield route("DELETE", "/nothing", self.nothing)
        yield route("GET", "/large", self.large)
        yield route("GET", "/refuse", self.refuse)

    def let_go(self) -> None:
        """Whoever is slow."""
        self.loop.call_soon_threadsafe(self.goes_on.set)

    @property
    def state(self) -> Any:
        return self.server.server_state

    def kinds(self) -> set[type]:
        """Of protocols that have a connection."""
        return {type(connection) for connection in list(self.state.connections)}


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Any:
        yield


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[House]:
    house = House()
    by_path: dict[str, list[Route]] = {}
    for route in house.routes():
        by_path.setdefault(route.path, []).append(route)
    nobody: Any = None
    services = cast(Services, SimpleNamespace(stopping=lambda: house.server.should_exit))
    endpoints = {path: Endpoint(routes, services, nobody) for path, routes in by_path.items()}
    paths = Paths(endpoints, Endpoint([], services, nobody))
    config = uvicorn.Config(
        paths,
        log_config=None,
        access_log=False,
        lifespan="off",
        http=Express,
        ws="none",
        proxy_headers=False,
        server_header=False,
        **settings,
    )
    house.server = _Server(config)
    house.paths = paths

    async def serve(listener: socket.socket) -> None:
        house.loop = asyncio.get_running_loop()
        await house.server.serve([listener])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        house.port = listener.getsockname()[1]
        # Servers use uvloop, whose transports are not quite like asyncio's.
        thread = threading.Thread(target=lambda: uvloop.run(serve(listener)))
        thread.start()
        await until(lambda: house.server.started)
        try:
            yield house
        finally:
            for visitor in house.visitors:
                visitor.close()
            with suppress(RuntimeError):  # it may have gone already
                house.let_go()
            house.server.should_exit = True
            await asyncio.to_thread(thread.join, LATE)
            assert not thread.is_alive()


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with serving() as running:
        yield running


class Answered:
    """One answer as it was on the wire."""

    def __init__(self, *, to_head: bool = False) -> None:
        self.headers: dict[str, str] = {}
        self.body = b""
        self.complete = to_head
        self._parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        assert name.decode() not in self.headers
        self.headers[name.decode()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete = True

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    @property
    def status(self) -> int:
        return int(self._parser.get_status_code())

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def of(cls, house: House) -> Self:
        reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
        house.visitors.append(writer)
        return cls(reader, writer)

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, *, to_head: bool = False) -> Answered:
        answered = Answered()
        head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), LATE)
        answered.feed(head)
        if to_head or answered.status == 204:
            return answered
        while not answered.complete:
            chunked = "transfer-encoding" in answered.headers
            left = 1 if chunked else int(answered.headers["content-length"]) - len(answered.body)
            answered.feed(await asyncio.wait_for(self._reader.readexactly(left), LATE))
        return answered

    async def ask(self, data: bytes) -> Answered:
        await self.send(data)
        return await self.answer()

    async def rest(self) -> bytes:
        """Until the server closes."""
        return await asyncio.wait_for(self._reader.read(), LATE)

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()


@pytest.fixture
async def client(house: House) -> Client:
    return await Client.of(house)


def post(body: bytes, path: str = "/echo", *headers: str, version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *headers]).encode() + b"\r\n\r\n"


async def until(condition: Any) -> None:
    async with asyncio.timeout(LATE):
        while not condition():
            await asyncio.sleep(0.001)


# --- the short way ----------------------------------------------------------------------------------------------------


async def test_whole_requests_take_the_short_way_one_after_the_other(house: House, client: Client) -> None:
    for body in (b"one", b"two", b""):
        answer = await client.ask(post(body))
        assert (answer.status, answer.json()["body"], answer.json()["short"]) == (200, body.decode(), True)
    assert (await client.ask(get("/echo/x%20y?a=b&c"))).json() == {
        "method": "GET",
        "path": "/echo/x y",
        "parameters": {"name": "x y"},
        "query": "a=b&c",
        "body": "",
        "short": True,
    }
    assert house.kinds() == {Express}
    assert house.state.total_requests == 4
    await until(lambda: not house.state.tasks)


async def test_an_answer_is_the_same_either_way(client: Client) -> None:
    short = await client.ask(post(b"hello"))
    long = await client.ask(b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    assert short.json() == {**long.json(), "short": True}
    assert not long.json()["short"]
    assert {**short.headers, "date": ""} == {**long.headers, "date": "", "content-length": str(len(short.body))}
    assert short.headers["date"].endswith("GMT")


async def test_an_answer_may_have_no_body(client: Client) -> None:
    answer = await client.ask(get("/nothing", method="DELETE"))
    assert answer.status == 204
    assert not {"content-length", "content-type", "transfer-encoding"} & {*answer.headers}
    assert (await client.ask(post(b"next"))).json()["body"] == "next"


async def test_what_is_not_there_or_not_allowed_is_said(house: House, client: Client) -> None:
    missing = await client.ask(get("/elsewhere"))
    assert (missing.status, missing.headers["content-type"]) == (404, "application/problem+json")
    refused = await client.ask(get("/echo", method="PUT"))
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")
    packed = await client.ask(post(b"x", "/echo", "Content-Encoding: gzip"))
    assert packed.status == 415
    assert house.kinds() == {Express}


async def test_after_some_problems_the_connection_closes(client: Client) -> None:
    answer = await client.ask(get("/refuse"))
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert await client.rest() == b""


async def test_a_connection_without_questions_is_closed() -> None:
    async with serving(timeout_keep_alive=0.2) as house:
        client = await Client.of(house)
        for _ in range(3):  # the time counts from the last answer
            assert (await client.ask(post(b"x"))).status == 200
            await asyncio.sleep(0.05)
        assert await client.rest() == b""
        await until(lambda: not house.state.connections)


async def test_a_connection_with_an_answer_under_way_is_not_idle() -> None:
    async with serving(timeout_keep_alive=0.1) as house:
        client = await Client.of(house)
        await client.ask(post(b"x"))
        await client.send(post(b"late", "/slow"))
        await asyncio.sleep(0.5)
        house.let_go()
        assert (await client.answer()).json() == {"body": "late"}
        assert await client.rest() == b""


async def test_who_goes_away_leaves_nothing_behind(house: House) -> None:
    client = await Client.of(house)
    await client.send(post(b"x", "/slow"))
    await until(lambda: house.seen)
    client.abort()
    await until(lambda: not house.state.connections)
    house.let_go()
    await until(lambda: not house.state.tasks)


async def test_who_does_not_take_its_answers_is_not_heard(house: House, client: Client) -> None:
    await client.send(get("/large"))
    await until(lambda: house.state.total_requests == 1)
    await client.send(post(b"next"))
    await asyncio.sleep(0.1)
    assert house.seen == []
    assert (await client.answer()).body == LARGE
    assert (await client.answer()).json()["body"] == "next"


# --- heads that came before -------------------------------------------------------------------------------------------


async def test_a_head_that_came_before_brings_another_body(house: House) -> None:
    one, other = await Client.of(house), await Client.of(house)
    for client, body in ((one, b"first"), (one, b"again"), (other, b"third")):
        answer = await client.ask(post(body))
        assert (answer.json()["body"], answer.json()["short"]) == (body.decode(), True)
    assert len(house.paths.asked) == 1
    assert (await one.ask(post(b"four"))).json()["body"] == "four"
    assert len(house.paths.asked) == 2  # its length is part of a head


@pytest.mark.parametrize("at", [10, -3])
async def test_a_known_head_with_less_than_its_body_waits_for_it(house: House, client: Client, at: int) -> None:
    await client.ask(post(b"whole"))
    await client.send(post(b"piece")[:at])
    await asyncio.sleep(0.02)
    assert (await client.ask(post(b"piece")[at:])).json()["body"] == "piece"
    assert house.seen == ["whole", "piece"]


async def test_a_known_head_with_more_than_its_body_is_two_requests(house: House, client: Client) -> None:
    await client.ask(post(b"first"))
    await client.send(post(b"other") + post(b"third"))
    assert [(await client.answer()).json()["body"] for _ in range(2)] == ["other", "third"]
    assert house.seen == ["first", "other", "third"]


@pytest.mark.parametrize(
    "request_",
    [
        b"\r\n\r\n" + post(b"late"),
        b"POST /echo HTTP/1.1\r\nIdempotency-Key: once\r\nContent-Length: 4\r\n\r\nlate",
        post(b"late", "/echo", f"X-Padding: {'x' * LONGEST_REMEMBERED}"),
    ],
    ids=["lines before it", "said once", "long"],
)
async def test_heads_that_are_not_worth_it_are_not_remembered(house: House, client: Client, request_: bytes) -> None:
    for _ in range(2):
        answer = await client.ask(request_)
        assert (answer.json()["body"], answer.json()["short"]) == ("late", True)
    assert house.paths.asked == {}


async def test_the_oldest_heads_are_forgotten(house: House, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MOST_REMEMBERED", 2)
    for name in ("a", "b", "c", "b"):
        assert (await client.ask(get(f"/echo/{name}"))).json()["parameters"] == {"name": name}
    assert [asked.request.path for asked in house.paths.asked.values()] == ["/echo/b", "/echo/c"]


# --- and when it ends -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "together", [True, False], ids=["in one piece", "in pieces, the second while the first is answered"]
)
async def test_pipelined_requests_are_answered_in_order(house: House, client: Client, together: bool) -> None:
    requests = [post(b"first", "/slow"), post(b"second"), get("/echo/third"), post(b"fourth")]
    if together:
        await client.send(b"".join(requests))
    else:
        await client.send(requests[0])
        await until(lambda: house.seen)
        for request in requests[1:]:
            await client.send(request)
            await asyncio.sleep(0.01)
    await until(lambda: house.seen)
    assert house.seen == ["slow"]
    house.let_go()
    answers = [await client.answer() for _ in requests]
    assert [answer.json().get("parameters", {}).get("name") or answer.json()["body"] for answer in answers] == [
        "first",
        "second",
        "third",
        "fourth",
    ]
    assert (await client.ask(post(b"fifth"))).json()["body"] == "fifth"
    assert house.kinds() == {WholeAnswers}


@pytest.mark.parametrize("at", [1, 10, 45, -3, -1])
async def test_a_request_that_comes_slowly_is_answered_too(house: House, client: Client, at: int) -> None:
    assert (await client.ask(post(b"before"))).json()["short"]
    request = post(b"slow body")
    await client.send(request[:at])
    await asyncio.sleep(0.02)
    answer = await client.ask(request[at:])
    assert (answer.json()["body"], answer.json()["short"]) == ("slow body", False)
    assert (await client.ask(post(b"after"))).json()["body"] == "after"


@pytest.mark.parametrize("at", [1, 10, 45, -3])
async def test_half_a_request_is_none(house: House, at: int) -> None:
    client = await Client.of(house)
    await client.send(post(b"never")[:at])
    await until(lambda: WholeAnswers in house.kinds())
    client.close()
    await until(lambda: not house.state.connections and not house.state.tasks)
    assert house.seen == []


async def test_large_bodies_arrive(client: Client) -> None:
    body = b"x" * (3 * MOST_BYTES)
    assert (await client.ask(post(body))).json()["body"] == body.decode()


async def test_bodies_that_are_too_large_are_refused(house: House, client: Client) -> None:
    answer = await client.ask(post(b"", "/echo").replace(b"Length: 0", b"Length: 999999999"))
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert await client.rest() == b""
    assert house.seen == []


async def test_a_body_in_chunks_arrives(client: Client) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert (await client.ask(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")).json()["body"] == "abcde"
    assert (await client.ask(post(b"after"))).json()["body"] == "after"


async def test_who_expects_to_be_asked_for_the_body_is_asked(client: Client) -> None:
    request = post(b"expected", "/echo", "Expect: 100-continue")
    head, _, body = request.partition(b"\r\n\r\n")
    await client.send(head + b"\r\n\r\n")
    assert (await client.answer(to_head=True)).status == 100
    assert (await client.ask(body)).json()["body"] == "expected"


async def test_the_last_request_of_a_connection_is_answered(house: House, client: Client) -> None:
    assert (await client.ask(post(b"x"))).status == 200
    answer = await client.ask(post(b"last", "/echo", "Connection: close"))
    assert (answer.json()["body"], answer.headers["connection"]) == ("last", "close")
    assert await client.rest() == b""


@pytest.mark.parametrize("headers", [(), ("Connection: keep-alive",)])
async def test_http_1_0_gets_one_answer(client: Client, headers: tuple[str, ...]) -> None:
    answer = await client.ask(post(b"old", "/echo", *headers, version="1.0"))
    assert (answer.json()["body"], answer.headers["connection"]) == ("old", "close")
    assert await client.rest() == b""


async def test_head_is_answered_without_a_body(client: Client) -> None:
    await client.send(get("/echo", method="HEAD"))
    answer = await client.answer(to_head=True)
    assert (answer.status, int(answer.headers["content-length"]) > 0) == (200, True)
    assert (await client.ask(post(b"next"))).json()["body"] == "next"


async def test_upgrades_are_not_made(client: Client) -> None:
    answer = await client.ask(get("/echo", "Connection: Upgrade", "Upgrade: websocket"))
    assert (answer.status, answer.json()["short"]) == (200, False)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x00\x01\r\n\r\n",
        b"GET /echo HTTP/9.7\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
        b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /\xc3\xbc HTTP/1.1\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nbad header\r\n\r\n",
    ],
)
async def test_bytes_that_are_no_request_are_refused(house: House, client: Client, nonsense: bytes) -> None:
    assert (await client.ask(post(b"x"))).status == 200
    answer = await client.ask(nonsense)
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    assert await client.rest() == b""
    assert house.seen == ["x"]


async def test_other_ways_to_write_an_address(client: Client) -> None:
    for address in ("http://x/echo/1", "/echo/1#part"):
        assert (await client.ask(get(address))).json()["path"] == "/echo/1"


async def test_answers_that_come_bit_by_bit(client: Client) -> None:
    answer = await client.ask(get("/lines"))
    assert (answer.body, answer.headers["transfer-encoding"]) == (b"one\ntwo\n", "chunked")


async def test_who_answers_late_knows_when_nobody_waits_any_more(house: House) -> None:
    client = await Client.of(house)
    await client.ask(post(b"x"))
    await client.send(post(b"", "/poll"))
    await until(lambda: "poll" in house.seen)
    client.abort()
    await until(lambda: house.cut_off == ["http.disconnect"])


# --- the server goes --------------------------------------------------------------------------------------------------


async def test_the_server_goes_after_the_answer_that_is_under_way() -> None:
    async with serving() as house:
        idle, busy = await Client.of(house), await Client.of(house)
        await idle.ask(post(b"x"))
        await busy.send(post(b"last", "/slow"))
        await until(lambda: "slow" in house.seen)
        house.server.should_exit = True
        assert await idle.rest() == b""
        house.let_go()
        answer = await busy.answer()
        assert (answer.json(), answer.headers["connection"]) == ({"body": "last"}, "close")
        assert await busy.rest() == b""


async def test_the_server_does_not_wait_for_ever() -> None:
    async with serving(timeout_graceful_shutdown=1) as house:
        client = await Client.of(house)
        await client.send(post(b"late", "/slow"))
        await until(lambda: house.seen)
        house.server.should_exit = True
        assert await client.rest() == b""
        assert not house.state.tasks
