"""Following what a run prints over lost connections and servers that restart, without the sending and waiting:
shared by every client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from timeball.client import exchange
from timeball.client.models.logs import LogChunk, LogLine, LogPage
from timeball.client.models.runs import Run
from timeball.client.requests import runs as requests
from timeball.client.requests.request import Request
from timeball.client.retrying import Retrying
from timeball.domain.errors import NotFound, Unavailable

PLACES: Final = 1_000_000
"""A chunk's place in the output of its run, which the API takes as a cursor, is `attempt * PLACES + seq`."""


class LogTail:
    """Where a follower is, and how it goes on.

    In each turn the client asks for `run` and tells what it `saw`; asks for `doubt`, if there is one, and tells what
    it `found`; then takes the `stream` and tells what it `heard` until that has `ended`. Whatever `broke` a turn, the
    next one goes on behind the last whole chunk. A stream that was begun after the end of the run misses nothing, so
    the end of such a one is the end of it all.
    """

    def __init__(self, run_id: str, attempt: int | None) -> None:
        self.over = False
        self.pause = 0.0
        """Seconds until the next turn."""
        self.run = requests.run(run_id)
        self._records = requests.follow(run_id)
        self._run_id = run_id
        self._attempt = attempt
        self._run_ended = False
        self._last: LogChunk | None = None
        self._after: int | None = None
        self._incomplete = b""
        self._silent = True
        self._patience = Retrying()

    def saw(self, run: Run) -> None:
        self._patience.reached = True
        self._run_ended = run.done

    @property
    def doubt(self) -> Request[LogPage] | None:
        """Whether the last chunk still stands. A worker that drains gives its attempt back: what that printed is
        forgotten, and the same places are filled anew by the next worker."""
        if self._last is None:
            return None
        return requests.log_page(self._run_id, attempt=self._attempt, cursor=str(_place(self._last) - 1), limit=1)

    def found(self, page: LogPage) -> None:
        if self._last is None:
            return
        if page.items[:1] == [self._last]:
            self._after = _place(self._last)
        else:
            self._after, self._last = self._last.attempt * PLACES - 1, None

    def stream(self) -> Request[LogChunk]:
        """Goes on where the last one broke off."""
        self._incomplete = b""
        self._silent = True
        cursor = None if self._after is None else str(self._after)
        return requests.follow(self._run_id, attempt=self._attempt, cursor=cursor)

    def heard(self, data: bytes) -> Iterator[LogChunk]:
        """The chunks that this completes. No data is a sign of life, too."""
        self._patience.hope()
        *records, self._incomplete = (self._incomplete + data).split(b"\n")
        for record in records:
            self._last = exchange.read(self._records, record)
            self._silent = False
            self._patience.relax()
            yield self._last

    def ended(self) -> None:
        self.over = self._run_ended and not self._incomplete
        self.pause = exchange.FIRST_PAUSE if self._silent and not self.over else 0.0

    def broke(self, error: NotFound | Unavailable) -> None:
        """Raises the error, if there was never a connection or if this lasts too long."""
        if isinstance(error, NotFound):
            if not self._patience.reached:
                raise error
            # An edit or a pause drops runs that have not started.
            self.over, self.pause = True, 0.0
            return
        self.pause = self._patience.pause(error)


class Lines:
    """Puts chunks, which begin and end anywhere, together to lines. Each stream has lines of its own."""

    def __init__(self) -> None:
        self._begun: dict[str, LogLine] = {}
        self._place = 0

    def add(self, chunk: LogChunk) -> Iterator[LogLine]:
        """The lines that this completes."""
        same_try = chunk.attempt == self._place // PLACES and _place(chunk) > self._place
        if not same_try or chunk.stream == "system":  # nobody writes the rest of what was begun
            yield from self.rest()
        self._place = _place(chunk)
        first, *others = chunk.text.split("\n")
        line = LogLine(attempt=chunk.attempt, stream=chunk.stream, at=chunk.at, text=first)
        if begun := self._begun.pop(chunk.stream, None):
            line = replace(begun, text=begun.text + first)
        for text in others:
            yield line
            line = LogLine(attempt=chunk.attempt, stream=chunk.stream, at=chunk.at, text=text)
        if line.text:
            self._begun[chunk.stream] = line

    def rest(self) -> list[LogLine]:
        """Lines that were begun and will not be completed."""
        begun = list(self._begun.values())
        self._begun.clear()
        return begun


def _place(chunk: LogChunk) -> int:
    return chunk.attempt * PLACES + chunk.seq
