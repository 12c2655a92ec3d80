"""The parts of an exchange that do not wait for anything: shared by every client.

Where a request goes, what goes out for it, what its answer means, and whether and when it is sent again.
"""

from __future__ import annotations

import threading
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from timeball.client import errors
from timeball.client.http_sync import Incoming, Interrupted, Outgoing, Unreachable
from timeball.client.requests.request import Request
from timeball.domain.errors import TimeballError, Unavailable

T = TypeVar("T")

RETRIES: Final = 3
FIRST_PAUSE: Final = 0.1
MAX_PAUSE: Final = 5.0
"""Seconds. A server that asks for more patience than this is reported to the caller instead."""
_learning: Final = threading.Lock()
_decoders: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


class Destination:
    """Where a client's requests go, and as whom."""

    def __init__(
        self, url: str | None, token: str | None, token_file: str | None = None, ca: str | None = None
    ) -> None:
        from timeball import __version__, config

        settings = config.client({"url": url, "token": token, "token_file": token_file, "ca": ca})
        self.ca = settings.ca
        self._servers = settings.servers
        self._current = 0
        self._headers = {"Accept": "application/json", "User-Agent": f"timeball/{__version__}"}
        if settings.token:
            self._headers["Authorization"] = f"Bearer {settings.token}"

    @property
    def server(self) -> str:
        return self._servers[self._current]

    def leave(self, server: str) -> None:
        """Try the next server from now on, unless somebody has left this one already."""
        if server == self.server:
            self._current = (self._current + 1) % len(self._servers)

    def outgoing(self, request: Request[T]) -> Outgoing:
        headers = {**self._headers, **request.headers}
        body = None
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            body = msgspec.json.encode(request.body)
        return Outgoing(request.method, request.target, headers, body)

    def failed(self, request: Request[T], server: str, error: Unreachable | Interrupted) -> Unavailable:
        """What to tell the caller when a server did not answer; the next request goes to the next one."""
        self.leave(server)
        if isinstance(error, Unreachable) and "certificate" in str(error):
            return Unavailable(
                f"the certificate of {server} is not trusted ({error}); name the authority that signed it with --ca or"
                " TIMEBALL_CA"
            )
        if isinstance(error, Unreachable):
            return Unavailable(
                f"cannot reach Timeball at {' or '.join(self._servers)} ({error}); start it with"
                " `timeball up`, or say where it runs with --url or TIMEBALL_URL"
            )
        fate = "" if request.repeatable else "; it may have taken effect: look before you repeat it"
        if server.startswith("http://") and "without response" in str(error):
            fate += f"; a server that speaks TLS has the address {server.replace('http', 'https', 1)}"
        return Unavailable(f"the connection to {server} broke during {request.method} {request.path} ({error}){fate}")


class Sending(Generic[T]):
    """One request on its way to an answer: decides whether it is sent again, and when."""

    def __init__(self, request: Request[T], destination: Destination, retries: int) -> None:
        self.outgoing = destination.outgoing(request)
        self.server = destination.server
        self._request = request
        self._destination = destination
        self._retries = retries
        self._attempt = 0

    def failed(self, error: Unreachable | Interrupted) -> float:
        """The seconds to wait before it is sent again. Raises `Unavailable` if it is not to be."""
        told = self._destination.failed(self._request, self.server, error)
        sent = isinstance(error, Interrupted)
        if self._attempt >= self._retries or (sent and not self._request.repeatable):
            raise told from None
        return self._again(backoff(self._attempt))

    def answered(self, incoming: Incoming) -> float | None:
        """The seconds to wait before it is sent again; None: this is the answer."""
        if incoming.status != 503:
            return None
        self._destination.leave(self.server)
        wanted = max(errors.retry_after(incoming.headers) or 0.0, backoff(self._attempt))
        if not self._request.repeatable or self._attempt >= self._retries or wanted > MAX_PAUSE:
            return None
        return self._again(wanted)

    def _again(self, pause: float) -> float:
        self._attempt += 1
        self.server = self._destination.server
        return pause


def body_of(incoming: Incoming) -> bytes:
    """The body of a good answer; the error that a bad one stands for. No redirect is followed: the key stays here."""
    if 300 <= incoming.status < 400:
        location = incoming.headers.get("location", "nowhere")[:200]
        raise TimeballError(
            f"the server redirects to {location} (it answered {incoming.status}); a key does not follow redirects:"
            " if Timeball is there, name that address with --url or TIMEBALL_URL"
        )
    if incoming.status >= 400:
        raise errors.from_answer(incoming.status, incoming.headers, incoming.body)
    return incoming.body


def read(request: Request[T], body: bytes) -> T:
    if request.answer is bytes:
        return cast(T, body)
    try:
        return cast(T, _decoder(request.answer).decode(body))
    except msgspec.MsgspecError as error:
        raise TimeballError(
            f"{request.method} {request.path} got an answer that this client cannot read ({error});"
            " is this Timeball's address, and is the client as new as the server?"
        ) from error


def _decoder(answer: Any) -> msgspec.json.Decoder[Any]:
    """One thread at a time learns a type: an interpreter in which two threads did it at once was seen to crash."""
    found = _decoders.get(answer)
    if found is None:
        with _learning:
            found = _decoders.setdefault(answer, msgspec.json.Decoder(answer))
    return found


def text(body: bytes) -> str:
    return body.decode(errors="replace")


def value(body: bytes) -> Any:
    """What a run returned; None if that is nothing."""
    return msgspec.json.decode(body) if body else None


def backoff(attempt: int) -> float:
    return min(FIRST_PAUSE * 2.0 ** min(attempt, 10), MAX_PAUSE)
