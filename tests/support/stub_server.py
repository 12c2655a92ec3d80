"""A server behind the transport of the client that gives the answers of a test, without a socket and
without a clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from timeball.client.http_sync import Incoming, Outgoing

Answer = Incoming | BaseException | tuple[Incoming, BaseException]


class Seen:
    """One request as it arrived."""

    def __init__(self, server: str, outgoing: Outgoing) -> None:
        parts = urlsplit(outgoing.target)
        self.server = server
        self.method = outgoing.method
        self.path = parts.path
        self.query = dict(parse_qsl(parts.query))
        self.headers = dict(outgoing.headers)
        self.json = json.loads(outgoing.body) if outgoing.body else None


class StubServer:
    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self._answers: dict[tuple[str, str], list[Answer]] = {}

    def on(
        self, method: str, path: str, body: Any = None, *, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        """Set the next answer to such a request. The last one that was set is repeated."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self._answers.setdefault((method, path), []).append(Incoming(status, headers or {}, raw))

    def fail(self, method: str, path: str, error: BaseException) -> None:
        """Let the next such request fail without an answer."""
        self._answers.setdefault((method, path), []).append(error)

    def cut(self, method: str, path: str, body: bytes, error: BaseException) -> None:
        """Let the next answer to such a request end early, after this part of the body."""
        self._answers.setdefault((method, path), []).append((Incoming(200, {}, body), error))

    def problem(self, method: str, path: str, status: int, code: str, detail: str, **more: Any) -> None:
        headers = more.pop("headers", {})
        body = {"title": "Wrong", "status": status, "code": code, "detail": detail, **more}
        self.on(method, path, body, status=status, headers=headers)

    @property
    def last(self) -> Seen:
        return self.seen[-1]

    def send(self, server: str, outgoing: Outgoing, timeout: float) -> Incoming:
        match self._answer(server, outgoing):
            case Incoming() as incoming:
                return incoming
            case BaseException() as error:
                raise error
            case _, error:
                raise error

    def stream(self, server: str, outgoing: Outgoing, timeout: float) -> Iterator[bytes | Incoming]:
        answer = self._answer(server, outgoing)
        if isinstance(answer, BaseException):
            raise answer
        incoming, error = (answer, None) if isinstance(answer, Incoming) else answer
        yield Incoming(incoming.status, incoming.headers, incoming.body if incoming.status >= 400 else b"")
        yield from incoming.body.splitlines(keepends=True)
        if error is not None:
            raise error

    def _answer(self, server: str, outgoing: Outgoing) -> Answer:
        seen = Seen(server, outgoing)
        self.seen.append(seen)
        answers = self._answers.get((seen.method, seen.path))
        assert answers, f"the test has no answer to {seen.method} {seen.path}"
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def close(self) -> None:
        pass
