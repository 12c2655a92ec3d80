"""The short way from a socket to an endpoint and back, for requests that arrive whole."""

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

from timeball.api.app import Asked, Endpoint, Paths
from timeball.api.http.buffered_protocol import BufferedProtocol
from timeball.api.http.connection_limits import MAX_HEAD_BYTES, MAX_HEADERS, Connections, Peer
from timeball.api.responses import usual_headers
from timeball.api.routing import Answer, Headers, Request

MAX_BYTES: Final = 65_536
"""Of a request that takes the short way: less than any route's limit of a body."""

MAX_REMEMBERED_LENGTH: Final = 2_000
"""Bytes of a head that is worth it."""

_END: Final = b"\r\n\r\n"
"""Of a head."""
_SAID_ONCE: Final = b"idempotency-key"
_FAREWELL: Final = (b"connection", b"close")


class FastProtocol(asyncio.Protocol):
    """ASGI costs an ordinary request as much as everything else that is done for it: a scope, events, a message for
    the head of its answer and one for the body. So what arrives in one piece, while nothing else is under way, and is
    one request whose answer will be one piece too, goes straight to its endpoint.

    With the first bytes that are anything else (more than one request, or less; chunks, an upgrade, a farewell, a
    mistake, a question whose answer lasts) the connection becomes uvicorn's, for good, and just as if it had always
    been: all requests before have been answered, and none has begun.
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
        assert isinstance(paths, Paths), "nothing may stand between the server and the endpoints"
        self._paths = paths
        self._peer = peer if peer is not None else Peer(Connections())
        self._config = config
        self._state = server_state
        self._app_state = app_state
        self._connections: set[Any] = server_state.connections  # uvicorn names the classes that may be in there
        self._loop = _loop or asyncio.get_running_loop()
        self._reader = _Reader()
        self._transport: asyncio.Transport
        self._answering: asyncio.Task[None] | None = None
        self._waiting = b""
        """What came while an answer was under way."""
        self._closes = False
        """After the answer that is under way."""
        self._writing_paused = False
        self._opened_at = 0.0
        self._answered_at = 0.0
        self._until_idle: asyncio.TimerHandle | None = None

    # --- what the event loop says -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, but does not say so
        if self._peer.is_gone:  # evicted before it was established
            self._transport.abort()
            return
        self._opened_at = self._loop.time()
        self._peer.transport, self._peer.served = self._transport, self
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
        if not 0 <= end <= MAX_HEAD_BYTES:  # to parse what is not for us would cost as much as to answer it
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
            request = replace(asked.request, body=body)
        else:
            request = replace(asked.request, body=body, client=self._peer)
        self._answering = self._loop.create_task(self._answer(asked.endpoint, request))
        self._state.tasks.add(self._answering)

    def pause_writing(self) -> None:
        """Who does not take its answers may ask nothing more."""
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
        """An answer that is under way still goes out."""
        if self._answering is None:
            self._transport.close()
        else:
            self._closes = True

    def overdue(self, now: float) -> bool:
        """Whether the first request does not come. Half a request is uvicorn's, and a later one has the timer below."""
        silent = self._answering is None and not self._answered_at
        return silent and now - self._opened_at > self._peer.limits.head_seconds

    # --- questions --------------------------------------------------------------------------------------------------

    def _read(self, data: bytes, head: bytes) -> Asked | None:
        """None: it is not for us. What follows from the head alone is remembered: clients send the same one again and
        again, and to read it takes longer than to find it."""
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
        is_whole = len(head) + asked.length == len(data)  # not if it ends otherwise, or something stands before it
        if is_whole and len(head) <= MAX_REMEMBERED_LENGTH and _SAID_ONCE not in reader.headers:
            self._paths.remember(head, asked)
        return asked

    # --- answers ----------------------------------------------------------------------------------------------------

    async def _answer(self, endpoint: Endpoint, request: Request) -> None:
        try:
            self._send(await endpoint.answer(request))
        except BaseException:
            self._transport.close()  # nobody shall wait for what does not come
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
        assert isinstance(body, bytes), "routes whose answers come bit by bit are marked as lasting"
        headers = [*self._state.default_headers, *answer.headers]
        if self._closes and _FAREWELL not in headers:
            headers.append(_FAREWELL)
        length = b"" if answer.status == 204 else b"content-length: %d\r\n" % len(body)
        head = _usual_head(answer.status, answer.content_type)
        transport.write(b"%b%b%b\r\n%b" % (head, _lines(headers), length, body))
        if _FAREWELL in headers:
            transport.close()
        self._answered_at = self._loop.time()
        if self._until_idle is None:
            self._until_idle = self._loop.call_later(self._config.timeout_keep_alive, self._close_if_idle)

    def _close_if_idle(self) -> None:
        """One timer for all requests of a connection: it looks when the last one was answered."""
        idle = 0.0 if self._answering is not None else self._loop.time() - self._answered_at
        if idle >= self._config.timeout_keep_alive:
            self._transport.close()
        else:
            self._until_idle = self._loop.call_later(self._config.timeout_keep_alive - idle, self._close_if_idle)

    # --- farewell ---------------------------------------------------------------------------------------------------

    def _hand_over(self, data: bytes) -> None:
        """Let uvicorn have the connection, from these bytes on."""
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
    """More than one request arrived, or one with too many headers."""


class _Reader:
    """Tells whether bytes are one whole, ordinary request, and what it says."""

    method: str
    url: str
    headers: dict[bytes, bytes]
    body: bytes

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)

    def takes(self, data: bytes) -> bool:
        """After a False this must not be asked again: it may have stopped halfway."""
        if len(data) > MAX_BYTES:
            return False
        self._begun = self._completed = self._header_count = 0
        self._url = self.body = b""
        self.headers = {}
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return False
        if not (self._begun == self._completed == 1 and self._stays and self._url.isascii()):
            return False
        self.url = self._url.decode()
        return (
            self.url.startswith("/")
            and "#" not in self.url
            and self.method != "HEAD"
            and b"transfer-encoding" not in self.headers
            and self._header_count <= MAX_HEADERS
            and len(self.headers) == self._header_count  # which of two counts is decided once, behind uvicorn
        )

    # --- what the parser says ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._begun += 1
        if self._begun > 1:  # not for us, however many follow
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
        self._stays = self._parser.should_keep_alive() and self._parser.get_http_version() == "1.1"

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self._completed += 1


@functools.cache
def _usual_head(status: int, content_type: bytes) -> bytes:
    """As far as it is the same for many answers."""
    return STATUS_LINE[status] + _lines(usual_headers(status, content_type))


def _lines(headers: Headers) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


async def _nothing_more() -> NoReturn:
    raise AssertionError("routes that want to know when the client hangs up are marked as lasting")
