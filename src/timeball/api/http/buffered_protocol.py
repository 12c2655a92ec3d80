"""Writes the head and the body of an answer with a content length to the socket in one piece."""

from __future__ import annotations

import asyncio
from typing import Any

from timeball.api.http.bounded_protocol import BoundedProtocol


class BufferedProtocol(BoundedProtocol):
    """uvicorn writes the head of an answer and then its body, and uvloop sends each at once: two system calls, two
    packets, and two wakeups of the client. Here a head with a content length waits for its body.
    """

    _whole: _Joining

    def connection_made(self, transport: Any) -> None:
        self._peer.transport = transport
        self._whole = _Joining(transport)
        super().connection_made(self._whole)

    def on_response_complete(self) -> None:
        self._whole.flush()  # an answer to HEAD has no body
        super().on_response_complete()


class _Joining(asyncio.Transport):
    """A transport that keeps the head of an answer until its body is written, or is known to be empty."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._head = b""

    def write(self, data: Any) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif data.startswith(b"HTTP/1.1 ") and b"\r\ncontent-length: " in data:
            self._head = data
        else:
            self._transport.write(data)

    def flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)
