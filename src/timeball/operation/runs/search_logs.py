"""Search the output of one run for lines that contain a text. The output is read from its beginning, without an index;
one call reads a bounded part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct, structs

from timeball.operation.find import Logs
from timeball.ports.store.queries import LogLine

CHUNKS: Final = 64
"""Number of chunks that are read together: 64 KiB each at most."""
MAX_SEARCHED: Final = 4 << 20
"""Number of characters after which a call returns what it has found."""
MAX_LINE: Final = 64 << 10
"""Length from which on the rest of a line counts as another line, so that output without line breaks costs no more."""
PLACES: Final = 1_000_000
"""A position in the output of a run is `attempt * PLACES + seq`."""


class LogMatches(Struct, frozen=True):
    lines: list[LogLine]
    """The matching lines without their line breaks. The number of each is that of the chunk in which it begins."""
    after: int | None
    """The position after which the search continues; None: the whole output was searched."""


def place_of(chunk: LogLine) -> int:
    return chunk.attempt * PLACES + chunk.seq


async def search_logs(
    logs: Logs, run_id: str, attempt: int | None, after: int, text: str, limit: int = 1 << 30
) -> LogMatches:
    """Return the lines after a position that contain the text, in any case. The call ends after `MAX_SEARCHED`
    characters, or after the chunk that contains the last of `limit` matches.
    """
    wanted = text.casefold()
    joined = _Lines()
    found: list[LogLine] = []
    searched = 0
    last = after
    if after and (before := await logs(run_id, attempt, after - 1, 1)) and place_of(before[0]) == after:
        joined.continue_after(before[0])
    while chunks := await logs(run_id, attempt, last, CHUNKS):
        for chunk in chunks:
            last = place_of(chunk)
            searched += len(chunk.text)
            found += [line for line in joined.add(chunk) if wanted in line.text.casefold()]
            if searched >= MAX_SEARCHED or len(found) >= limit:
                rest = joined.rest(but_for=chunk)
                return LogMatches(found + [line for line in rest if wanted in line.text.casefold()], last)
    return LogMatches(found + [line for line in joined.rest() if wanted in line.text.casefold()], None)


class _Lines:
    """Joins chunks, which begin and end anywhere, into lines. Each stream has its own lines.

    The line that begins in the last chunk of a call belongs to the next call, which reads that chunk again. Other lines
    that are incomplete at the end of a call are cut there.
    """

    def __init__(self) -> None:
        self._begun: dict[str, LogLine] = {}
        self._attempt = 0

    def add(self, chunk: LogLine) -> Iterator[LogLine]:
        """Yield the lines that this chunk completes."""
        if chunk.attempt != self._attempt:  # the lines of an attempt end with it
            yield from self.rest()
            self._begun.clear()
            self._attempt = chunk.attempt
        first, *others = chunk.text.split("\n")
        line = self._begun.pop(chunk.stream, None)
        line = structs.replace(chunk, text=first) if line is None else structs.replace(line, text=line.text + first)
        for text in others:
            yield line
            line = structs.replace(chunk, text=text)
        if len(line.text) >= MAX_LINE:
            yield line
        elif line.text:
            self._begun[chunk.stream] = line

    def rest(self, but_for: LogLine | None = None) -> list[LogLine]:
        """Return the lines that are incomplete so far, without the one that begins in a chunk."""
        left_out = None if but_for is None or "\n" not in but_for.text else but_for.stream
        return [line for stream, line in self._begun.items() if stream != left_out]

    def continue_after(self, chunk: LogLine) -> None:
        """Begin with the line that begins in a chunk which was read before."""
        _, line_break, text = chunk.text.rpartition("\n")
        self._attempt = chunk.attempt
        if line_break and 0 < len(text) < MAX_LINE:
            self._begun[chunk.stream] = structs.replace(chunk, text=text)
