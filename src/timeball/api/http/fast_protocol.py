"""A fast path from a socket to an endpoint and back, for requests that arrive in one piece."""

from __future__ import annotations

import asyncio
import functools
from typing import Any, Final, NoReturn, cast
from urllib.parse import unquote

import httptools
from msgspec.structs import replace
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from timeball.api.app import Asked, Paths
from timeball.api.endpoint import Endpoint
from timeball.api.http.buffered_protocol import BufferedProtocol
from timeball.api.http.connection_limits import MAX_HEAD_BYTES, MAX_HEADERS, Connections, Peer, address_of
from timeball.api.responses import WITHOUT_BODY, usual_headers
from timeball.api.routing import Answer, Headers, Request

MAX_BYTES: Final = 65_536
"""Maximum size of a request on the fast path. It is smaller than every limit of a body."""

MAX_REMEMBERED_LENGTH: Final = 2_000
"""Maximum number of bytes of a head that is cached."""

_END: Final = b"\r\n\r\n"
"""The end of a head."""
_NOT_REPEATED: Final = b"idempotency-key"
_CONNECTION_CLOSE: Final = (b"connection", b"close")


class FastProtocol(asyncio.Protocol):
    """For an ordinary request, ASGI costs as much as all other work: a scope, events, a message for the head of the
    answer and one for the body. So a request that arrives in one piece, while no other is in progress, and whose answer
    is one piece, goes directly to its endpoint.

    On anything else (several requests, an incomplete one, chunks, an upgrade, a closing connection, an error, or an
    answer that takes long), the connection is handed over to uvicorn permanently. At that moment all previous requests
    have been answered, and none is in progress.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        peer: Peer | None = None,
    ) -> None:
        paths: Any = config.loaded_app
        assert isinstance(paths, Paths), "no middleware may be between the server and the endpoints"
        self._paths = paths
        self._peer = peer if peer is not None else Peer(Connections())
        self._config = config
        self._state = server_state
        self._app_state = app_state
        # uvicorn's type lists the classes that may be in this set
        self._connections: set[Any] = server_state.connections
        self._loop = _loop or asyncio.get_running_loop()
        self._reader = _Reader()
        self._transport: asyncio.Transport
        self._answering: asyncio.Task[None] | None = None
        self._waiting = b""
        """Bytes that arrived during an answer."""
        self._closes = False
        """True if the connection closes after the current answer."""
        self._writing_paused = False
        self._opened_at = 0.0
        self._answered_at = 0.0
        self._until_idle: asyncio.TimerHandle | None = None

    # --- what the event loop says -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport has this interface, undeclared
        if self._peer.is_gone:  # the connection was closed before it was established
            self._transport.abort()
            return
        self._opened_at = self._loop.time()
        self._peer.transport, self._peer.served = self._transport, self
        self._peer.address = address_of(transport.get_extra_info("peername"))
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._peer.gone()
        self._leave()

    def data_received(self, data: bytes) -> None:
        if self._answering is not None:
            self._waiting += data
            self._transport.pause_reading()
            return
        end = data.find(_END)
        # uvicorn parses the request again, and parsing it here would cost as much as answering it
        if not 0 <= end <= MAX_HEAD_BYTES:
            self._hand_over(data)
            return
        head = data[: end + len(_END)]
        asked = self._paths.asked.get(head)
        if asked is not None and len(head) + asked.length == len(data):
            body = data[len(head) :]
        elif (asked := self._read(data, head)) is not None:
            body = self._reader.body
        else:
            self._hand_over(data)
            return
        if self._peer.is_known:
            request = replace(asked.request, body=body, address=self._peer.address)
        else:
            request = replace(asked.request, body=body, address=self._peer.address, client=self._peer)
        self._answering = self._loop.create_task(self._answer(asked.endpoint, request))
        self._state.tasks.add(self._answering)

    def pause_writing(self) -> None:
        """Called by the event loop while the client does not read its answers. Until it reads, its requests are not
        read either."""
        self._writing_paused = True
        self._transport.pause_reading()
        self._peer.paused_writing()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._peer.resumed_writing()
        if not self._waiting and not self._transport.is_closing():
            self._transport.resume_reading()

    # --- what the server says ---------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Close the connection, after the answer that is in progress."""
        if self._answering is None:
            self._transport.close()
        else:
            self._closes = True

    def overdue(self, now: float) -> bool:
        """True if the first request did not arrive in time. Incomplete requests are handled by uvicorn, and idle time
        after the first request by the timer of `_close_if_idle`.
        """
        silent = self._answering is None and not self._answered_at
        return silent and now - self._opened_at > self._peer.limits.head_seconds

    # --- questions --------------------------------------------------------------------------------------------------

    def _read(self, data: bytes, head: bytes) -> Asked | None:
        """Parse a request. Return None if uvicorn has to handle it. The parsed head of an ordinary request is cached,
        because clients send the same head again and again, and a lookup is faster than parsing.
        """
        reader = self._reader
        if len(head) > MAX_HEAD_BYTES or not reader.takes(data):
            return None
        path, _, query = reader.url.partition("?")
        endpoint, parameters = self._paths.find(path)
        if endpoint.lasts(reader.method):
            return None
        request = Request(
            method=reader.method,
            path=unquote(path) if "%" in path else path,
            query=query.encode(),
            headers=reader.headers,
            parameters=parameters,
            receive=_nothing_more,
        )
        asked = Asked(endpoint, request, len(reader.body))
        # false if the request ends in another way, or if bytes precede it
        is_whole = len(head) + asked.length == len(data)
        if is_whole and len(head) <= MAX_REMEMBERED_LENGTH and _NOT_REPEATED not in reader.headers:
            self._paths.remember(head, asked)
        return asked

    # --- answers ----------------------------------------------------------------------------------------------------

    async def _answer(self, endpoint: Endpoint, request: Request) -> None:
        try:
            self._send(await endpoint.answer(request))
        except BaseException:
            self._transport.close()  # no answer follows, so the client must not wait for one
            raise
        finally:
            assert self._answering is not None
            self._state.tasks.discard(self._answering)
            self._answering = None
        if self._waiting and not self._transport.is_closing():
            self._hand_over(self._waiting)

    def _send(self, answer: Answer) -> None:
        self._state.total_requests += 1
        transport = self._transport
        if transport.is_closing():
            return
        body = answer.body
        assert isinstance(body, bytes), "routes that stream their answers are marked as lasting"
        headers = [*self._state.default_headers, *answer.headers]
        if self._closes and _CONNECTION_CLOSE not in headers:
            headers.append(_CONNECTION_CLOSE)
        length = b"" if answer.status in WITHOUT_BODY else b"content-length: %d\r\n" % len(body)
        head = _usual_head(answer.status, answer.content_type, answer.cache_control)
        transport.write(b"%b%b%b\r\n%b" % (head, _lines(headers), length, body))
        if _CONNECTION_CLOSE in headers:
            transport.close()
        self._answered_at = self._loop.time()
        if self._until_idle is None:
            self._until_idle = self._loop.call_later(self._config.timeout_keep_alive, self._close_if_idle)

    def _close_if_idle(self) -> None:
        """Close an idle connection. One timer serves all requests of a connection: it checks when the last one was
        answered.
        """
        idle = 0.0 if self._answering is not None else self._loop.time() - self._answered_at
        if idle >= self._config.timeout_keep_alive:
            self._transport.close()
        else:
            self._until_idle = self._loop.call_later(self._config.timeout_keep_alive - idle, self._close_if_idle)

    # --- farewell ---------------------------------------------------------------------------------------------------

    def _hand_over(self, data: bytes) -> None:
        """Hand the connection over to uvicorn, starting with these bytes."""
        self._leave()
        successor = BufferedProtocol(self._config, self._state, self._app_state, self._loop, self._peer)
        self._transport.set_protocol(successor)
        successor.connection_made(self._transport)
        if self._writing_paused:
            successor.pause_writing()
        self._transport.resume_reading()
        successor.data_received(data)

    def _leave(self) -> None:
        self._connections.discard(self)
        if self._until_idle is not None:
            self._until_idle.cancel()


