"""Peers that have a kind of jobs, measured by `bench.peers`: the drain of a backlog that was filled before."""

from __future__ import annotations

from typing import Final

from bench.deployment import Trouble
from bench.kinds.burst import Burst
from bench.peers.catalogue import PEERS
from bench.peers.drain import PeerError, drain

JOBS: Final = 2_000
"""Size of the backlog of a peer."""
REDIS_FSYNC: Final = "everysec"


def drained(name: str, jobs: int) -> Burst:
    """Drain a backlog of no-op jobs with a peer, which is installed before if it is missing."""
    peer = next(peer for peer in PEERS if peer.name == name)
    try:
        found = drain(peer, jobs, REDIS_FSYNC)
    except PeerError as error:
        raise Trouble(str(error)) from error
    return Burst(found.done, found.seconds, {"workers and store": found.cpu_seconds})
