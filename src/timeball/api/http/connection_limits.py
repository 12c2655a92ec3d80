"""Limits of connections, time and buffers, for each client and for all of them together.

A connection is *known* once a request on it had a valid credential: an API key, a token or a web session. Until then it
is called a *stranger*. The number of strangers is limited: beyond the limit, the server closes the oldest stranger for
each new one. One sweep per second checks all connections, so that a request needs no timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from timeball.slices import TurnQueue

MAX_HEAD_BYTES: Final = 32 * 1024
"""Maximum size of the head of a request: its first line and all headers. Also of the trailers of a chunked body."""
MAX_HEADERS: Final = 100

log = logging.getLogger("timeball.api")


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionLimits:
    max_connections: int = 10_000
    max_strangers: int = 1_000
    max_unread_strangers: int = 100
    """Maximum number of strangers whose client does not read its answers. Each may keep a whole answer in memory.
    """
    max_stranger_answers: int = 20
    """Number of answers after which the server closes the connection of a stranger, because a series of requests costs
    more than a connection.
    """
    head_seconds: float = 10.0
    """Maximum time from the start of a connection, or from the first byte of a request, to the end of the request's
    head.
    """
    body_seconds: float = 10.0
    """Maximum time for a body, plus the time that its received bytes take at `min_bytes_per_second`."""
    discard_seconds: float = 10.0
    """Maximum time for the rest of a refused body. A client that still sends could not read the answer otherwise."""
    write_seconds: float = 30.0
    """Maximum time without progress for an answer that a stranger does not read.
    """
    known_write_seconds: float = 300.0
    """Maximum time without progress for an answer on a known connection. It is longer, because a client may pause while
    it reads a long stream.
    """
    min_bytes_per_second: int = 1_024
    sweep_seconds: float = 1.0


def address_of(peer_name: object) -> str:
    """Return the network address in the name of the other end of a socket; empty if the name has none."""
    return str(peer_name[0]) if isinstance(peer_name, tuple) and peer_name else ""


class Served(Protocol):
    """The protocol that currently handles a connection."""

    def overdue(self, now: float) -> bool:
        """True if the client has not sent what the server waits for in time."""
        ...


class Peer:
    """One connection. Different protocols may handle it one after the other."""

    __slots__ = (
        "_answers",
        "_closing_since",
        "_connections",
        "_unread",
        "_unread_since",
        "address",
        "connecting",
        "is_gone",
        "is_known",
        "served",
        "transport",
    )

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.address = ""
        """The network address of the client; empty if the connection has none, or is not established."""
        self._answers = 0
        self._closing_since: float | None = None
        self._unread_since: float | None = None
        self._unread = 0
        """Number of bytes that the client had not read when progress was last seen (`_unread_since`)."""
        self.connecting: asyncio.Task[None] | None = None
        """Set until the connection is established. With TLS that takes a handshake."""
        self.transport: asyncio.Transport | None = None
        self.served: Served | None = None
        self.is_known = False
        self.is_gone = False

    @property
    def limits(self) -> ConnectionLimits:
        return self._connections.limits

    def admit(self) -> None:
        """Mark the connection as known, because a request on it had a valid credential. The limits for strangers do not
        apply to it any more."""
        if not self.is_known:
            self.is_known = True
            self._connections.admitted(self)

    def is_last_answer(self) -> bool:
        """Count an answer. Return True if the connection closes after it."""
        if self.is_known:
            return False
        self._answers += 1
        return self._answers >= self.limits.max_stranger_answers

    async def wait_for_turn(self) -> None:
        """Wait until the server may answer this connection; a known connection does not wait. All strangers share one
        queue: per turn of the event loop, one of them gets its answer. So requests of strangers, however many, add only
        one answer to each turn.
        """
        if not self.is_known:
            await self._connections.stranger_turn()

    def gone(self) -> None:
        self.is_gone = True
        self._connections.discard(self)

    def drop(self) -> None:
        """Abort the connection at once."""
        self.gone()
        if self.transport is not None:
            self.transport.abort()
        elif self.connecting is not None:
            self.connecting.cancel()

    def write(self, data: bytes, limit: int) -> bool:
        """Write bytes of an answer in progress. Return False, and write nothing, if more than `limit` bytes wait for
        the client, or if the connection is closing.
        """
        transport = self.transport
        if transport is None or transport.is_closing() or transport.get_write_buffer_size() > limit:
            return False
        transport.write(data)
        return True

    def paused_writing(self) -> None:
        """Record that the client does not read its answers."""
        assert self.transport is not None
        self._unread_since = asyncio.get_running_loop().time()
        self._unread = self.transport.get_write_buffer_size()
        self._connections.unread(self)

    def resumed_writing(self) -> None:
        self._unread_since = None
        self._connections.read(self)

    def overdue(self, now: float) -> bool:
        transport, limits = self.transport, self.limits
        if transport is None:
            return False
        write_seconds = limits.known_write_seconds if self.is_known else limits.write_seconds
        if self._unread_since is not None:
            unread = transport.get_write_buffer_size()
            if unread < self._unread:
                self._unread, self._unread_since = unread, now
            return now - self._unread_since > write_seconds
        if transport.is_closing():
            if self._closing_since is None:
                self._closing_since = now
            return now - self._closing_since > write_seconds
        return self.served is not None and self.served.overdue(now)


class Connections:
    """All connections of a server."""

    def __init__(self, limits: ConnectionLimits = ConnectionLimits()) -> None:
        self.limits = limits
        self._strangers: dict[Peer, None] = {}
        """The strangers, the oldest first."""
        self._known: set[Peer] = set()
        self._unread: dict[Peer, None] = {}
        """The strangers whose client does not read its answers, in the order in which reading stopped."""
        self._sweeping: asyncio.TimerHandle | None = None
        self._full = False
        self._stranger_turns: TurnQueue | None = None

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def __iter__(self) -> Iterator[Peer]:
        return iter([*self._strangers, *self._known])

    @property
    def is_crowded(self) -> bool:
        """True if the maximum number of strangers is reached: each new connection displaces the oldest stranger."""
        return len(self._strangers) >= self.limits.max_strangers

    def open(self) -> Peer | None:
        """Return a new connection, for which the oldest stranger may be closed; None if the maximum of connections is
        reached and there is no stranger to close.
        """
        limits = self.limits
        if self.is_crowded:
            self.evict()
        if len(self) >= limits.max_connections and not self.evict():
            if not self._full:
                log.warning("all %d connections are in use: new ones are closed", limits.max_connections)
            self._full = True
            return None
        self._full = False
        peer = Peer(self)
        self._strangers[peer] = None
        return peer

    def evict(self) -> bool:
        """Close the oldest stranger. Return False if there is none."""
        oldest = next(iter(self._strangers), None)
        if oldest is None:
            return False
        oldest.drop()
        return True

    def admitted(self, peer: Peer) -> None:
        if peer in self._strangers:
            del self._strangers[peer]
            self._known.add(peer)
            self._unread.pop(peer, None)

    def discard(self, peer: Peer) -> None:
        self._strangers.pop(peer, None)
        self._known.discard(peer)
        self._unread.pop(peer, None)

    def unread(self, peer: Peer) -> None:
        if peer in self._strangers:
            self._unread[peer] = None
            if len(self._unread) > self.limits.max_unread_strangers:
                next(iter(self._unread)).drop()

    def read(self, peer: Peer) -> None:
        self._unread.pop(peer, None)

    async def stranger_turn(self) -> None:
        if self._stranger_turns is None:
            self._stranger_turns = TurnQueue(asyncio.get_running_loop())
        await self._stranger_turns.turn()

    # --- the sweep --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(self.limits.sweep_seconds, self._sweep)

    def stop(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None

    def _sweep(self) -> None:
        self.start()
        now = asyncio.get_running_loop().time()
        for peer in self:
            if peer.overdue(now):
                with suppress(Exception):  # a connection that cannot be closed must not keep the others open
                    peer.drop()
