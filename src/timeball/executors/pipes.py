"""The output of a job process, read live in the event loop."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import re
from collections.abc import Callable
from typing import Final

from timeball.executors import results
from timeball.ports.executor import Attempt

READ: Final = 64 * 1024
BURST: Final = 1024 * 1024
REST: Final = 0.015
"""After a burst a pipe rests this many seconds: a flood of more than 64 MiB/s waits, and nobody else does."""
LONGEST_PROGRESS: Final = 512
LONGEST_RESULT: Final = results.LARGEST + 1
"""Characters to remember of a line with a result: enough to see that it is too large."""

_PROGRESS = re.compile(r"::progress\s+(\d{1,9}(?:\.\d{0,9})?)\s*%?(?:\s+(.*?))?\s*", re.ASCII)


class Pipe:
    """Reads a descriptor to its end and hands on what it says, as text. Owns the descriptor."""

    def __init__(self, descriptor: int, heard: Callable[[str], None]) -> None:
        self._descriptor: int | None = descriptor
        self._heard = heard
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._burst = 0
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._readable)

    def close(self) -> None:
        """Stop listening, whoever still holds the other end."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
        rest = self._decoder.decode(b"", True)
        if rest:
            self._heard(rest)
        if not self.ended.done():
            self.ended.set_result(None)

    def _readable(self) -> None:
        if self._descriptor is None:
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
        self._heard(self._decoder.decode(data))
        self._burst += len(data)
        if self._burst >= BURST:
            self._burst = 0
            self._loop.remove_reader(self._descriptor)
            self._loop.call_later(REST, self._resume)

    def _resume(self) -> None:
        if self._descriptor is not None:
            self._loop.add_reader(self._descriptor, self._readable)


class SaidLines:
    """Finds what a process tells Timeball at the beginning of lines: `::progress 50 optional message` as soon as it is
    said, and `::result JSON`, of which the last one counts."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._begun = ""
        """The beginning of the line that has not ended yet."""
        self._more: list[str] = []
        """The rest of it, if it is a result."""
        self._room = LONGEST_RESULT
        self.result: str | None = None

    def feed(self, text: str) -> None:
        head, newline, rest = text.partition("\n")
        self._go_on(head)
        if not newline:
            return
        self.end()
        if "::progress" in rest or "::result" in rest:
            for line in rest.split("\n")[:-1]:
                self._line(line)
        self._go_on(rest.rpartition("\n")[2])

    def end(self) -> None:
        self._line(self._begun + "".join(self._more))
        self._begun, self._more, self._room = "", [], LONGEST_RESULT

    def _go_on(self, text: str) -> None:
        head = text[: LONGEST_PROGRESS - len(self._begun)]
        self._begun += head
        if len(head) < len(text) and self._begun.startswith("::result"):
            more = text[len(head) :][: self._room]
            self._room -= len(more)
            self._more.append(more)

    def _line(self, line: str) -> None:
        if line.startswith("::progress") and (match := _PROGRESS.fullmatch(line[:LONGEST_PROGRESS])):
            with contextlib.suppress(ValueError):
                self._attempt.progress(float(match[1]) / 100, match[2] or "")
        elif line.startswith(("::result ", "::result\t")):
            self.result = line.removeprefix("::result").strip()
