"""What one client, and all of them together, may cost a server: connections, time and buffers.

A connection is *known* once a request on it was made with a valid key. Until then it is a *stranger*: the number of
strangers is small, and the oldest one makes room for the next. One sweep per second looks at all connections, so that a
request costs no timer.
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
"""Of a request: its line and all headers, and likewise of the trailers of a body in chunks."""
MAX_HEADERS: Final = 100

log = logging.getLogger("timeball.api")


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionLimits:
    max_connections: int = 10_000
    max_strangers: int = 1_000
    max_unread_strangers: int = 100
    """Strangers that do not take their answers: each of those keeps up to a whole document in memory."""
    max_stranger_answers: int = 20
    """A stranger's connection closes after so many answers: requests in a row cost more than a connection."""
    head_seconds: float = 10.0
    """From a connection's start, or from a request's first byte, to the end of the request's head."""
    body_seconds: float = 10.0
    """A body may take this long, and longer the more of it has come: see `min_bytes_per_second`."""
    discard_seconds: float = 10.0
    """For the rest of a body that was refused: a client that still sends would not see the answer otherwise."""
    write_seconds: float = 30.0
    """A stranger whose buffers are full may take nothing of its answers for this long."""
    known_write_seconds: float = 300.0
    """The same for a known connection: a client may pause while it reads a long stream."""
    min_bytes_per_second: int = 1_024
    sweep_seconds: float = 1.0


class Served(Protocol):
    """The protocol that has a connection."""

    def overdue(self, now: float) -> bool:
        """Whether the client owes the server something for too long."""
        ...


class Peer:
    """One connection, whichever protocol has it."""

    __slots__ = (
        "_answers",
        "_closing_since",
        "_connections",
        "_unread",
        "_unread_since",
        "connecting",
        "is_gone",
        "is_known",
        "served",
        "transport",
    )

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._answers = 0
        self._closing_since: float | None = None
        self._unread_since: float | None = None
        self._unread = 0
        """Bytes that the client had not taken then."""
        self.connecting: asyncio.Task[None] | None = None
        """Until the transport is there: with TLS that takes a handshake."""
        self.transport: asyncio.Transport | None = None
        self.served: Served | None = None
        self.is_known = False
        self.is_gone = False

    @property
    def limits(self) -> ConnectionLimits:
        return self._connections.limits

    def admit(self) -> None:
        """A request on it was made with a valid key."""
        if not self.is_known:
            self.is_known = True
            self._connections.admitted(self)

    def is_last_answer(self) -> bool:
        """Count an answer; whether the connection closes with it."""
        if self.is_known:
            return False
        self._answers += 1
        return self._answers >= self.limits.max_stranger_answers

    async def wait_for_turn(self) -> None:
        """Before an answer: strangers have one per turn of the event loop, all together. However many requests without
        a key arrive, at least half of the loop's time is for others."""
        if not self.is_known:
            await self._connections.stranger_turn()

    def gone(self) -> None:
        self.is_gone = True
        self._connections.discard(self)

    def drop(self) -> None:
        """At once, whatever is under way."""
        self.gone()
        if self.transport is not None:
            self.transport.abort()
        elif self.connecting is not None:
            self.connecting.cancel()

    def paused_writing(self) -> None:
        """The client does not take its answers."""
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
        """The oldest first."""
        self._known: set[Peer] = set()
        self._unread: dict[Peer, None] = {}
        """Strangers with unread answers, those first that have been so for longest."""
        self._sweeping: asyncio.TimerHandle | None = None
        self._full = False
        self._stranger_turns: TurnQueue | None = None

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def __iter__(self) -> Iterator[Peer]:
        return iter([*self._strangers, *self._known])

    @property
    def is_crowded(self) -> bool:
        """Whether each new connection evicts another one."""
        return len(self._strangers) >= self.limits.max_strangers

    def open(self) -> Peer | None:
        """A new connection, for which an older stranger may have to go; None: there is no room."""
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
        """Drop the oldest stranger, if there is one."""
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
                with suppress(Exception):  # one connection that cannot be closed keeps none of the others open
                    peer.drop()
