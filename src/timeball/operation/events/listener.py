"""One client that listens to events. The amount of data that waits for it is bounded, and the encoded bytes are shared
with other listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from timeball.operation.events.filters import EventFilter

MAX_BACKLOG_BYTES: Final = 256 * 1024
MAX_BACKLOG_CHUNKS: Final = 256
"""Maximum number of chunks that wait for a slow client. If more chunks wait, or more than `MAX_BACKLOG_BYTES`, the
client is dropped; it can connect again and resume."""


class EventListener:
    def __init__(self, tenant: str, where: EventFilter, key_id: str) -> None:
        self.tenant: Final = tenant
        self.where: Final = where
        self.key_id: Final = key_id
        self.is_closed = False
        self.on_slow: Callable[[], None] = lambda: None
        """The function that is called when the client is dropped because it does not read."""
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
        """From now on, pass each chunk to a function instead of keeping it for `take`. The function returns False if
        the client does not read. Waking an asyncio task for each chunk would cost more than everything else about an
        event."""
        chunks, self._chunks, self._size = self._chunks, [], 0
        self._write = write
        if not self.is_closed:
            self._ready.clear()
        for chunk in chunks:
            self.push(chunk)

    def close(self) -> None:
        """End the stream after the chunks that wait already."""
        self.is_closed = True
        self._ready.set()

    async def take(self) -> bytes:
        """Return the chunks to send next; empty if the stream has ended."""
        await self._ready.wait()
        chunks, self._chunks, self._size = self._chunks, [], 0
        if not self.is_closed:
            self._ready.clear()
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _drop(self) -> None:
        self._chunks, self._size = [], 0
        self.close()
        self.on_slow()
