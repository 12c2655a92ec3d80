"""Waiting for a run, without the waiting itself: shared by every client."""

from __future__ import annotations

from typing import Final

from timeball.client.models import Run
from timeball.domain.instant import SECOND
from timeball.system import monotonic

FIRST_PAUSE: Final = 0.05


class Waiting:
    """How long to wait between two looks at a run: a moment at first, then longer, up to `every` seconds."""

    def __init__(self, timeout: float | None, every: float) -> None:
        self._timeout = timeout
        self._deadline = None if timeout is None else monotonic() + int(timeout * SECOND)
        self._every = every
        self._pause = min(FIRST_PAUSE, every)

    def pause(self, run: Run) -> float:
        """Seconds until the next look. Raises `TimeoutError` when there is no time for one."""
        pause = self._pause if self._deadline is None else min(self._pause, (self._deadline - monotonic()) / SECOND)
        if pause <= 0:
            raise TimeoutError(f"run {run.run_id} is still {run.status} after {self._timeout:g} s")
        self._pause = min(self._pause * 1.5, self._every)
        return pause
