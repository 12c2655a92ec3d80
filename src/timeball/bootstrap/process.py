"""Signal handling and interpreter settings that every Timeball process uses."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from typing import Final

SAME_ORDER_SECONDS: Final = 0.2
"""Two signals within this time are one order: a service manager may signal all processes of a service, and the
supervisor of this process passes on the signal that it got."""


class StopSignals:
    """The first SIGINT or SIGTERM drains the process, the second stops it at once."""

    def __init__(self, lifeline: int | None = None) -> None:
        """`lifeline` is the reading end of a pipe that is at its end as soon as the supervisor of this process is gone,
        which counts as the first signal. None: the process has no supervisor.
        """
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        self._is_supervised = lifeline is not None
        self._first_at = 0.0
        self._loop = loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        if lifeline is not None:
            loop.add_reader(lifeline, self._on_end_of_supervisor, lifeline)

    def _on_end_of_supervisor(self, lifeline: int) -> None:
        self._loop.remove_reader(lifeline)
        self.first.set()

    def _on_signal(self) -> None:
        now = self._loop.time()
        if not self.first.is_set():
            self._first_at = now
            self.first.set()
        elif not self._is_supervised or now - self._first_at >= SAME_ORDER_SECONDS:
            self.second.set()


def tune_interpreter() -> None:
    """Tune the interpreter, after everything has started. Existing objects live as long as the process, so the garbage
    collector skips them. It runs after 10,000 new objects instead of 700 (the default), since a batch of jobs creates
    many times as many objects, and almost all of them are freed without the collector.

    The event loop and the thread that writes to the store take turns several times per commit. By default a thread that
    waits for the interpreter gets it after 5 ms, which is longer than a commit takes. With 50 µs the other threads lose
    little, since the writer needs the interpreter only between two statements.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    sys.setswitchinterval(0.000_05)
