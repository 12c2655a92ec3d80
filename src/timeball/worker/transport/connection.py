"""A small HTTP/1.1 client for workers: POST requests to one server over connections that stay open, one request at a
time on each.

A worker with few slots sends two messages for a handful of short runs. A general client needs four times the CPU time
for each (190 µs instead of 45 µs, measured with aiohttp), more than all other work of the worker for these runs.
"""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from timeball.client.http_sync import BROKEN_OFF, Incoming
from timeball.lookups import Lookups, NotLookedUp

CONNECT: Final = 2.0
"""Seconds until a server that does not accept the connection counts as unreachable."""
MAX_IDLE: Final = 8
"""Maximum number of idle connections that are kept."""


class Wire:
    """A client for one server. Any number of requests may be in flight. Raises `OSError` if there is no answer."""

    def __init__(self, server: str, headers: dict[str, str], ca: Path | None = None) -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        self._secure = parts.scheme == "https"
        self._ca = ca
        self._trust: ssl.SSLContext | None = None
        self._idle: list[_Connection] = []
        self._lookups = Lookups()
        named = {"Host": parts.netloc.rpartition("@")[2].encode("idna").decode(), **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        if lines.count("\r") + lines.count("\n") != 2 * len(named):
            raise ValueError("neither the server's address nor the key may contain a line break")
        self._path = parts.path.rstrip("/")
        self._head = f" HTTP/1.1\r\n{lines}Content-Length: "

    async def post(self, path: str, body: bytes) -> Incoming:
        request = b"%b%d\r\n\r\n%b" % (f"POST {self._path}{path}{self._head}".encode("latin-1"), len(body), body)
        connection = self._kept()
        if connection is not None:
            try:
                return await self._ask(connection, request)
            except _Unanswered:
                pass  # the server closed the idle connection, as servers do; the request is sent again on a new one
        return await self._ask(await self._connect(), request)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        return None

    async def _connect(self) -> _Connection:
        if self._secure and self._trust is None:
            self._trust = ssl.create_default_context(cafile=self._ca)
        loop = asyncio.get_running_loop()
        name = self._host if self._secure else None
        failed: OSError | None = None
        async with asyncio.timeout(CONNECT):
            for host in await self._addresses():
                try:
                    _, connection = await loop.create_connection(
                        _Connection, host, self._port, ssl=self._trust, server_hostname=name
                    )
                except OSError as error:
                    failed = failed or error
                else:
                    return connection
        raise failed or ConnectionError(f"{self._host} has no address")

    async def _addresses(self) -> list[str]:
        """Return the IP addresses of the server. The event loop itself would resolve the name in threads that it shares
        with the jobs of this process.
        """
        try:
            return [found.host for found in await self._lookups.addresses(self._host)]
        except NotLookedUp as error:
            raise ConnectionError(f"cannot look up the name {self._host}: {error}") from error

    async def _ask(self, connection: _Connection, request: bytes) -> Incoming:
        answer = None
        try:
            answer = await connection.ask(request)
        finally:
            # After a cancelled request the answer may still arrive, and must not be taken for the answer to the next
            # one.
            if answer is None or connection.spent or len(self._idle) >= MAX_IDLE:
                connection.close()
            else:
                self._idle.append(connection)
        return answer


class _Unanswered(ConnectionError):
    """Raised when the connection ended before any byte of the answer arrived."""


class _Connection(asyncio.Protocol):
    """A connection to the server. Implements the callbacks of `httptools`."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Incoming] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._has_bytes = False
        self.closed = False
        self.spent = False
        """True if the server closes the connection after this answer."""

    def ask(self, request: bytes) -> asyncio.Future[Incoming]:
        self._answer = answer = asyncio.get_running_loop().create_future()
        self._has_bytes = False
        if self._transport is None or self.closed:
            answer.set_exception(_Unanswered(BROKEN_OFF))
        else:
            self._transport.write(request)
        return answer

    def close(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._has_bytes = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ConnectionError(f"the server did not answer with HTTP: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self._fail(ConnectionError(BROKEN_OFF) if self._has_bytes else _Unanswered(BROKEN_OFF))

    def on_message_begin(self) -> None:
        self._headers = {}
        self._body = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # an interim answer; the final one follows
            return
        self.spent = not self._parser.should_keep_alive()
        if self._answer is None or self._answer.done():
            self.close()  # an answer without a request
        else:
            self._answer.set_result(Incoming(status, self._headers, b"".join(self._body)))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.close()
