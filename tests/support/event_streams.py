"""Event streams over real HTTP: the API on a loopback port, and clients that read frame by frame."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import uvicorn

from tests.support.api import ADMIN, Api
from timeball.api.http.connection_limits import ConnectionLimits
from timeball.api.http.fast_protocol import FastProtocol
from timeball.api.http.http_server import HttpServer

LATE = 60.0
"""Seconds after which something will not come any more."""


@dataclass(frozen=True)
class Frame:
    id: str
    type: str
    event: Any
    """The CloudEvent."""

    @property
    def data(self) -> Any:
        return self.event.get("data", {})


class EventReader:
    """One client of `GET /v1/events`."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.answer = answer
        self.last_id = ""
        self.comments = 0
        self._lines = answer.aiter_lines()

    async def next(self) -> Frame:
        async with asyncio.timeout(LATE):
            frame = await self._next()
        assert frame is not None, "the stream has ended"
        return frame

    async def ended(self) -> bool:
        """Wait for the end of the stream, past all events."""
        async with asyncio.timeout(LATE):
            while await self._next() is not None:
                pass
        return True

    async def until(self, kind: str, where: Callable[[Any], bool] = lambda data: True) -> Frame:
        """The first event of a type whose data fits, past all others."""
        while True:
            frame = await self.next()
            if frame.type == kind and where(frame.data):
                return frame

    async def first(self, *kinds: str) -> Frame:
        """The first event of one of these types, past all others."""
        while (frame := await self.next()).type not in kinds:
            pass
        return frame

    async def taken(self, count: int) -> list[Frame]:
        return [await self.next() for _ in range(count)]

    async def opened(self) -> EventReader:
        """Wait for the first id, after which no event is missed."""
        async with asyncio.timeout(LATE):
            while not self.last_id:
                await self._line({})
        return self

    async def _next(self) -> Frame | None:
        fields: dict[str, str] = {}
        while True:
            line = await self._line(fields)
            if line is None:
                return None
            if not line:
                if "data" in fields:
                    return Frame(fields.get("id", ""), fields.get("event", ""), json.loads(fields["data"]))
                fields = {}

    async def _line(self, fields: dict[str, str]) -> str | None:
        try:
            line = await anext(self._lines)
        except (StopAsyncIteration, httpx2.TransportError):
            return None
        name, _, value = line.partition(": ")
        if line.startswith(":"):
            self.comments += 1
        elif line:
            fields[name] = value
        if name == "id":
            self.last_id = value
        return line


class HttpApi:
    """The API over HTTP, and its streams."""

    def __init__(self, api: Api, http: HttpServer, url: str, client: httpx2.AsyncClient) -> None:
        self.api = api
        self.http = http
        self.url = url
        self.port = int(url.rpartition(":")[2])
        self.client = client

    @asynccontextmanager
    async def events(self, query: str = "", last_id: str = "", key: str = ADMIN) -> AsyncIterator[EventReader]:
        headers = {"Authorization": f"Bearer {key}"} | ({"Last-Event-ID": last_id} if last_id else {})
        async with self.client.stream("GET", f"{self.url}/v1/events{query}", headers=headers) as answer:
            assert answer.status_code == 200, await answer.aread()
            assert answer.headers["content-type"] == "text/event-stream"
            reader = EventReader(answer)
            yield reader if last_id else await reader.opened()


@asynccontextmanager
async def over_http(api: Api, limits: ConnectionLimits | None = None) -> AsyncIterator[HttpApi]:
    app: Any = api.app
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        http=FastProtocol,
        ws="none",
        proxy_headers=False,
        server_header=False,
    )
    http = HttpServer(config, limits)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        serving = asyncio.create_task(http.serve([listener]))
        timeout = httpx2.Timeout(LATE)
        async with httpx2.AsyncClient(timeout=timeout, trust_env=False) as client:
            try:
                yield HttpApi(api, http, f"http://127.0.0.1:{listener.getsockname()[1]}", client)
            finally:
                api.server.context.events.close()
                http.should_exit = True
                with contextlib.suppress(asyncio.CancelledError):
                    await serving


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(LATE):
        while not check():
            await asyncio.sleep(0.005)
