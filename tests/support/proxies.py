"""Proxies on one port that forward connections to a server: one cuts answers, one counts requests."""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
import struct
import threading
from abc import ABC, abstractmethod
from typing import Self

REQUEST = re.compile(rb"(?:GET|POST|PUT|PATCH|DELETE) (\S+) HTTP/1\.1\r\n")
EVENTS = "/v1/events"


class ForwardingProxy(ABC):
    """Listens on `url` inside its block, and connects each client to a port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @abstractmethod
    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        """Forward what the client sends. Runs in a thread of its own, until one of the sockets is shut down."""

    @abstractmethod
    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        """Forward what the server sends, in the same way."""

    def __enter__(self) -> Self:
        self._start(threading.Thread(target=self._accept))
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._sockets):
            shut(each)
            each.close()
        for thread in self._threads:
            thread.join()

    def _start(self, thread: threading.Thread) -> None:
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                client.close()
                continue
            self._sockets += [client, server]
            self._start(threading.Thread(target=self._forward, args=(client, server)))
            self._start(threading.Thread(target=self._answer, args=(server, client)))


class CuttingProxy(ForwardingProxy):
    """Each connection is reset in the middle of an answer, after a number of bytes that differs every time."""

    def __init__(self, port: int, *, least: int, limit: int) -> None:
        super().__init__(port)
        self._sizes = itertools.cycle(range(least, limit, 97))
        self.cuts = 0

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(4096):
                server.sendall(data)
        shut(server)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        left = next(self._sizes)
        with contextlib.suppress(OSError):
            while data := server.recv(min(4096, left)):
                client.sendall(data)
                left -= len(data)
                if not left:
                    self.cuts += 1
                    # With this option, a close resets the connection: the client gets an error, not an end of data.
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
        shut(server)
        shut(client, socket.SHUT_RD)  # ends the read of the other thread
        client.close()


class CountingProxy(ForwardingProxy):
    """Counts the requests of browsers, also those of shared workers, which Playwright does not show."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._streams: set[socket.socket] = set()
        self.paths: list[str] = []

    @property
    def event_streams(self) -> int:
        """The number of connections that carry events now."""
        return len(self._streams)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        rest = b""
        with contextlib.suppress(OSError):
            while data := client.recv(65_536):
                lines, _, rest = (rest + data).rpartition(b"\n")
                self._count(client, lines + b"\n")
                server.sendall(data)
        self._end(client, server)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65_536):
                client.sendall(data)
        self._end(client, server)

    def _count(self, client: socket.socket, lines: bytes) -> None:
        for path in REQUEST.findall(lines):
            self.paths.append(path.decode())
            if path.decode().startswith(EVENTS):
                self._streams.add(client)

    def _end(self, client: socket.socket, server: socket.socket) -> None:
        self._streams.discard(client)
        shut(client)
        shut(server)


def shut(each: socket.socket, direction: int = socket.SHUT_RDWR) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(direction)
