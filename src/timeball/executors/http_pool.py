"""A pool of HTTP connections in which nothing is left of an earlier call.

What arrives on a connection that waits in the pool answers no request. The HTTP client would keep it and take it for
the answer to the next request, which belongs to another job; so such a connection is closed instead of used again.
"""

from __future__ import annotations

import select
from typing import Any
from weakref import WeakSet

import aiohttp
from aiohttp import ClientRequest, ClientTimeout
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.tracing import Trace


class CleanConnector(aiohttp.TCPConnector):
    def __init__(self, *, limit: int) -> None:
        super().__init__(limit=limit)
        self._used: WeakSet[ResponseHandler] = WeakSet()
        """Those that a call has had. The pool has a bounded number of them, and each is closed at most once."""

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
    """Whether something has arrived that the event loop has not looked at."""
    transport = connection.transport
    socket: Any = None if transport is None else transport.get_extra_info("socket")
    if socket is None:
        return False
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))
