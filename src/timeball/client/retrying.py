"""How long a client bears with servers that do not answer, without the waiting itself: shared by every client."""

from __future__ import annotations

from typing import Final

from timeball.client import exchange
from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.system import monotonic

NO_ANSWER_TIMEOUT: Final = 60 * SECOND
"""How long no server may answer: more than a restart takes."""


class Retrying:
    """There is none with a server that was never there: its address may be wrong."""

    def __init__(self) -> None:
        self.reached = False
        """Whether there was ever an answer."""
        self._failures = 0
        self._failing_since: Micros | None = None

    def hope(self) -> None:
        """A sign of life: the minute begins anew."""
        self._failing_since = None

    def relax(self) -> None:
        """What was wanted came."""
        self.reached = True
        self._failures = 0
        self.hope()

    def pause(self, error: Unavailable) -> float:
        """Seconds until the next try. Raises the error, if there was never an answer or if this lasts too long."""
        now = monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if not self.reached or now - self._failing_since > NO_ANSWER_TIMEOUT:
            raise error
        pause = min(exchange.backoff(self._failures), error.retry_after)
        self._failures += 1
        return pause
