"""Waits for the events of the guard.

No third-party package is imported here, because the guard process uses this module.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterable

MAX_WAIT_SECONDS = 60.0


class Poller:
    """Signals and other threads wake it by a pipe."""

    def __init__(self) -> None:
        self._wake, self._wake_w = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._wake_w, False)
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)

    def wake_up(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_w, b"\0")

    def wait(self, readable: Iterable[int], writable: int | None, timeout: float | None) -> dict[int, int]:
        """Wait until a descriptor is readable, `writable` is writable, `wake_up` is called, a signal arrives or the
        timeout passes. Return the descriptors that have events.
        """
        poll = select.poll()
        for descriptor in (self._wake, *readable):
            poll.register(descriptor, select.POLLIN | (select.POLLOUT if descriptor == writable else 0))
        ready = dict(poll.poll(None if timeout is None else min(timeout, MAX_WAIT_SECONDS) * 1e3))
        if ready.pop(self._wake, 0):
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
        return ready
