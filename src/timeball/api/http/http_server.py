"""The server's end of HTTP: uvicorn without its listeners, which close for good when descriptors run out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Final

import uvicorn

from timeball.api.http.connection_limits import ConnectionLimits, Connections, Peer
from timeball.api.http.fast_protocol import FastProtocol

MAX_ACCEPTS_PER_TURN: Final = 4
"""Each takes about 0.2 ms, in which nothing else has a turn of the event loop."""
CROWDED_PAUSE_SECONDS: Final = 0.006_25
"""While there are as many strangers as may be, connections are accepted at no more than 640 per second: each of them
costs more than a request, and evicts another one that comes again. The others wait in the kernel's queue."""
ACCEPT_RETRY_SECONDS: Final = 0.1
"""After an accept that failed for want of descriptors or memory: the connection stays in the kernel's queue."""

log = logging.getLogger("timeball.api")


class HttpServer(uvicorn.Server):
    """Accepts connections itself, within limits. Signals are the caller's business: jobs finish before it goes."""

    def __init__(
        self,
        config: uvicorn.Config,
        limits: ConnectionLimits | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """`tls` gives the context for the next connection."""
        super().__init__(config)
        self.peers = Connections(limits or ConnectionLimits())
        self._tls = tls
        self._acceptors: list[Acceptor] = []
        self._fails = False
        """Whether the last connection failed through an error of the server, which is logged once."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        self.peers.start()
        self._acceptors = [Acceptor(each, self._connect, self.peers) for each in sockets or ()]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        try:
            await super().shutdown(sockets)
        finally:
            self.peers.stop()

    def _connect(self, accepted: socket.socket) -> None:
        peer = self.peers.open()
        if peer is None:
            accepted.close()
            return
        peer.connecting = asyncio.get_running_loop().create_task(self._establish(accepted, peer))
        # An eviction may come before the task has begun.
        peer.connecting.add_done_callback(lambda task: accepted.close() if task.cancelled() else None)

    async def _establish(self, accepted: socket.socket, peer: Peer) -> None:
        loop = asyncio.get_running_loop()
        try:
            protocol = FastProtocol(self.config, self.server_state, {}, loop, peer)
            context = None if self._tls is None else self._tls()
            patience = None if context is None else peer.limits.head_seconds
            await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=context, ssl_handshake_timeout=patience)
            self._fails = False
        except Exception as error:
            if isinstance(error, OSError):  # no handshake, or gone already
                log.debug("connection not established: %r", error)
            elif not self._fails:
                self._fails = True
                log.error("connections cannot be established: %r; they are closed", error, exc_info=error)
            peer.gone()
            accepted.close()
        finally:
            peer.connecting = None


class Acceptor:
    """Takes connections from a listening socket as they come."""

    def __init__(self, listener: socket.socket, connect: Callable[[socket.socket], None], peers: Connections) -> None:
        self._listener = listener
        self._connect = connect
        self._peers = peers
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        self._short = False
        listener.setblocking(False)
        self._loop.add_reader(listener.fileno(), self._readable)

    def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._loop.remove_reader(self._listener.fileno())

    def _readable(self) -> None:
        crowded = self._peers.is_crowded
        for _ in range(MAX_ACCEPTS_PER_TURN):
            try:
                accepted, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:  # by the client
                continue
            except OSError as error:
                self._ran_short(error)
                return
            self._short = False
            accepted.setblocking(False)
            self._connect(accepted)
        if crowded:
            self._pause(CROWDED_PAUSE_SECONDS)

    def _ran_short(self, error: OSError) -> None:
        """Descriptors or memory ran out. The listener stays readable: to look again at once would take all CPU."""
        if not self._short:
            log.warning("cannot accept connections: %s; trying again", error.strerror or error)
        self._short = True
        self._peers.evict()
        self._pause(ACCEPT_RETRY_SECONDS)

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._retry = self._loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._retry = None
        self._loop.add_reader(self._listener.fileno(), self._readable)
