"""The output of an attempt, bounded: its beginning is sent live, and of what follows only the end is kept.

The first 512 KiB are sent as they are written. Of what follows, the last 64 KiB are kept and sent when the attempt
ends, after a line that states how many bytes were dropped. So an attempt that prints without end needs no more memory.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec import structs

from timeball.domain.run.lifecycle import Failed
from timeball.ports.worker_protocol import (
    MAX_CHUNK_LENGTH,
    MAX_EXCEPTION_LENGTH,
    MAX_EXCEPTIONS,
    MAX_KIND_LENGTH,
    LogChunk,
)

LIVE: Final = 512 * 1024
TAIL: Final = 64 * 1024
CHUNK: Final = 16 * 1024
"""Number of waiting characters at which output is sent at once. Less output waits a moment for more."""
MAX_OUTCOME_MESSAGE_LENGTH: Final = 4_000


def clean(text: str) -> str:
    """Replace NUL characters and lone surrogates, which stores and JSON readers reject."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


class AttemptOutput:
    """Collects the output of one attempt, within the limits of this module."""

    __slots__ = ("_dropped", "_live_left", "_pending", "_seq", "_tail", "_tail_size", "waiting")

    def __init__(self) -> None:
        self._pending: list[tuple[str, str]] = []
        self._live_left = LIVE
        self._tail: deque[tuple[str, str]] = deque()
        self._tail_size = 0
        self._dropped = 0
        self._seq = 0
        self.waiting = 0
        """Number of characters that `take` would return now."""

    def write(self, stream: str, text: str) -> None:
        text = clean(text)
        if self._live_left:
            live, text = text[: self._live_left], text[self._live_left :]
            self._live_left -= len(live)
            self._pending.append((stream, live))
            self.waiting += len(live)
        if text:
            self._keep_end(stream, text)

    def _keep_end(self, stream: str, text: str) -> None:
        if len(text) > TAIL:
            self._dropped += _size(text[:-TAIL])
            text = text[-TAIL:]
        self._tail.append((stream, text))
        self._tail_size += len(text)
        while self._tail_size > TAIL:
            oldest_stream, oldest = self._tail.popleft()
            excess = min(self._tail_size - TAIL, len(oldest))
            self._dropped += _size(oldest[:excess])
            self._tail_size -= excess
            if excess < len(oldest):
                self._tail.appendleft((oldest_stream, oldest[excess:]))

    def close(self) -> None:
        """Add the kept end of the output to what `take` returns, because the attempt has ended."""
        if self._dropped:
            self._pending.append(("system", f"\n[{self._dropped} bytes of output were dropped here]\n"))
        self._pending.extend(self._tail)
        self._tail.clear()
        self._tail_size = self._dropped = 0

    def take(self, run_id: str, attempt: int, token: int) -> list[LogChunk]:
        """Return the output since the last call, in as few chunks as possible."""
        chunks: list[LogChunk] = []
        for stream, text in _joined(self._pending):
            chunks.append(
                LogChunk(run_id=run_id, attempt=attempt, token=token, seq=self._seq, stream=stream, text=text)
            )
            self._seq += 1
        self._pending.clear()
        self.waiting = 0
        return chunks


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _joined(pieces: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Join neighbouring pieces of the same stream, up to the maximum length of a chunk."""
    joined: list[tuple[str, str]] = []
    start = 0
    while start < len(pieces):
        stream = pieces[start][0]
        end = start
        while end < len(pieces) and pieces[end][0] == stream:
            end += 1
        text = "".join(piece for _, piece in pieces[start:end])
        joined.extend((stream, text[i : i + MAX_CHUNK_LENGTH]) for i in range(0, len(text), MAX_CHUNK_LENGTH))
        start = end
    return joined


def sendable(outcome: Failed) -> Failed:
    """Shorten the texts of a failure and remove characters that a store rejects. Messages, kinds and names of
    exceptions come from the job, and a text that cannot be stored would block the report of all later outcomes.
    """
    failure = outcome.failure
    kind = clean(failure.kind[:MAX_KIND_LENGTH])
    message = clean(failure.message[: MAX_OUTCOME_MESSAGE_LENGTH + 1])
    if len(message) > MAX_OUTCOME_MESSAGE_LENGTH:
        message = f"{message[:MAX_OUTCOME_MESSAGE_LENGTH]} […]"
    names = tuple(clean(name[:MAX_EXCEPTION_LENGTH]) for name in failure.exceptions[:MAX_EXCEPTIONS])
    if kind == failure.kind and message == failure.message and names == failure.exceptions:
        return outcome
    return Failed(structs.replace(failure, kind=kind, message=message, exceptions=names))
