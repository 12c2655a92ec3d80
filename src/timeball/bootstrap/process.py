"""What every Timeball process has: signals that end it, and an interpreter that is tuned for it."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys


class StopSignals:
    """The first interrupt asks to finish, the second to stop at once."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._heard)

    def _heard(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


def tune_interpreter() -> None:
    """Once all is up. What is there now stays, so the garbage collector need not look at it again; and it need not look
    after every 700 objects, which a batch of jobs makes many times over: almost all of them go without it.

    The event loop and the thread that writes to the store take turns several times per commit. Who waits gets the
    interpreter after 5 ms by default, which is longer than a commit takes; 50 µs cost the others little, since the
    writer needs the interpreter only between two statements."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    sys.setswitchinterval(0.000_05)
