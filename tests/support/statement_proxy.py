"""A proxy in front of PostgreSQL that counts round trips and cuts the connection at one of them.

It listens on a Unix socket in the event loop of the test and understands the framing of PostgreSQL's protocol: a
round trip ends with Sync, Flush, a simple query, or the end of a COPY. Round trips count from the moment a connection
is ready for its first query.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import struct
import tempfile
from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

_ENDS_ROUND_TRIP = frozenset(b"SHQc")
"""Sync, Flush, Query, CopyDone."""
_ANSWERED = frozenset(b"ZG")
"""ReadyForQuery, CopyInResponse."""
_DESCRIBED = frozenset(b"TnE")
"""RowDescription, NoData or ErrorResponse: what follows a Flush."""


class Cut(StrEnum):
    BEFORE = "before"
    """The request does not reach the server."""
    AFTER = "after"
    """The server has answered; the answer does not reach the client."""
    RACING = "racing"
    """The request reaches the server, which may still execute it when the client tries again."""


class StatementProxy:
    def __init__(self, dsn: str, folder: Path) -> None:
        parts = urlsplit(dsn)
        query = parse_qs(parts.query)
        self._socket = f"{query['host'][0]}/.s.PGSQL.{query.get('port', ['5432'])[0]}" if "host" in query else None
        self._host, self._port = parts.hostname, parts.port or 5432
        self._folder = folder
        self.dsn = parts._replace(netloc=f"{parts.username}@", query=f"host={quote(str(folder), safe='')}").geturl()
        self.round_trips: list[str] = []
        """The statement of each round trip since the last call of `watch`."""
        self.cuts = 0
        self._cut_at: int | None = None
        self._how = Cut.BEFORE
        self._tasks: set[asyncio.Task[None]] = set()
        self._sessions: list[_Session] = []

    def fall_silent(self) -> None:
        """Drop all further data of the open connections without closing them."""
        for session in self._sessions:
            session.is_silent = True

    def watch(self, cut_at: int | None = None, how: Cut = Cut.BEFORE) -> None:
        """Count round trips from now on. Cut the connection at the round trip with this number, from 0."""
        self.round_trips, self.cuts = [], 0
        self._cut_at, self._how = cut_at, how

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._socket is not None:
            return await asyncio.open_unix_connection(self._socket)
        return await asyncio.open_connection(self._host, self._port)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            session = _Session(self, reader, writer)
            self._sessions.append(session)
            await session.run()
        finally:
            self._tasks.discard(task)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def arrived(self, request: str) -> Cut | None:
        """Count a round trip. Return how to cut the connection at it; None: do not cut."""
        self.round_trips.append(request)
        if len(self.round_trips) - 1 != self._cut_at:
            return None
        self.cuts += 1
        return self._how


class _Session:
    """One client and its connection to the server."""

    def __init__(self, proxy: StatementProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client, self._to_client = reader, writer
        self._texts: dict[bytes, str] = {}
        self._is_ready = False
        self.is_silent = False
        self._swallow_until: frozenset[int] | None = None

    async def run(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.sleep, 0)  # a transport closes in the next turn of the event loop
            stack.callback(self._to_client.transport.abort)
            stack.enter_context(contextlib.suppress(OSError, asyncio.IncompleteReadError))
            self._server, self._to_server = await self._proxy.connect()
            stack.callback(self._to_server.transport.abort)
            (size,) = struct.unpack("!i", startup := await self._client.readexactly(4))
            self._to_server.write(startup + await self._client.readexactly(size - 4))
            ways = [asyncio.create_task(self._requests()), asyncio.create_task(self._answers())]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)

    async def _requests(self) -> None:
        pending, text = b"", ""
        while True:
            kind, body = await _message(self._client)
            await self._go_on()
            pending += kind + body
            if kind == b"Q":
                text = body[4:-1].decode()
            elif kind == b"P":
                name, text, *_ = body[4:].decode("utf-8", "replace").split("\0")
                self._texts[name.encode()] = text
            elif kind == b"B":
                _, name_, *_ = body[4:].split(b"\0", 2)
                text = self._texts.get(name_, text)
            elif kind == b"X":
                self._to_server.write(pending)
                return
            if kind[0] not in _ENDS_ROUND_TRIP:
                continue
            how = self._proxy.arrived(text if kind != b"c" else "end of COPY") if self._is_ready else None
            if how is Cut.BEFORE:
                return
            if how is Cut.AFTER:
                self._swallow_until = _DESCRIBED if kind == b"H" else _ANSWERED
            self._to_server.write(pending)
            await self._to_server.drain()
            if how is Cut.RACING:
                return
            pending, text = b"", ""

    async def _go_on(self) -> None:
        if self.is_silent:
            await asyncio.Event().wait()

    async def _answers(self) -> None:
        while True:
            kind, body = await _message(self._server)
            await self._go_on()
            if self._swallow_until is not None:
                if kind[0] in self._swallow_until:
                    return
                continue
            self._to_client.write(kind + body)
            if kind == b"Z":
                self._is_ready = True
            if not self._server._buffer:  # type: ignore[attr-defined]
                await self._to_client.drain()


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    (size,) = struct.unpack("!i", head[1:])
    return head[:1], head[1:] + await reader.readexactly(size - 4)


@contextlib.asynccontextmanager
async def statement_proxy(dsn: str) -> AsyncIterator[StatementProxy]:
    folder = Path(tempfile.mkdtemp(prefix="timeball-cut-", dir="/tmp"))  # the path of a socket has at most 107 bytes
    try:
        proxy = StatementProxy(dsn, folder)
        server = await asyncio.start_unix_server(proxy.serve, folder / ".s.PGSQL.5432", limit=1 << 22)
        yield proxy
        server.close()
        await proxy.close()
    finally:
        shutil.rmtree(folder)
