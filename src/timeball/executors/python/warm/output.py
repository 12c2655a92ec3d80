"""Reads the output of a warm child: what it printed until a message arrived belongs to the run of that message."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Callable

from timeball.executors.process.pipes import BURST, BURST_DELAY, READ, ReadBudget


class OutputPipe:
    """The reading end of a pipe that many runs write to, one after the other. Owns its descriptor."""

    def __init__(self, descriptor: int, on_text: Callable[[str], None], budget: ReadBudget) -> None:
        self._descriptor = descriptor
        self._on_text = on_text
        self._budget = budget
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._burst = 0
        self._is_open = True
        self._is_watched = False
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        self._watch()

    def read_all(self) -> None:
        """Read what is in the pipe, after its writers have stopped to write for a run. It is bounded by the size of a
        pipe.
        """
        while self._is_open and self._read():
            pass
        if rest := self._decoder.decode(b"", True):
            self._on_text(rest)
        self._decoder.reset()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._unwatch()
            os.close(self._descriptor)

    def _readable(self) -> None:
        if not self._budget.exhausted:
            self._read()
        if self._burst >= BURST:
            self._burst = 0
            self._unwatch()
            self._loop.call_later(BURST_DELAY, self._watch)

    def _read(self) -> bool:
        """Read once. Return False if nothing is left for now."""
        try:
            data = os.read(self._descriptor, READ)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._unwatch()
            return False
        self._budget.spend(len(data), self._loop)
        self._burst += len(data)
        if text := self._decoder.decode(data):
            self._on_text(text)
        return True

    def _watch(self) -> None:
        if self._is_open and not self._is_watched:
            self._is_watched = True
            self._loop.add_reader(self._descriptor, self._readable)

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(self._descriptor)
