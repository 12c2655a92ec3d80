"""The guard of a worker: it kills the worker's job processes when the worker itself no longer can."""

from __future__ import annotations

from typing import Protocol

from timeball.domain.instant import Micros


class Guard(Protocol):
    """Kills every job process at a deadline that the worker moves with each renewal of its lease. So no job process
    outlives the lease, even if the worker has died or hangs.
    """

    def renew(self, deadline: Micros) -> None:
        """Set the deadline, an instant of the monotonic clock. At that instant every job process is killed, unless a
        later deadline is set before it comes.
        """
        ...

    def renew_from_thread(self, deadline: Micros) -> None:
        """Set the deadline, like `renew`, from a thread other than that of the event loop, which may be stalled."""
        ...

    def kill_all(self) -> None:
        """Kill every job process at once. Code that waits for one of these processes sees it end."""
        ...
