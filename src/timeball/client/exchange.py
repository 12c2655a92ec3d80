"""The parts of an exchange that need no I/O, shared by both clients: the server and the headers of a request, the
meaning of its answer, and whether and when to send it again."""

from __future__ import annotations

import threading
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from timeball.client import errors
from timeball.client.http_sync import AnswerInterrupted, Incoming, Outgoing, Unreachable
from timeball.client.requests.request import ApiRequest
from timeball.domain.errors import TimeballError, Unavailable

T = TypeVar("T")

RETRIES: Final = 3
FIRST_PAUSE: Final = 0.1
MAX_PAUSE: Final = 5.0
"""Maximum pause, in seconds. If a server asks for a longer wait, the client raises the error instead of waiting."""
_decoder_lock: Final = threading.Lock()
_decoders: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


class Destination:
    """The servers that a client sends its requests to, and the API key that it uses."""

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
        """Use the next server from now on, unless another thread or task has already switched from this one."""
        if server == self.server:
            self._current = (self._current + 1) % len(self._servers)

    def outgoing(self, request: ApiRequest[T]) -> Outgoing:
        headers = {**self._headers, **request.headers}
        body = None
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            body = msgspec.json.encode(request.body)
        return Outgoing(request.method, request.target, headers, body)

    def failed(self, request: ApiRequest[T], server: str, error: Unreachable | AnswerInterrupted) -> Unavailable:
        """Return the error for a server that did not answer, and use the next server for the next request."""
        self.leave(server)
        if isinstance(error, Unreachable) and "certificate" in str(error):
            return Unavailable(
                f"the certificate of {server} is not trusted ({error}); set --ca or TIMEBALL_CA to a PEM file with the"
                " authority that signed it"
            )
        if isinstance(error, Unreachable):
            return Unavailable(
                f"cannot reach Timeball at {' or '.join(self._servers)} ({error}); start it with"
                " `timeball up`, or set its address with --url or TIMEBALL_URL"
            )
        hint = "" if request.repeatable else "; the request may have taken effect: check before you repeat it"
        if server.startswith("http://") and "without response" in str(error):
            hint += f"; if the server uses TLS, its address is {server.replace('http', 'https', 1)}"
        return Unavailable(f"the connection to {server} broke during {request.method} {request.path} ({error}){hint}")


class Sending(Generic[T]):
    """One request until its answer: decides whether and when to send it again."""

    def __init__(self, request: ApiRequest[T], destination: Destination, retries: int) -> None:
        self.outgoing = destination.outgoing(request)
        self.server = destination.server
        self._request = request
        self._destination = destination
        self._retries = retries
        self._attempt = 0

    def failed(self, error: Unreachable | AnswerInterrupted) -> float:
        """Return the seconds to wait before the request is sent again. Raise `Unavailable` if it must not be sent
        again."""
        failure = self._destination.failed(self._request, self.server, error)
        sent = isinstance(error, AnswerInterrupted)
        if self._attempt >= self._retries or (sent and not self._request.repeatable):
            raise failure from None
        return self._again(backoff(self._attempt))

    def answered(self, incoming: Incoming) -> float | None:
        """Return the seconds to wait before the request is sent again; None if this answer is final."""
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
    """Return the body of a successful answer; raise the error of any other. Redirects are not followed, because that
    would send the key to another server."""
    if 300 <= incoming.status < 400:
        location = incoming.headers.get("location", "nowhere")[:200]
        raise TimeballError(
            f"the server redirects to {location} (it answered {incoming.status}); redirects are not followed, because"
            " that would send the key there; if this is the address of Timeball, set it with --url or TIMEBALL_URL"
        )
    if incoming.status >= 400:
        raise errors.from_answer(incoming.status, incoming.headers, incoming.body)
    return incoming.body


def read(request: ApiRequest[T], body: bytes) -> T:
    """Decode the body of an answer to the type that the request expects."""
    if request.answer is bytes:
        return cast(T, body)
    try:
        return cast(T, _decoder(request.answer).decode(body))
    except msgspec.MsgspecError as error:
        raise TimeballError(
            f"{request.method} {request.path} got an answer that this client cannot decode ({error});"
            " is this the address of a Timeball server, and is the client as new as the server?"
        ) from error


def _decoder(answer: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type. Only one thread at a time creates a decoder: an interpreter crashed when two
    threads did so at once."""
    found = _decoders.get(answer)
    if found is None:
        with _decoder_lock:
            found = _decoders.setdefault(answer, msgspec.json.Decoder(answer))
    return found


def text(body: bytes) -> str:
    return body.decode(errors="replace")


def value(body: bytes) -> Any:
    """Decode the result of a run; None if there is no result."""
    return msgspec.json.decode(body) if body else None


def backoff(attempt: int) -> float:
    return min(FIRST_PAUSE * 2.0 ** min(attempt, 10), MAX_PAUSE)