class _NotForUs(Exception):
    """Raised to stop the parser when more than one request arrived, or one with too many headers: uvicorn handles
    these.
    """


class _Reader:
    """Parses bytes and decides whether they are one complete, ordinary request."""

    method: str
    url: str
    headers: dict[bytes, bytes]
    body: bytes

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)

    def takes(self, data: bytes) -> bool:
        """Return True if the bytes are one complete, ordinary request. After a False the parser may have stopped in the
        middle, and must not be used again.
        """
        if len(data) > MAX_BYTES:
            return False
        self._begun = self._completed = self._header_count = 0
        self._url = self.body = b""
        self.headers = {}
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return False
        if not (self._begun == self._completed == 1 and self._keep_alive and self._url.isascii()):
            return False
        self.url = self._url.decode()
        return (
            self.url.startswith("/")
            and "#" not in self.url
            and self.method != "HEAD"
            and b"transfer-encoding" not in self.headers
            and self._header_count <= MAX_HEADERS
            and len(self.headers) == self._header_count  # repeated headers are handled in one place, after uvicorn
        )

    # --- what the parser says ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._begun += 1
        if self._begun > 1:  # uvicorn handles all further requests
            raise _NotForUs

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._header_count >= MAX_HEADERS:
            raise _NotForUs
        self.headers[name.lower()] = value
        self._header_count += 1

    def on_headers_complete(self) -> None:
        self.method = self._parser.get_method().decode()
        self._keep_alive = self._parser.should_keep_alive() and self._parser.get_http_version() == "1.1"

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self._completed += 1


@functools.cache
def _usual_head(status: int, content_type: bytes, cache_control: bytes) -> bytes:
    """Return the status line and the headers that all answers with these values share. It is cached."""
    return STATUS_LINE[status] + _lines(usual_headers(status, content_type, cache_control))


def _lines(headers: Headers) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


async def _nothing_more() -> NoReturn:
    raise AssertionError("routes that wait for the client to disconnect are marked as lasting")
