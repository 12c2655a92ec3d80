"""The state of a client that follows the output of a run across lost connections and restarts of servers. It has no
I/O, so that both clients share it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from timeball.client import exchange
from timeball.client.models.logs import LogChunk, LogLine, LogPage
from timeball.client.models.runs import Run
from timeball.client.requests import runs as requests
from timeball.client.requests.request import ApiRequest
from timeball.client.retrying import Retrying
from timeball.domain.errors import NotFound, Unavailable

PLACES: Final = 1_000_000
"""The position of a chunk in the output of its run is `attempt * PLACES + seq`. The API accepts it as a cursor."""


class LogTail:
    """The position of a client that follows the output of a run.

    The client works in rounds. It requests `run` and calls `received` with the answer. If there is a `doubt`, it
    requests that and calls `found`. Then it reads `stream`, decodes the data into chunks, and calls `ended` at the end
    of the stream. It calls `broke` with an error of any step; the next round continues after the last complete chunk. A
    stream that began after the end of the run contains all of the output, so the end of such a stream ends the rounds.
    """

    def __init__(self, run_id: str, attempt: int | None) -> None:
        self.over = False
        self.pause = 0.0
        """Seconds until the next round."""
        self.run = requests.run(run_id)
        self._records = requests.follow(run_id)
        self._run_id = run_id
        self._attempt = attempt
        self._run_ended = False
        self._last: LogChunk | None = None
        self._after: int | None = None
        self._incomplete = b""
        self._silent = True
        self._retrying = Retrying()

    def received(self, run: Run) -> None:
        """Store whether the run has ended, at the start of a round."""
        self._retrying.reached = True
        self._run_ended = run.done

    @property
    def doubt(self) -> ApiRequest[LogPage] | None:
        """The request that checks whether the last chunk is still stored. A worker that drains releases its attempt:
        the output of the attempt is deleted, and the next worker writes its output at the same positions."""
        if self._last is None:
            return None
        return requests.log_page(self._run_id, attempt=self._attempt, cursor=str(_place(self._last) - 1), limit=1)

    def found(self, page: LogPage) -> None:
        """Continue after the last chunk if it is still stored, otherwise at the start of its attempt."""
        if self._last is None:
            return
        if page.items[:1] == [self._last]:
            self._after = _place(self._last)
        else:
            self._after, self._last = self._last.attempt * PLACES - 1, None

    def stream(self) -> ApiRequest[LogChunk]:
        """Return the request for the output after the last position."""
        self._incomplete = b""
        self._silent = True
        cursor = None if self._after is None else str(self._after)
        return requests.follow(self._run_id, attempt=self._attempt, cursor=cursor)

    def received_chunk(self, data: bytes) -> Iterator[LogChunk]:
        """Yield the chunks that this data completes. Empty data also proves that the server answers."""
        self._retrying.restart_limit()
        *records, self._incomplete = (self._incomplete + data).split(b"\n")
        for record in records:
            self._last = exchange.read(self._records, record)
            self._silent = False
            self._retrying.relax()
            yield self._last

    def ended(self) -> None:
        """End a round after the end of its stream: `over` is True if the run had ended and the last chunk is
        complete."""
        self.over = self._run_ended and not self._incomplete
        self.pause = exchange.FIRST_PAUSE if self._silent and not self.over else 0.0

    def broke(self, error: NotFound | Unavailable) -> None:
        """End a round after an error. Raise the error if no server has answered yet, or none for 60 seconds. If the run
        was deleted between two rounds, set `over`."""
        if isinstance(error, NotFound):
            if not self._retrying.reached:
                raise error
            # An edit or a pause of the job deletes its runs that have not started.
            self.over, self.pause = True, 0.0
            return
        self.pause = self._retrying.pause(error)


class Lines:
    """Joins chunks, which begin and end anywhere, into lines. Each stream (`stdout`, `stderr`) has its own lines."""

    def __init__(self) -> None:
        self._begun: dict[str, LogLine] = {}
        self._place = 0

    def add(self, chunk: LogChunk) -> Iterator[LogLine]:
        """Yield the lines that this chunk completes."""
        same_try = chunk.attempt == self._place // PLACES and _place(chunk) > self._place
        if not same_try or chunk.stream == "system":  # incomplete lines stay incomplete
            yield from self.remaining()
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

    def remaining(self) -> list[LogLine]:
        """Return the incomplete lines that will not be completed."""
        begun = list(self._begun.values())
        self._begun.clear()
        return begun


def _place(chunk: LogChunk) -> int:
    return chunk.attempt * PLACES + chunk.seq
