"""Divides the file descriptors of a process between the store, runs and connections."""

from __future__ import annotations

import contextlib
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from timeball.domain.dispatch.slot_bounds import SlotBounds

if TYPE_CHECKING:
    from timeball.api.http.connection_limits import ConnectionLimits

MAX_DESCRIPTORS: Final = 131_072
"""The process raises its limit to at most this many descriptors."""
RESERVED_DESCRIPTORS: Final = 100
"""Descriptors for the store and its pool, objects, the guard, the event loop and the standard library."""
DESCRIPTORS_PER_RUN: Final = 5
"""Descriptors for one run. A process run has up to three pipes in the worker, and some during its start; an HTTP run
has one socket.
"""
SHARE_OF_SLOTS: Final = 4
"""The slots of a worker without a configured number of slots may use one descriptor in this many."""
MIN_DEFAULT_SLOTS: Final = 32
"""Number of slots of a worker without a configured number of slots, if the limit of descriptors is low."""
MIN_CONNECTIONS: Final = 64
"""Number of connections for clients and workers that the method `slots` leaves descriptors for, however many slots are
wanted. If the limit is very low, a server still accepts half as many."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Descriptors:
    limit: int
    original: int
    """The soft limit with which this process was started. Jobs get it, because programs that use select() fail with
    descriptors above 1,023.
    """

    def bounds(self, wanted: int | None, cpus: float, *, serving: bool, processes: int = 1) -> SlotBounds:
        """Return how many runs a worker executes at the same time. `wanted` is the configured number of its slots. If
        it is None, the worker gets an equal share of the default, which all `processes` of the command share. `serving`
        is True if the process contains a server as well.
        """
        if wanted is not None:
            return SlotBounds.all_alike(self.slots(wanted, serving=serving))
        most = max(MIN_DEFAULT_SLOTS, self.limit // (SHARE_OF_SLOTS * DESCRIPTORS_PER_RUN))
        return SlotBounds.usual(cpus, most).share(processes)

    def slots(self, wanted: int, *, serving: bool) -> int:
        """Return how many of the wanted slots have enough descriptors. `serving` is True if the process contains a
        server as well.
        """
        left = self.limit - RESERVED_DESCRIPTORS - (MIN_CONNECTIONS if serving else 0)
        slots = max(1, min(wanted, left // DESCRIPTORS_PER_RUN))
        if slots < wanted:
            _log.warning(
                "fewer slots than configured: the limit of file descriptors (ulimit -n) allows no more",
                slots=slots,
                asked=wanted,
                limit=self.limit,
            )
        return slots

    def connections(self, slots: int) -> ConnectionLimits:
        """Return the connection limits of a server in a process with that many slots."""
        from timeball.api.http.connection_limits import ConnectionLimits

        usual = ConnectionLimits()
        left = self.limit - RESERVED_DESCRIPTORS - slots * DESCRIPTORS_PER_RUN
        connections = max(MIN_CONNECTIONS // 2, min(usual.max_connections, left))
        strangers = min(usual.max_strangers, connections // 2)
        return ConnectionLimits(max_connections=connections, max_strangers=strangers)


def raise_limit() -> Descriptors:
    """Raise the soft limit of file descriptors as far as this process may, up to `MAX_DESCRIPTORS`."""
    original, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if original == resource.RLIM_INFINITY:
        return Descriptors(MAX_DESCRIPTORS, original)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if wanted > original:
        with contextlib.suppress(OSError, ValueError):  # a sandbox may forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return Descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[0], original)
