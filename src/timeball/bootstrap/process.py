"""Signal handling and interpreter settings that every Timeball process uses."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys


class StopSignals:
    """The first SIGINT or SIGTERM drains the process, the second stops it at once."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


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
