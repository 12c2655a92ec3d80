"""Waiting for a run, without the waiting itself: shared by every client."""

from __future__ import annotations

from math import inf
from typing import Final

from timeball.client.models.runs import Run
from timeball.client.retrying import Retrying
from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND
from timeball.system import monotonic

FIRST_PAUSE: Final = 0.05


class RunWait:
    """How long to wait between two looks at a run: a moment at first, then longer, up to `every` seconds."""

    def __init__(self, timeout: float | None, every: float) -> None:
        self._timeout = timeout
        self._deadline = None if timeout is None else monotonic() + int(timeout * SECOND)
        self._every = every
        self._pause = min(FIRST_PAUSE, every)
        self._seen: Run | None = None
        self._patience = Retrying()

    def saw(self, run: Run) -> float:
        """Seconds until the next look. Raises `TimeoutError` when there is no time for one."""
        self._seen = run
        self._patience.relax()
        if self._left <= 0:
            raise TimeoutError(f"run {run.run_id} is still {run.status} after {self._timeout:g} s")
        pause = min(self._pause, self._left)
        self._pause = min(self._pause * 1.5, self._every)
        return pause

    def broke(self, error: Unavailable) -> float:
        """The same when no server answered. Raises the error, if none ever did or if this lasts too long."""
        pause = self._patience.pause(error)
        if self._left <= 0 and self._seen is not None:
            last = f"run {self._seen.run_id}, which was {self._seen.status}"
            raise TimeoutError(f"nothing new of {last}, after {self._timeout:g} s: {error}") from error
        return min(pause, self._left)

    @property
    def _left(self) -> float:
        """Seconds."""
        return inf if self._deadline is None else max(0.0, (self._deadline - monotonic()) / SECOND)
