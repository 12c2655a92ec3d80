"""uvicorn's HTTP protocol with limits: on the size of heads, on pipelined requests, and on the time that a request may
take.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final

import httptools
import msgspec
from uvicorn import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from timeball.api.http.connection_limits import MAX_HEAD_BYTES, MAX_HEADERS, Connections, Peer
from timeball.api.problems import CONTENT_TYPE, Problem

_END: Final = b"\r\n\r\n"
"""The end of a head. The parser accepts no other."""
MIN_BODY_PIECE_BYTES: Final = 64
"""A body full of empty lines is passed to the parser in pieces of at least this size."""


class BoundedProtocol(HttpToolsProtocol):
    """Passes at most one request more to the parser than the request that is being answered. Further received bytes are
    kept, and the socket is not read until they have been passed on."""

    flow: _HoldingFlow

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        peer: Peer | None = None,
    ) -> None:
        self._peer = peer if peer is not None else Peer(Connections())
        super().__init__(config, server_state, {**app_state, "peer": self._peer}, _loop)
        self._unfed = b""
        self._head_bytes = 0
        """Number of bytes that the parser has received of an incomplete head, or of the text around the chunks of a
        body.
        """
        self._trailer_count = 0
        self._began_behind = False
        """True if the current head began in the same piece of received bytes as the end of the previous body."""
        self._head_since: float | None = None
        """When the first byte of a request arrived whose head is not complete."""
        self._body_since: float | None = None
        """When an incomplete body began."""
        self._body_bytes = 0
        self._idle_since = math.inf
        """When the last answer of the connection was complete, in seconds of the event loop's clock."""
        self._refused = False
        self._discards_since: float | None = None
        """When a refusal was sent. Bytes that arrive later are discarded."""

    # --- the connection ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.flow = _HoldingFlow(transport)
        self._peer.served = self

    def connection_lost(self, exc: Exception | None) -> None:
        self._peer.gone()
        self._unfed = b""
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._peer.paused_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._peer.resumed_writing()

    def overdue(self, now: float) -> bool:
        limits = self._peer.limits
        if self._discards_since is not None:
            return now - self._discards_since > limits.discard_seconds
        if self._head_since is not None:
            return now - self._head_since > limits.head_seconds
        if self._body_since is None:
            if now - self._idle_since > self.timeout_keep_alive and self.cycle.response_complete:
                self.transport.close()
            return False
        if self.cycle.response_complete:  # the rest of the body is discarded
            return now - self._body_since > limits.discard_seconds
        if self.flow.read_paused:  # the server is slow, not the client
            self._body_since, self._body_bytes = now, 0
            return False
        return now - self._body_since > limits.body_seconds + self._body_bytes / limits.min_bytes_per_second

    # --- bytes ------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._discards_since is not None:
            return
        cycle: RequestResponseCycle | None = self.cycle
        if self._body_since is self._head_since is None and (cycle is None or cycle.response_complete):
            end = data.find(_END)
            # exactly one complete head, which is the usual case
            if 0 <= end <= MAX_HEAD_BYTES and data.find(_END, end + 4) < 0:
                self._head_since = self.loop.time()
                self._parse(data)
                if self._refused and not self.transport.is_closing():
                    self._refuse()
                return
        self._unfed = self._unfed + data if self._unfed else data
        self._feed()

    def on_response_complete(self) -> None:
        """Like uvicorn's method, but without a timer for each request: `overdue` closes idle connections."""
        self._idle_since = now = self.loop.time()
        if self._body_since is not None:
            self._body_since = now
        self.flow.holds = False
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        if self._unfed:
            self._feed()

    def _feed(self) -> None:
        data, offset = self._unfed, 0
        self._unfed = b""
        while offset < len(data) and not (self._refused or self.transport.is_closing()):
            if self._is_behind():
                self._unfed = data[offset:]
                self._hold()
                return
            end = self._end_of_piece(data, offset)
            self._feed_piece(data if end - offset == len(data) else data[offset:end])
            offset = end

    def _is_behind(self) -> bool:
        """True if the answer to a completely received request is still in progress."""
        return bool(self.pipeline) or (self._body_since is None and self._head_since is None and self._is_answering())

    def _end_of_piece(self, data: bytes, offset: int) -> int:
        """Return the end of the next piece of `data`, from `offset` on, to pass to the parser. A piece contains at most
        one complete head, and no more of an incomplete one than is allowed."""
        in_body = self._body_since is not None
        end = data.find(_END, offset + MIN_BODY_PIECE_BYTES if in_body else offset)
        if end < 0 or data.find(_END, end + len(_END)) < 0:
            end = len(data)
        else:
            end += len(_END)
        return end if in_body else min(end, offset + MAX_HEAD_BYTES + 1)

    def _feed_piece(self, piece: bytes) -> None:
        if self._body_since is None:
            if self._head_since is None:
                self._head_since = self.loop.time()
            end = piece.find(_END)
            self._head_bytes += len(piece) if end < 0 else end
            self._refused = self._head_bytes > MAX_HEAD_BYTES
            if not self._refused:
                self._parse(piece)
        else:
            before = self._body_bytes
            self._parse(piece)
            if self._body_since is not None:
                self._head_bytes = self._head_bytes + len(piece) if self._body_bytes == before else 0
                self._refused = self._refused or self._head_bytes > MAX_HEAD_BYTES
        if self._refused and not self.transport.is_closing():
            self._refuse()

    def _parse(self, data: bytes) -> None:
        """Pass bytes to the parser. uvicorn's method would log a line for each error of a client, and drop the body of
        an upgrade request.
        """
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        except httptools.HttpParserUpgrade as upgrade:
            if not self._refused:
                self._parse_without_upgrade(data[upgrade.args[0] :])

    def _parse_without_upgrade(self, rest: bytes) -> None:
        """Read the request whose head was parsed last as if it had no `Upgrade` header, as RFC 9110 §7.8 allows. The
        parser ends a message with an upgrade after its head, and would read the body as the next request.
        """
        line = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        headers = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self._parse(b"%b%b\r\n%b" % (line, b"".join(headers), rest))

    def _hold(self) -> None:
        self.flow.holds = True
        self.flow.pause_reading()

    def _refuse(self) -> None:
        """Refuse a request whose head is too large, and read nothing more. A previous request is still answered; then
        the connection closes. Trailers that are too large abort the connection.
        """
        if self._body_since is not None:  # in the trailers of a request that is being read
            self._peer.drop()
            return
        if self._is_answering():
            self._close_after_answer()
            return
        problem = Problem(
            type="/docs#problem-head_too_large",
            title="The head of the request is too large",
            status=431,
            detail=f"the URL and {MAX_HEADERS} headers at most may have {MAX_HEAD_BYTES} bytes together",
            code="head_too_large",
        )
        body = msgspec.json.encode(problem)
        head = b"%bconnection: close\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n"
        whole = head % (STATUS_LINE[431], CONTENT_TYPE, len(body)) + body
        transport = self._peer.transport or self.transport  # the original transport, not one that waits for a body
        transport.write(whole)
        self._linger(transport)

    def _linger(self, transport: asyncio.Transport) -> None:
        """Discard received bytes for a while. If the connection closed before the client has sent everything, the
        client could not read the answer.
        """
        self._discards_since = self.loop.time()
        if transport.can_write_eof():
            transport.write_eof()

    def send_400_response(self, msg: str) -> None:
        if self._refused:  # the parser was stopped, and `_refuse` sends the reason
            return
        self._refused = True
        if self._body_since is None:
            if self._is_answering():  # the client would read this 400 as the answer to the previous request
                self._close_after_answer()
            else:
                super().send_400_response(msg)
        elif self.pipeline:  # a previous answer is in progress here, too
            self._peer.drop()
        elif self.cycle.response_complete:
            self._linger(self._peer.transport or self.transport)
        elif self.cycle.response_started:
            self._peer.drop()
        else:
            super().send_400_response(msg)

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _close_after_answer(self) -> None:
        self.cycle.keep_alive = False
        self._hold()

    # --- what the parser says ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._body_bytes = self._trailer_count = 0
        self._began_behind = self._head_since is None
        if self._began_behind:
            self._head_since = self.loop.time()
        HttpToolsProtocol.on_message_begin(self)  # a direct call is faster than one through super()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header. Trailers are only counted."""
        if self._body_since is not None:
            self._trailer_count += 1
            self._refused = self._refused or self._trailer_count > MAX_HEADERS
            return
        if len(self.headers) >= MAX_HEADERS:
            self._refused = True
            raise _TooManyHeaders  # the same piece may contain thousands of them
        name = name.lower()  # like uvicorn's method, which is not called for each header
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        if self._began_behind and self._size_of_head() > MAX_HEAD_BYTES:
            self._refused = True
        if self.parser.should_upgrade() and not self._refused:
            if self.parser.get_method() == b"CONNECT":
                raise ValueError("tunnels are not supported")  # becomes a parser error, and so a 400
            return  # the head is parsed again, without the upgrade
        self._head_since = None
        if not self._refused:
            HttpToolsProtocol.on_headers_complete(self)
            self._body_since = self.loop.time()

    def _size_of_head(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        cycle = self.cycle
        if self._refused or cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._body_since = None
        if self._refused or self._head_since is not None:  # the head is parsed again
            return
        if self.cycle.response_complete:
            self._idle_since = self.loop.time()
        else:
            self.cycle.more_body = False
            self.cycle.message_event.set()


class _TooManyHeaders(Exception):
    """Raised to stop the parser at a head with more than `MAX_HEADERS` headers."""


class _HoldingFlow(FlowControl):
    """Does not resume reading while received bytes of later requests wait to be parsed."""

    holds = False

    def resume_reading(self) -> None:
        if self.read_paused and not self.holds:
            super().resume_reading()
