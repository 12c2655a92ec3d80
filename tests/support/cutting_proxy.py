"""A proxy that forwards connections to a server and cuts each of them in the middle of an answer."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
from typing import Self


class CuttingProxy:
    """Listens on `url`. Each connection is reset after it has carried a number of bytes of answers, which differs every
    time.
    """

    def __init__(self, port: int, *, least: int, limit: int) -> None:
        self._port = port
        self._sizes = itertools.cycle(range(least, limit, 97))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)  # type: ignore[arg-type]
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
            self._start(self._ask, client, server)
            self._start(self._answer, server, client, next(self._sizes))

    @staticmethod
    def _ask(client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(4096):
                server.sendall(data)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _answer(self, server: socket.socket, client: socket.socket, left: int) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(min(4096, left)):
                client.sendall(data)
                left -= len(data)
                if not left:
                    self.cuts += 1
                    # With this option, a close resets the connection: the client gets an error, not an end of data.
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
        for each, way in ((server, socket.SHUT_RDWR), (client, socket.SHUT_RD)):  # ends the reads of the other threads
            with contextlib.suppress(OSError):
                each.shutdown(way)
        client.close()
