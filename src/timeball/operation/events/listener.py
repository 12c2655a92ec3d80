"""One client that listens: what waits for it is bounded, and the bytes are shared with other listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from timeball.operation.events.filters import EventFilter

MAX_BACKLOG_BYTES: Final = 256 * 1024
MAX_BACKLOG_CHUNKS: Final = 256
"""Maximum size and number of chunks that wait for a slow client. The client is then dropped; it connects again and
resumes."""


class EventListener:
    def __init__(self, tenant: str, where: EventFilter, key_id: str) -> None:
        self.tenant: Final = tenant
        self.where: Final = where
        self.key_id: Final = key_id
        self.is_closed = False
        self.on_slow: Callable[[], None] = lambda: None
        """Called when the client is dropped because it does not read."""
        self._write: Callable[[bytes], bool] | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._ready = asyncio.Event()

    def push(self, chunk: bytes) -> None:
        if self.is_closed:
            return
        if self._write is not None:
            if not self._write(chunk):
                self._drop()
            return
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._size > MAX_BACKLOG_BYTES or len(self._chunks) > MAX_BACKLOG_CHUNKS:
            self._drop()
        else:
            self._ready.set()

    def write_to(self, write: Callable[[bytes], bool]) -> None:
        """Pass each chunk to a function from now on, instead of keeping it for `take`. It returns False if the client
        does not read. Waking a task for each chunk would cost more than the rest of an event."""
        chunks, self._chunks, self._size = self._chunks, [], 0
        self._write = write
        if not self.is_closed:
            self._ready.clear()
        for chunk in chunks:
            self.push(chunk)

    def close(self) -> None:
        """End the stream after what waits already."""
        self.is_closed = True
        self._ready.set()

    async def take(self) -> bytes:
        """Return what is to be sent next; empty if the stream has ended."""
        await self._ready.wait()
        chunks, self._chunks, self._size = self._chunks, [], 0
        if not self.is_closed:
            self._ready.clear()
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _drop(self) -> None:
        self._chunks, self._size = [], 0
        self.close()
        self.on_slow()
