"""The HTTP server: uvicorn without its listeners, which would close permanently when file descriptors run out."""

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
"""Maximum number of accepted connections per turn of the event loop. Each takes about 0.2 ms."""
CROWDED_PAUSE_SECONDS: Final = 0.006_25
"""Seconds between two rounds of accepts while the maximum number of strangers (connections without a valid credential
so far) is reached. Then at most 640 connections per second are accepted: each costs more than a request, and displaces
another one that connects again. The others wait in the kernel's queue."""
ACCEPT_RETRY_SECONDS: Final = 0.1
"""Seconds before connections are accepted again after an accept that failed because of missing descriptors or memory.
The connection stays in the kernel's queue.
"""

log = logging.getLogger("timeball.api")


class HttpServer(uvicorn.Server):
    """A uvicorn server that accepts connections itself, within limits. It handles no signals: `bootstrap` does, and
    stops it; `timeball up` first lets the runs of its worker finish."""

    def __init__(
        self,
        config: uvicorn.Config,
        limits: ConnectionLimits | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """`tls` returns the context for the next connection."""
        super().__init__(config)
        self.peers = Connections(limits or ConnectionLimits())
        self._tls = tls
        self._acceptors: list[Acceptor] = []
        self._fails = False
        """True if the last connection failed because of an error of the server, which is logged once."""

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
        # The connection may be displaced before the task has begun.
        peer.connecting.add_done_callback(lambda task: accepted.close() if task.cancelled() else None)

    async def _establish(self, accepted: socket.socket, peer: Peer) -> None:
        loop = asyncio.get_running_loop()
        try:
            protocol = FastProtocol(self.config, self.server_state, {}, loop, peer)
            context = None if self._tls is None else self._tls()
            handshake_timeout = None if context is None else peer.limits.head_seconds
            await loop.connect_accepted_socket(
                lambda: protocol, accepted, ssl=context, ssl_handshake_timeout=handshake_timeout
            )
            self._fails = False
        except Exception as error:
            if isinstance(error, OSError):  # the handshake failed, or the client has disconnected
                log.debug("connection not established: %r", error)
            elif not self._fails:
                self._fails = True
                log.error("connections cannot be established: %r; they are closed", error, exc_info=error)
            peer.gone()
            accepted.close()
        finally:
            peer.connecting = None


class Acceptor:
    """Accepts the connections of a listening socket."""

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
            except ConnectionAbortedError:  # aborted by the client
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
        """Called when an accept failed for lack of descriptors or memory: close the oldest connection without a valid
        API key, and accept again later. The listener stays readable, so an immediate retry would use all CPU time."""
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
