"""A route: everything there is to know about one method of one path, stated once.

Routing, the permission check, decoding and the OpenAPI document are all made from these objects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from timeball.api.asgi import Receive
from timeball.domain import ids
from timeball.domain.errors import NotFound
from timeball.jobspec.json_input import MAX_BODY
from timeball.operation.context import Context
from timeball.operation.jobs.submit import Submit
from timeball.ports.readiness import Readiness
from timeball.ports.store.registry import Key
from timeball.ports.worker_protocol import KeyedWorkerProtocol

JSON: Final = b"application/json"
TEXT: Final = b"text/plain; charset=utf-8"

Headers = list[tuple[bytes, bytes]]


class Permission(StrEnum):
    """Who may call a route."""

    PUBLIC = "public"
    """Everybody, without a key."""
    READ = "read"
    WRITE = "write"
    ADMIN = "admin"
    WORKER = "worker"
    """The worker protocol."""


class Answer(Struct, frozen=True):
    body: bytes | AsyncIterator[bytes] = b""
    status: int = 200
    content_type: bytes = JSON
    headers: Headers = []


@dataclass(frozen=True, slots=True)
class Services:
    """What handlers work with."""

    context: Context
    dispatch: KeyedWorkerProtocol
    submit: Submit
    ready: Callable[[], Awaitable[Readiness]]
    new_secret: Callable[[], str]
    forget_key: Callable[[Key], None]
    version: str
    documents: Callable[[], Awaitable[Mapping[str, Answer]]]
    """Pages that are made at the first request for one, which takes a second: `/openapi.json`, `/docs`."""
    stopping: Callable[[], bool]
    """Whether the server is about to go: answers that last come to their end."""


class Client(Protocol):
    """A connection on which no valid key was seen yet."""

    def admit(self) -> None:
        """A request on it was made with a valid key."""
        ...

    def is_last_answer(self) -> bool:
        """Count an answer; whether the connection closes with it."""
        ...

    async def wait_for_turn(self) -> None:
        """Until the event loop has time for an answer to a client without a valid key."""
        ...


class Request(Struct, frozen=True, kw_only=True):
    """What somebody asks, before anybody looked at it."""

    method: str
    path: str
    query: bytes
    headers: dict[bytes, bytes]
    """By their names in lower case."""
    parameters: Mapping[str, str] = {}
    """Those in the path."""
    body: bytes | None = None
    """None: it has yet to be received."""
    receive: Receive
    client: Client | None = None
    """The connection it came on, as long as no key is known of it."""


class Call(Struct, frozen=True):
    """One request, authenticated and decoded."""

    services: Services
    key: Key | None
    request: Request
    query: Any
    """An instance of the route's query type."""
    body: Any
    """An instance of the route's body type; None where the handler reads `raw` itself."""
    raw: bytes

    @property
    def path(self) -> Mapping[str, str]:
        """The parameters in it."""
        return self.request.parameters

    @property
    def headers(self) -> Mapping[bytes, bytes]:
        return self.request.headers

    @property
    def tenant(self) -> str:
        assert self.key is not None, "public routes have no tenant"
        return self.key.tenant

    @property
    def context(self) -> Context:
        return self.services.context

    @property
    def job_id(self) -> str:
        return self._id("job", "j", "jobId")

    @property
    def run_id(self) -> str:
        return self._id("run", "r", "runId")

    @property
    def workflow_id(self) -> str:
        return self._id("workflow", "j", "workflowId")

    @property
    def workflow_run_id(self) -> str:
        return self._id("workflow run", "r", "workflowRunId")

    def _id(self, what: str, prefix: str, name: str) -> str:
        """Only what looks like an id reaches the store."""
        ident = self.path[name]
        if not ids.is_id(prefix, ident):
            raise NotFound(what, ident[:100])
        return ident


Handler = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    method: str
    path: str
    permission: Permission
    summary: str
    handle: Handler
    description: str = ""
    query: type[Struct] | None = None
    body: Any = None
    """The type of the body, or a tuple of the types it may have; None: there is none."""
    many: bool = False
    """The body is an array of those."""
    body_optional: bool = False
    lasts: bool = False
    """The handler waits for something to happen, and wants to know when the client hangs up; or what it answers comes
    bit by bit."""
    reads_raw: bool = False
    """The handler decodes the body itself; `body` says what may be in it."""
    limit: int = MAX_BODY
    answer: Any = None
    """The type of the answer's JSON, or a tuple of types; None: it has none."""
    content_type: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    """Request headers it understands, with what they are for."""
    example: Any = None
    """Of a body."""
    problems: tuple[int, ...] = ()
    """Statuses of errors beyond those that every route may answer."""


def answer_json(value: Any, status: int = 200, headers: Headers | None = None) -> Answer:
    return Answer(msgspec.json.encode(value), status, JSON, headers or [])
