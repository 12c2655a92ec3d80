"""Who ends a worker's job processes when the worker itself no longer can."""

from __future__ import annotations

from typing import Protocol

from timeball.domain.instant import Micros


class Guard(Protocol):
    """Keeps no process alive beyond its worker's right to run it."""

    def renew(self, deadline: Micros) -> None:
        """At this moment of the monotonic clock every job process is killed, unless a later one was told before."""
        ...

    def renew_from_thread(self, deadline: Micros) -> None:
        """The same from another thread than the event loop's, which may be stalled."""
        ...

    def kill_all(self) -> None:
        """Kill every job process at once. Those who wait for one see it end."""
        ...
