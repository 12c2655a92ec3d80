"""Reads the answer to one request, byte by byte as it arrives, within bounds.

The target is not trusted: everything that it can send without end is bounded, which is the head with all interim
answers before it, the body before and after decompression, and the framing.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

import httptools

from timeball.executors import results
from timeball.executors.http.response import KEPT_HEADERS, MAX_BODY, HttpResponse

MAX_HEAD: Final = 64 * 1024
"""Maximum number of bytes of a head and of the interim answers before it. If there are more, only the status of the
answer is known.
"""
MAX_HEADERS: Final = 256
MAX_RECEIVED: Final = 1024 * 1024
"""Maximum number of bytes of an answer as it is sent: compressed, and with the framing of chunks."""
INTERIM_STATUSES: Final = frozenset({100, *range(102, 200)})
"""Statuses of answers that another one follows."""

_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([2-5]\d\d)[ \r\n]")
_BEGINNING: Final = len("HTTP/1.1 200 ")
_ENCODING: Final = "Content-Encoding"
_KEEP_ALIVE: Final = "Keep-Alive"
_FRAMING: Final = "Transfer-Encoding"
_NAMES: Final = {name.lower().encode(): name for name in (*KEPT_HEADERS, _ENCODING, _FRAMING, _KEEP_ALIVE)}
_IDLE_TIMEOUT: Final = re.compile(r"\btimeout=([0-9]{1,9})\b", re.IGNORECASE | re.ASCII)
_ZLIB_ENCODINGS: Final = ("gzip", "x-gzip", "deflate")
_GZIP: Final = b"\x1f"
"""The first byte of gzip data."""
MAX_MEMBERS: Final = 1_000
"""Maximum number of members of gzip data. Each takes about as long as a few kilobytes of text."""
_DEFLATE: Final = 8
"""The compression method in the first byte of zlib data. Some targets send `deflate` without the zlib header."""


class AnswerReader:
    """Implements the callbacks of `httptools`."""

    __slots__ = (
        "_beginning",
        "_body",
        "_decoder",
        "_encoding",
        "_has_head",
        "_headers",
        "_headers_left",
        "_is_head_request",
        "_left",
        "_members_left",
        "_parser",
        "_reason",
        "_received",
        "_status",
        "complete",
        "fault",
        "idle_timeout",
        "keep_alive",
        "surplus",
    )

    def __init__(self, method: str) -> None:
        self._parser = parser = httptools.HttpResponseParser(self)
        # as crude targets write them; neither makes the end of an answer ambiguous
        parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)
        self._is_head_request = method == "HEAD"
        self._received = 0
        self._beginning = b""
        self._status = 0
        """The status of the final answer; 0 if it has not arrived."""
        self._reason = b""
        self._headers: dict[str, str] = {}
        self._headers_left = MAX_HEADERS
        self._has_head = False
        self._body: list[bytes] = []
        self._left = MAX_BODY + 1
        self._encoding = ""
        self._decoder: zlib._Decompress | None = None
        self._members_left = MAX_MEMBERS
        self.complete = False
        """True if the answer has arrived completely."""
        self.fault = ""
        """Why the rest of the answer cannot be read; empty if it can."""
        self.surplus = False
        """True if more has arrived than the answer."""
        self.keep_alive = False
        """True if the target accepts another request on the connection."""
        self.idle_timeout: int | None = None
        """Seconds for which the target says that it keeps an idle connection; None if it does not say."""

    @property
    def is_over(self) -> bool:
        """True if nothing more of the answer is read: it is complete, it cannot be read, or enough of it is known."""
        return self.complete or self.fault != "" or not self._left

    def feed(self, data: bytes) -> None:
        self._received += len(data)
        if not self._has_head and len(self._beginning) < _BEGINNING:
            self._beginning += data[:_BEGINNING]
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.surplus = self.complete = True
        except httptools.HttpParserError as error:
            if self.complete:
                self.surplus = True
            elif not self.fault:
                self.fault = results.words(error)
        if self.complete or self.fault:
            return
        if not self._has_head and self._received > MAX_HEAD:
            self.fault = f"it has more than {MAX_HEAD} bytes"
        elif self._received > MAX_RECEIVED:
            self.fault = f"it was sent as more than {MAX_RECEIVED} bytes"

    def connection_ended(self, error: Exception | None) -> None:
        """Record that nothing more will arrive. An answer without a length ends with its connection."""
        if self._has_head and error is None and not {"Content-Length", _FRAMING} & self._headers.keys():
            self.complete = True
        else:
            self.fault = results.words(error) if error is not None else "the target closed the connection"

    def time_is_over(self) -> None:
        self.fault = "it did not end in time"

    def response(self) -> HttpResponse | None:
        """Return what is known of the answer; None if its status has not arrived."""
        if self._has_head:
            fault = self.fault or self._fault_of_encoding()
            broken = f"its body cannot be read completely: {fault}" if fault else ""
            reason = self._reason.decode("utf-8", "surrogateescape")
            return HttpResponse(self._status, reason, self._headers, b"".join(self._body), broken)
        if not self._status and (line := _STATUS_LINE.match(self._beginning)) is not None:
            self._status = int(line[1])
        if not self._status:
            return None
        return HttpResponse(self._status, broken=f"its head cannot be read completely: {self.fault}")

    # --- the parser ------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.complete:
            self.surplus = True

    def on_status(self, reason: bytes) -> None:
        if self.complete:
            return
        status = self._parser.get_status_code()
        if status not in INTERIM_STATUSES:
            self._status = status
            self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_head:  # a trailer, or the head of something that is not the answer
            return
        self._headers_left -= 1
        if self._headers_left < 0 and not self.fault:
            self.fault = f"it has more than {MAX_HEADERS} headers"
        kept = _NAMES.get(name.lower())
        if kept is not None and kept not in self._headers:
            self._headers[kept] = value.decode("utf-8", "surrogateescape").rstrip(" \t")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._has_head or self.fault:
            return
        if status in INTERIM_STATUSES:
            self._headers.clear()
            return
        self._has_head = True
        self._status = status
        self._encoding = self._headers.pop(_ENCODING, "").strip().lower()
        if _KEEP_ALIVE in self._headers and (limit := _IDLE_TIMEOUT.search(self._headers.pop(_KEEP_ALIVE))) is not None:
            self.idle_timeout = int(limit[1])
        if self._is_head_request:
            self.keep_alive = self._parser.should_keep_alive()
            self.complete = True

    def on_body(self, data: bytes) -> None:
        if self.complete:
            self.surplus = True
        elif self._left and not self.fault:
            if self._encoding not in ("", "identity"):
                data = self._decoded(data)
            if data:
                data = data[: self._left]
                self._left -= len(data)
                self._body.append(data)

    def on_message_complete(self) -> None:
        if not self._has_head or self.fault:
            return
        if not self.complete:
            self.complete = True
            self.keep_alive = self._parser.should_keep_alive()

    # --- compressed bodies -----------------------------------------------------------------------------------------

    def _decoded(self, data: bytes) -> bytes:
        if self._decoder is None:
            if self._encoding not in _ZLIB_ENCODINGS:
                self.fault = f"its encoding is {self._encoding[:100]!r}"
                return b""
            is_raw = self._encoding == "deflate" and data[0] & 0xF != _DEFLATE
            self._decoder = zlib.decompressobj(-zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS | 32)
        try:
            return self._decompressed(self._decoder, data)
        except zlib.error as error:
            self.fault = results.words(error)
            return b""

    def _decompressed(self, decoder: zlib._Decompress, data: bytes) -> bytes:
        text = b""
        while True:
            if decoder.eof:  # gzip data may have several members, each with a head of its own
                if self._encoding == "deflate" or not data.startswith(_GZIP) or not self._members_left:
                    self.fault = f"more follows its {self._encoding} data"
                    return text
                self._members_left -= 1
                decoder = self._decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
            text += decoder.decompress(data, self._left - len(text))
            data = decoder.unused_data
            if not data or len(text) == self._left:
                return text

    def _fault_of_encoding(self) -> str:
        if self._decoder is None or self._decoder.eof or not self._left:
            return ""
        return f"its {self._encoding} data has no end"
