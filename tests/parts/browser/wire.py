"""A proxy that counts the requests of browsers, also those of shared workers, which Playwright does not show."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from typing import Self

REQUEST = re.compile(rb"(?:GET|POST|PUT|PATCH|DELETE) (\S+) HTTP/1\.1\r\n")
EVENTS = "/v1/events"


class CountingProxy:
    """Listens on `url`, and forwards to a port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._streams: set[socket.socket] = set()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.paths: list[str] = []

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

    @property
    def event_streams(self) -> int:
        """How many connections carry events now."""
        return len(self._streams)

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
            server = socket.create_connection(("127.0.0.1", self._port))
            self._sockets += [client, server]
            self._start(self._forward, client, server, True)
            self._start(self._forward, server, client, False)

    def _forward(self, source: socket.socket, target: socket.socket, asks: bool) -> None:
        rest = b""
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if asks:
                    lines, _, rest = (rest + data).rpartition(b"\n")
                    self._count(source, lines + b"\n")
                target.sendall(data)
        for each in (source, target):
            self._streams.discard(each)
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _count(self, client: socket.socket, lines: bytes) -> None:
        for path in REQUEST.findall(lines):
            self.paths.append(path.decode())
            if path.decode().startswith(EVENTS):
                self._streams.add(client)
