"""The pauses between requests of a client that waits for a run. The callers do the waiting, so that both clients share
this module."""

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
    """The pauses between two requests for a run: 50 ms at first, then 1.5 times longer each time, up to `every`
    seconds."""

    def __init__(self, timeout: float | None, every: float) -> None:
        self._timeout = timeout
        self._deadline = None if timeout is None else monotonic() + int(timeout * SECOND)
        self._every = every
        self._pause = min(FIRST_PAUSE, every)
        self._seen: Run | None = None
        self._retrying = Retrying()

    def received(self, run: Run) -> float:
        """Return the seconds until the next request. Raise `TimeoutError` if the timeout has passed."""
        self._seen = run
        self._retrying.relax()
        if self._left <= 0:
            raise TimeoutError(f"run {run.run_id} is still {run.status} after {self._timeout:g} s")
        pause = min(self._pause, self._left)
        self._pause = min(self._pause * 1.5, self._every)
        return pause

    def broke(self, error: Unavailable) -> float:
        """Return the seconds until the next request after a failed one. Raise the error if no server has answered yet,
        or if none has answered for 60 seconds. Raise `TimeoutError` if the timeout has passed."""
        pause = self._retrying.pause(error)
        if self._left <= 0 and self._seen is not None:
            last = f"run {self._seen.run_id}, which was {self._seen.status} in the last answer"
            raise TimeoutError(f"no server has answered about {last}, after {self._timeout:g} s: {error}") from error
        return min(pause, self._left)

    @property
    def _left(self) -> float:
        """Seconds until the timeout; infinite without a timeout."""
        return inf if self._deadline is None else max(0.0, (self._deadline - monotonic()) / SECOND)
