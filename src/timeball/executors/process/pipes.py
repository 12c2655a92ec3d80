"""Reads the output of a job process live in the event loop."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
from collections.abc import Callable
from typing import Final

from timeball.executors import results
from timeball.ports.executor import ExecutorAttempt

READ: Final = 64 * 1024
BURST: Final = 1024 * 1024
BURST_DELAY: Final = 0.015
"""Seconds that a pipe pauses after 1 MiB. So only a process that writes more than 64 MiB/s has to wait, and not the
other jobs.
"""
MAX_READ_PER_TURN: Final = 1024 * 1024
"""Maximum number of bytes that all pipes with one budget read in one turn of the event loop: a read takes up to 1.5 ms,
and a worker may have hundreds of jobs that print at the same time.
"""
MAX_PROGRESS_LENGTH: Final = 512
MAX_RESULT_LENGTH: Final = results.LARGEST + 1
"""Maximum number of characters of a line with a result: enough to see that it is too large."""

MAX_PROGRESS_LINES: Final = 16
"""Maximum number of progress lines that are tried in one piece of output, from its end, because only the last valid one
counts.
"""

_PERCENT = re.compile(r"\d{1,9}(?:\.\d{0,9})?", re.ASCII)
_BLANK: Final = " \t\r\f\v"


class ReadBudget:
    """The number of bytes that all pipes with this budget may still read in this turn of the event loop. When it is
    used up, the other pipes read in the next turn: the event loop calls them again, since their descriptors stay
    readable."""

    def __init__(self) -> None:
        self._left = MAX_READ_PER_TURN

    @property
    def exhausted(self) -> bool:
        return self._left <= 0

    def spend(self, size: int, loop: asyncio.AbstractEventLoop) -> None:
        if self._left == MAX_READ_PER_TURN:
            loop.call_soon(self._renew)
        self._left -= size

    def _renew(self) -> None:
        self._left = MAX_READ_PER_TURN


class Pipe:
    """Reads a descriptor to its end and passes its content on as text. Owns the descriptor."""

    def __init__(self, descriptor: int, on_text: Callable[[str], None], budget: ReadBudget) -> None:
        self._descriptor: int | None = descriptor
        self._on_text = on_text
        self._budget = budget
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._burst = 0
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._readable)

    def close(self) -> None:
        """Stop reading, even if a process still has the other end open."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
        rest = self._decoder.decode(b"", True)
        if rest:
            self._on_text(rest)
        if not self.ended.done():
            self.ended.set_result(None)

    def _readable(self) -> None:
        if self._descriptor is None or self._budget.exhausted:
            return
        try:
            data = os.read(self._descriptor, READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._budget.spend(len(data), self._loop)
        self._on_text(self._decoder.decode(data))
        self._burst += len(data)
        if self._burst >= BURST:
            self._burst = 0
            self._loop.remove_reader(self._descriptor)
            self._loop.call_later(BURST_DELAY, self._resume)

    def _resume(self) -> None:
        if self._descriptor is not None:
            self._loop.add_reader(self._descriptor, self._readable)


class OutputLines:
    """Finds commands for Timeball at the beginning of output lines: `::progress 50 optional message`, which is reported
    at once, and `::result JSON`, of which the last one counts.
    """

    def __init__(self, attempt: ExecutorAttempt) -> None:
        self._attempt = attempt
        self._begun = ""
        """The beginning of the current, incomplete line."""
        self._more: list[str] = []
        """The rest of the incomplete line, if it is a result."""
        self._room = MAX_RESULT_LENGTH
        self.result: str | None = None

    def feed(self, text: str) -> None:
        """Find progress and results in the next piece of output, which may begin and end within a line. This takes a
        few scans of the text, however many lines it has."""
        head, newline, rest = text.partition("\n")
        self._go_on(head)
        if not newline:
            return
        self.end()
        whole, _, begun = rest.rpartition("\n")
        if whole:
            self._lines(f"\n{whole}\n")
        self._go_on(begun)

    def _lines(self, text: str) -> None:
        """Report the last progress and keep the last result among complete lines. `text` begins and ends with a line
        break."""
        end = len(text)
        for _ in range(MAX_PROGRESS_LINES):
            at = text.rfind("\n::progress", 0, end)
            if at < 0 or self._progress(text[at + 1 : text.index("\n", at + 1)]):
                break
            end = at + 1
        at = max(text.rfind("\n::result "), text.rfind("\n::result\t"))
        if at >= 0:
            self._line(text[at + 1 : text.index("\n", at + 1)])

    def end(self) -> None:
        self._line(self._begun + "".join(self._more))
        self._begun, self._more, self._room = "", [], MAX_RESULT_LENGTH

    def _go_on(self, text: str) -> None:
        head = text[: MAX_PROGRESS_LENGTH - len(self._begun)]
        self._begun += head
        if len(head) < len(text) and self._begun.startswith("::result"):
            more = text[len(head) :][: self._room]
            self._room -= len(more)
            self._more.append(more)

    def _line(self, line: str) -> None:
        if line.startswith("::progress"):
            self._progress(line)
        elif line.startswith(("::result ", "::result\t")):
            self.result = line.removeprefix("::result").strip()

    def _progress(self, line: str) -> bool:
        step = _step(line[:MAX_PROGRESS_LENGTH])
        if step is not None:
            self._attempt.progress(*step)
        return step is not None


def _step(line: str) -> tuple[float, str] | None:
    """Return the fraction and the note of `::progress 50 note`, `50% note` or `50 % note`, or None for anything else.
    It reads the line once; a regular expression for the whole line took milliseconds for a line of blanks.
    """
    text = line.removeprefix("::progress")
    words = text.lstrip(_BLANK)
    percent = _PERCENT.match(words)
    if percent is None or len(words) == len(text):
        return None
    rest = words[percent.end() :]
    after = rest.lstrip(_BLANK)
    if after.startswith("%") and (len(after) == 1 or after[1] in _BLANK):
        rest = after[1:]
    if rest and rest[0] not in _BLANK:
        return None
    return float(percent[0]) / 100, rest.strip(_BLANK)
