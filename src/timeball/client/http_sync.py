"""Transport of requests: the protocol, and an implementation on the standard library.

The standard library is used because a command line must start fast: to import httpx and create its client takes 120 ms,
`http.client` 30 ms. The asynchronous client has its own transport.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from urllib.parse import SplitResult, urlsplit

BROKEN_OFF: Final = "the answer is incomplete"


class Unreachable(Exception):
    """No connection was made. Nothing was sent, so the request cannot have taken effect."""


class AnswerInterrupted(Exception):
    """The connection broke before the answer was complete. The request may have taken effect."""


class Outgoing(NamedTuple):
    method: str
    target: str
    """The path and the query of the request."""
    headers: Mapping[str, str]
    body: bytes | None


class Incoming(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Headers by name, in lower case."""
    body: bytes


class Transport(Protocol):
    def send(self, server: str, outgoing: Outgoing, timeout: float) -> Incoming:
        """Return the answer. Raise `Unreachable` or `AnswerInterrupted` if there is none. Several threads may call
        this at once."""
        ...

    def stream(self, server: str, outgoing: Outgoing, timeout: float) -> Iterator[bytes | Incoming]:
        """Yield the head of the answer (with its body, if it is an error), then the body as it arrives."""
        ...

    def close(self) -> None: ...


class HttpTransport:
    """Keeps connections open between requests. `close` closes the idle ones."""

    _CHUNK = 65_536

    def __init__(self, ca: Path | None = None) -> None:
        """`ca` is a PEM file with the certificate authorities to trust instead of the system's."""
        self._ca = ca
        self._idle: dict[str, deque[HTTPConnection]] = {}

    def send(self, server: str, outgoing: Outgoing, timeout: float) -> Incoming:
        connection, response = self._exchange(server, outgoing, timeout)
        try:
            answer = Incoming(response.status, _headers(response), response.read())
        except (OSError, HTTPException) as error:
            connection.close()
            raise AnswerInterrupted(reason(error)) from error
        if response.will_close:
            connection.close()
        else:
            self._idle.setdefault(server, deque(maxlen=16)).append(connection)
        return answer

    def stream(self, server: str, outgoing: Outgoing, timeout: float) -> Iterator[bytes | Incoming]:
        connection, response = self._exchange(server, outgoing, timeout)
        try:
            failed = response.status >= 400
            yield Incoming(response.status, _headers(response), response.read() if failed else b"")
            while not failed and (chunk := response.read1(self._CHUNK)):
                yield chunk
        except (OSError, HTTPException) as error:
            raise AnswerInterrupted(reason(error)) from error
        finally:
            connection.close()

    def close(self) -> None:
        for connections in self._idle.values():
            while connections:
                connections.pop().close()

    def _exchange(self, server: str, outgoing: Outgoing, timeout: float) -> tuple[HTTPConnection, HTTPResponse]:
        connection = self._connection(server, timeout)
        try:
            base = urlsplit(server).path.rstrip("/")
            connection.request(outgoing.method, base + outgoing.target, outgoing.body, dict(outgoing.headers))
            return connection, connection.getresponse()
        except (OSError, HTTPException) as error:
            connection.close()
            raise AnswerInterrupted(reason(error)) from error

    def _connection(self, server: str, timeout: float) -> HTTPConnection:
        idle = self._idle.get(server)
        while idle:
            try:
                connection = idle.pop()
            except IndexError:  # another thread took the last one
                break
            if _usable(connection):
                connection.sock.settimeout(timeout)
                return connection
            connection.close()
        return _connect(urlsplit(server), timeout, self._ca)


def _connect(server: SplitResult, timeout: float, ca: Path | None) -> HTTPConnection:
    host = server.hostname or ""
    try:
        if server.scheme == "https":
            import ssl  # imported here, because most commands do not need it

            trust = ssl.create_default_context(cafile=ca)
            connection: HTTPConnection = HTTPSConnection(host, server.port, timeout=timeout, context=trust)
        else:
            connection = HTTPConnection(host, server.port, timeout=timeout)
        connection.connect()
    except (OSError, HTTPException, UnicodeError) as error:  # UnicodeError: the name is no name of a host
        raise Unreachable(reason(error)) from error
    return connection


def _usable(connection: HTTPConnection) -> bool:
    """True if an idle connection is still open. If it has data to read, the server has closed it, and a request on it
    would be lost."""
    poller = select.poll()
    poller.register(connection.sock, select.POLLIN)
    return not poller.poll(0)


def _headers(response: HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def reason(error: BaseException) -> str:
    """Return the reason why a connection failed, for an error message."""
    if isinstance(error, TimeoutError):
        return "it did not answer within the timeout"
    if isinstance(error, IncompleteRead):
        return BROKEN_OFF
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (text or type(error).__name__)[:200]
