"""How the descriptors of a process are shared out: the store and the like, runs, and connections."""

from __future__ import annotations

import contextlib
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from timeball.api.http.connection_limits import ConnectionLimits

MAX_DESCRIPTORS: Final = 131_072
"""More than the most slots and connections take."""
RESERVED_DESCRIPTORS: Final = 100
"""For the store and its pool, objects, the guard, the event loop and the standard library."""
DESCRIPTORS_PER_RUN: Final = 5
"""A process run has up to three pipes in the worker, and what its start takes; an HTTP run has one socket."""
MIN_CONNECTIONS: Final = 64
"""That a server keeps for clients and workers, however many slots it has."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Descriptors:
    limit: int
    original: int
    """The soft limit with which this process was started: for the jobs, since programs that use select() break with
    descriptors above 1,023."""

    def slots(self, wanted: int, *, serving: bool) -> int:
        """As many of these slots as can be served. `serving`: there is a server in this process, too."""
        left = self.limit - RESERVED_DESCRIPTORS - (MIN_CONNECTIONS if serving else 0)
        slots = max(1, min(wanted, left // DESCRIPTORS_PER_RUN))
        if slots < wanted:
            _log.warning(
                "fewer slots than were asked for: the limit of descriptors (ulimit -n) allows no more",
                slots=slots,
                asked=wanted,
                limit=self.limit,
            )
        return slots

    def connections(self, slots: int) -> ConnectionLimits:
        """For a server beside that many slots."""
        from timeball.api.http.connection_limits import ConnectionLimits

        usual = ConnectionLimits()
        left = self.limit - RESERVED_DESCRIPTORS - slots * DESCRIPTORS_PER_RUN
        connections = max(MIN_CONNECTIONS // 2, min(usual.max_connections, left))
        strangers = min(usual.max_strangers, connections // 2)
        return ConnectionLimits(max_connections=connections, max_strangers=strangers)


def raise_limit() -> Descriptors:
    """As many descriptors as this process may have."""
    original, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if original == resource.RLIM_INFINITY:
        return Descriptors(MAX_DESCRIPTORS, original)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if wanted > original:
        with contextlib.suppress(OSError, ValueError):  # a sandbox may forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return Descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[0], original)
