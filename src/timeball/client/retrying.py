"""The limits within which a client repeats requests while no server answers. The callers do the waiting, so that both
clients share this module."""

from __future__ import annotations

from typing import Final

from timeball.client import exchange
from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.system import monotonic

NO_ANSWER_TIMEOUT: Final = 60 * SECOND
"""Maximum time without an answer of any server, in microseconds: longer than a restart takes."""


class Retrying:
    """Computes the pauses between repeated requests. The first failure is final if no server has answered before,
    because the address may be wrong."""

    def __init__(self) -> None:
        self.reached = False
        """True if a server has answered."""
        self._failures = 0
        self._failing_since: Micros | None = None

    def restart_limit(self) -> None:
        """Restart the time limit, because a server has sent something."""
        self._failing_since = None

    def relax(self) -> None:
        """Restart the time limit and the backoff, because a server has sent the expected answer."""
        self.reached = True
        self._failures = 0
        self.restart_limit()

    def pause(self, error: Unavailable) -> float:
        """Return the seconds until the next request. Raise the error if no server has answered yet, or if none has
        answered for 60 seconds."""
        now = monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if not self.reached or now - self._failing_since > NO_ANSWER_TIMEOUT:
            raise error
        pause = min(exchange.backoff(self._failures), error.retry_after)
        self._failures += 1
        return pause
