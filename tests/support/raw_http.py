"""A server with a few routes on a loopback port, and clients that send and receive bytes directly."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, Self, cast

import httptools
import uvicorn
import uvloop

from timeball.api.app import Paths
from timeball.api.asgi import Application, Message
from timeball.api.endpoint import Endpoint
from timeball.api.http.connection_limits import ConnectionLimits
from timeball.api.http.fast_protocol import FastProtocol
from timeball.api.http.http_server import HttpServer
from timeball.api.routing import Answer, Call, Route, Services, answer_json
from timeball.domain.errors import TooLarge, Unauthorized
from timeball.domain.identity.caller import Caller
from timeball.domain.identity.permission import Permission
from timeball.operation.known_limits import KnownLimits
from timeball.operation.tenants.request_rates import RequestRates
from timeball.system import SystemClock

LATE = 60.0
"""Seconds after which an expected event counts as missing."""
LARGE = bytes(30_000_000)
"""A body that does not fit into the buffers of two sockets."""


@dataclass
class House:
    """A server with a few routes, and a record of what happened in it."""

    port: int = 0
    server: Any = None
    paths: Any = None
    seen: list[str] = field(default_factory=list)
    cut_off: list[str] = field(default_factory=list)
    visitors: list[asyncio.StreamWriter] = field(default_factory=list)
    loop: Any = None
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    limits: KnownLimits = field(default_factory=KnownLimits)

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

    async def hang(self, call: Call) -> Answer:
        self.seen.append("hanging")
        await self.goes_on.wait()
        return answer_json({})

    async def lines(self, call: Call) -> Answer:
        async def body() -> AsyncIterator[bytes]:
            yield b"one\n"
            yield b"two\n"

        return Answer(body())

    async def endless(self, call: Call) -> Answer:
        async def body() -> AsyncIterator[bytes]:
            yield b"one\n"
            await self.goes_on.wait()

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
        yield route("GET", "/endless", self.endless, lasts=True)
        yield route("DELETE", "/nothing", self.nothing)
        yield route("GET", "/large", self.large)
        yield route("GET", "/refuse", self.refuse)
        yield route("GET", "/broken", lambda call: self.echo(call))
        yield Route(
            method="POST",
            path="/hanging",
            permission=Permission.WORKER,
            summary="",
            handle=self.hang,
            body=Any,
            reads_raw=True,
            lasts=True,
        )
        yield Route(method="GET", path="/mine", permission=Permission.READ, summary="", handle=self.echo)
        yield Route(
            method="POST",
            path="/mine",
            permission=Permission.EDIT,
            summary="",
            handle=self.echo,
            body=Any,
            reads_raw=True,
        )

    def let_go(self) -> None:
        """Let the slow routes continue."""
        self.loop.call_soon_threadsafe(self.goes_on.set)

    @property
    def state(self) -> Any:
        return self.server.server_state

    def kinds(self) -> set[type]:
        """The classes of the protocols that have a connection."""
        return {type(connection) for connection in list(self.state.connections)}


async def authenticate(authorization: bytes | None, permission: Permission) -> Caller:
    if authorization != b"Bearer key":
        raise Unauthorized("this needs a key")
    return Caller(tenant="default", role="system", kind="key", credential_id="k", key_id="k", name="k")


@asynccontextmanager
async def serving(*, limits: dict[str, Any] | None = None, **settings: Any) -> AsyncIterator[House]:
    house = House()
    by_path: dict[str, list[Route]] = {}
    for route in house.routes():
        by_path.setdefault(route.path, []).append(route)
    authenticator: Any = authenticate
    context = SimpleNamespace(rng=Random(1), limits=house.limits)
    rates = RequestRates(house.limits, SystemClock())
    stopping = {"stopping": lambda: house.server.should_exit}
    services = cast(Services, SimpleNamespace(**stopping, context=context, rates=rates))
    endpoints = {path: Endpoint(routes, services, authenticator) for path, routes in by_path.items()}
    paths = Paths(endpoints, Endpoint([], services, authenticator))
    config = uvicorn.Config(
        paths,
        log_config=None,
        access_log=False,
        lifespan="off",
        http=FastProtocol,
        ws="none",
        proxy_headers=False,
        server_header=False,
        **settings,
    )
    house.server = HttpServer(config, ConnectionLimits(**(limits or {})))
    house.paths = paths

    async def serve(listener: socket.socket) -> None:
        house.loop = asyncio.get_running_loop()
        await house.server.serve([listener])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        house.port = listener.getsockname()[1]
        # Servers use uvloop, whose transports differ in details from those of asyncio.
        thread = threading.Thread(target=lambda: uvloop.run(serve(listener)))
        thread.start()
        await until(lambda: house.server.started)
        try:
            yield house
        finally:
            for visitor in house.visitors:
                visitor.close()
            with suppress(RuntimeError):  # the server may have stopped already
                house.let_go()
            house.server.should_exit = True
            await asyncio.to_thread(thread.join, LATE)
            assert not thread.is_alive()


class Answered:
    """One answer as its bytes arrived."""

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


@asynccontextmanager
async def listening(app: Application) -> AsyncIterator[House]:
    """Serve an application on a port, in this event loop, with the connections of a server."""
    config = uvicorn.Config(
        app, log_config=None, lifespan="off", http=FastProtocol, ws="none", proxy_headers=False, server_header=False
    )
    server = HttpServer(config, ConnectionLimits())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        house = House(port=listener.getsockname()[1], server=server)
        serving = asyncio.create_task(server.serve([listener]))
        try:
            yield house
        finally:
            server.should_exit = True
            await serving


class Client:
    """A connection on which a test sends and receives bytes directly."""

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
        if to_head or answered.status in (204, 304):
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
        """Return all data until the server closes the connection."""
        return await asyncio.wait_for(self._reader.read(), LATE)

    async def until_closed(self) -> bytes:
        """Return all data that arrives before the server closes or resets the connection."""
        came = b""
        with suppress(ConnectionError):
            while part := await asyncio.wait_for(self._reader.read(65_536), LATE):
                came += part
        return came

    async def until_sent(self, end: bytes) -> bytes:
        return await asyncio.wait_for(self._reader.readuntil(end), LATE)

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()


def post(body: bytes, path: str = "/echo", *headers: str, version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *headers]).encode() + b"\r\n\r\n"


async def until(condition: Any) -> None:
    async with asyncio.timeout(LATE):
        while not condition():
            await asyncio.sleep(0.001)
