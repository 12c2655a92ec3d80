"""A pool of HTTP connections that carries no data from one call to the next.

Data that arrives on an idle connection belongs to no request. The HTTP client would take it for the answer to the next
request, which belongs to another job; so such a connection is closed and not reused.
"""

from __future__ import annotations

import asyncio
import re
import select
import socket
from functools import partial
from typing import Any, Final
from weakref import WeakSet

import aiohttp
from aiohttp import ClientRequest, ClientTimeout
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_parser import RawResponseMessage
from aiohttp.streams import StreamReader
from aiohttp.tracing import Trace

from timeball.executors import results
from timeball.lookups import Lookups

_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([2-5]\d\d)[ \r\n]")
_STATUS_LINE_LENGTH: Final = len("HTTP/1.1 200 ")
_DELIVERED: Final = bytes(_STATUS_LINE_LENGTH)


class HeadUnread(aiohttp.ClientError):
    """Raised when the status of an answer arrived, but the rest of its head did not, or cannot be parsed."""

    def __init__(self, status: int, error: BaseException) -> None:
        super().__init__(f"its head cannot be read completely: {results.words(error)}")
        self.status = status


class _Handler(ResponseHandler):
    """Remembers the status of an answer whose head the HTTP client cannot read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._beginning = b""

    def set_response_params(self, **parameters: Any) -> None:
        self._beginning = b""
        super().set_response_params(**parameters)

    def data_received(self, data: bytes) -> None:
        if len(self._beginning) < _STATUS_LINE_LENGTH:
            self._beginning += data[: _STATUS_LINE_LENGTH - len(self._beginning)]
        super().data_received(data)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        self._beginning = _DELIVERED  # errors from here on do not concern the head of this answer
        super().feed_data(data, size)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        status_line = _STATUS_LINE.match(self._beginning)
        if status_line is not None:
            exc = HeadUnread(int(status_line[1]), exc)
        super().set_exception(exc, *cause)


def _handler(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return _Handler(loop)


class _Resolver(AbstractResolver):
    """Resolves host names for the HTTP client."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=found.host,
                port=port,
                family=found.family,
                proto=found.proto,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for found in await self._lookups.addresses(host, family)
        ]

    async def close(self) -> None:
        pass


class CleanConnector(aiohttp.TCPConnector):
    """A connector without a limit of connections. The slots of the worker are the limit; with another limit, calls to
    an unreachable host would block other calls."""

    def __init__(self, lookups: Lookups) -> None:
        super().__init__(limit=0, resolver=_Resolver(lookups), use_dns_cache=False)
        self._factory = partial(_handler, asyncio.get_running_loop())
        self._used: WeakSet[ResponseHandler] = WeakSet()
        """Connections that a call has used. `connect` closes one on which data has arrived, and asks the pool for
        another; the pool has a limited number of them, so this ends."""

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            if protocol is None:
                return connection
            if protocol not in self._used:
                self._used.add(protocol)
                return connection
            if not protocol.should_close and not _has_unread_bytes(connection):
                return connection
            connection.close()


def _has_unread_bytes(connection: Connection) -> bool:
    """True if data has arrived that the event loop has not read."""
    transport = connection.transport
    connected: Any = None if transport is None else transport.get_extra_info("socket")
    if connected is None:
        return False
    poll = select.poll()
    poll.register(connected.fileno(), select.POLLIN)
    return bool(poll.poll(0))
