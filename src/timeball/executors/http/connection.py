"""Connections to targets, and the pool of those that are idle.

A connection is made to an address that was resolved for it, serves one tenant, and carries no data from one call to the
next: bytes that arrive while it is idle belong to no request, and close it.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from timeball.executors import results
from timeball.executors.http.answer import AnswerReader
from timeball.executors.http.dialing import Egress, dial
from timeball.executors.http.request import Origin
from timeball.executors.http.response import HttpResponse
from timeball.lookups import Lookups, ResolvedAddress

CONNECT_TIMEOUT: Final = 30.0
KEPT_SECONDS: Final = 4.0
"""Maximum number of seconds for which an idle connection is kept. Common servers close theirs after 5 seconds or later,
and a request that crosses the end of its connection costs an attempt.
"""
MAX_IDLE: Final = 500
"""Maximum number of idle connections, because calls to many targets, or their redirects, would use all descriptors."""
MAX_REUSED_REQUEST: Final = 64 * 1024
"""A connection is closed after a request with more bytes: a target may answer such a request before it has read it, and
take the rest for the next one.
"""

PoolKey = tuple[Egress, Origin]
Receive = Callable[[HttpResponse | Exception], None]


class CannotConnect(Exception):
    """Raised if a target cannot be connected to. No part of a request was sent."""

    def __init__(self, host: str, port: int, cause: OSError) -> None:
        number = cause.errno or 0
        # The numbers of the resolver are negative, and TLS has its own.
        reason = os.strerror(number) if number > 0 and not isinstance(cause, ssl.SSLError) else cause.strerror
        super().__init__(f"cannot connect to {host}:{port}: {reason or results.words(cause)}")
        self.host = host
        self.cause = cause


class HttpConnection(asyncio.Protocol):
    """One HTTP/1.1 connection. It has one request at a time."""

    def __init__(self, key: PoolKey) -> None:
        self.key = key
        self.idle_until = 0.0
        """The instant after which the idle connection is not used again, on the clock of the event loop."""
        self.kept_seconds = KEPT_SECONDS
        self.closed = False
        self.reusable = False
        """True if the last answer has arrived completely, and the target accepts another request."""
        self._transport: asyncio.Transport | None = None
        self._unread = select.poll()
        self._reader: AnswerReader | None = None
        self._receive: Receive | None = None
        self._has_large_request = False

    def ask(self, method: str, request: bytes, receive: Receive) -> None:
        """Send a request. `receive` is called once, with the answer or with an error if its status did not arrive."""
        assert self._transport is not None
        if self.closed:
            receive(ConnectionError("the target closed the connection before the request was sent"))
            return
        self._reader, self._receive = AnswerReader(method), receive
        self.reusable = False
        self._has_large_request = len(request) > MAX_REUSED_REQUEST
        self._transport.write(request)

    @property
    def is_fresh(self) -> bool:
        """True if an idle connection is open and nothing has arrived on it, not even its end. The event loop may not
        have read yet what has arrived.
        """
        transport = self._transport
        return not self.closed and transport is not None and not transport.is_closing() and not self._unread.poll(0)

    def give_up(self) -> HttpResponse | None:
        """Close the connection, because the time is over. Return the answer if its status has arrived."""
        reader = self._reader
        self.close()
        if reader is None:
            return None
        reader.time_is_over()
        return reader.response()

    def close(self) -> None:
        self.closed = True
        self.reusable = False
        self._reader = self._receive = None
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is one, but its type does not say so
        self._unread.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        if reader is None:  # these bytes belong to no request
            self.close()
            return
        reader.feed(data)
        if reader.is_over:
            self._deliver(reader)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if (reader := self._reader) is not None:
            reader.connection_ended(error)
            self._deliver(reader)

    def _deliver(self, reader: AnswerReader) -> None:
        receive, self._reader, self._receive = self._receive, None, None
        assert receive is not None
        assert self._transport is not None
        self.reusable = (
            reader.complete
            and reader.keep_alive
            and not reader.surplus
            and not self._has_large_request
            and not self.closed
            and not self._transport.get_write_buffer_size()
        )
        if not self.reusable:
            self.close()
        elif reader.idle_timeout is not None:
            self.kept_seconds = min(KEPT_SECONDS, reader.idle_timeout - 1.0)
        receive(reader.response() or ConnectionError(reader.fault))


class HttpConnections:
    """Keeps idle connections by egress and origin, at most `MAX_IDLE`. The number of connections in use is bounded by
    the slots of the worker only: with another limit, calls to an unreachable host would block other calls.
    """

    def __init__(self, lookups: Lookups, trust: ssl.SSLContext) -> None:
        self._lookups = lookups
        self._trust = trust
        self._idle: dict[PoolKey, list[HttpConnection]] = {}
        """Idle connections, the last one that was used at the end."""
        self._by_age: dict[HttpConnection, None] = {}
        """The same connections, the last one that was used at the end."""
        self._timer: asyncio.TimerHandle | None = None

    def take(self, egress: Egress, origin: Origin) -> HttpConnection | None:
        """Return the idle connection that was used last, without those that cannot be used any more, which are closed.
        None: there is none."""
        idle = self._idle.get((egress, origin))
        if not idle:
            return None
        now = asyncio.get_running_loop().time()
        while idle:
            connection = idle.pop()
            del self._by_age[connection]
            if now < connection.idle_until and connection.is_fresh:
                return connection
            connection.close()
        return None

    def put(self, connection: HttpConnection) -> None:
        """Keep a connection whose request was answered, if it can be used again; otherwise it is closed already. With
        more than `MAX_IDLE` connections, close the one that has been idle for the longest time."""
        if not connection.reusable:
            return
        loop = asyncio.get_running_loop()
        connection.idle_until = loop.time() + connection.kept_seconds
        self._idle.setdefault(connection.key, []).append(connection)
        self._by_age[connection] = None
        if len(self._by_age) > MAX_IDLE:
            oldest = next(iter(self._by_age))
            self._idle[oldest.key].remove(oldest)
            del self._by_age[oldest]
            oldest.close()
        if self._timer is None:
            self._timer = loop.call_later(KEPT_SECONDS, self._close_old)

    async def connect(self, egress: Egress, origin: Origin) -> HttpConnection:
        """Open a connection to an address of the host. The host is resolved here, once for each connection, and the
        connection is made to one of these addresses. Raise `AddressRefused`, `CannotConnect`, `NotLookedUp` or
        `TimeoutError`.
        """
        _, host, port = origin
        try:
            found = await self._lookups.addresses(host)
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await self._open((egress, origin), found)
        except TimeoutError as error:
            raise TimeoutError(f"cannot connect to {host}:{port}: no answer in time") from error
        except OSError as error:
            raise CannotConnect(host, port, error) from error

    async def _open(self, key: PoolKey, addresses: list[ResolvedAddress]) -> HttpConnection:
        egress, (scheme, host, port) = key
        connected = await dial(egress, host, port, addresses)
        try:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            secure = scheme == "https"
            _, connection = await asyncio.get_running_loop().create_connection(
                partial(HttpConnection, key),
                sock=connected,
                ssl=self._trust if secure else None,
                server_hostname=host.rstrip(".") if secure else None,
            )
        except BaseException:
            connected.close()
            raise
        return connection

    def close(self) -> None:
        """Close all idle connections. The pool may still be used."""
        for connection in self._by_age:
            connection.close()
        self._idle.clear()
        self._by_age.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_old(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        kept: dict[PoolKey, list[HttpConnection]] = {}
        for connection in list(self._by_age):
            if now < connection.idle_until and not connection.closed:
                kept.setdefault(connection.key, []).append(connection)
            else:
                del self._by_age[connection]
                connection.close()
        self._idle = kept
        self._timer = loop.call_later(KEPT_SECONDS, self._close_old) if self._idle else None
