"""`Route`: all properties of one method of one path, in one object.

Routing, the permission check, decoding and the OpenAPI document use these objects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.api.asgi import Receive
from timeball.api.client_connection import ClientConnection
from timeball.api.event_streams import EventStreams
from timeball.api.sign_in.sessions import Sessions
from timeball.domain import ids
from timeball.domain.errors import NotFound
from timeball.jobspec.json_input import MAX_BODY
from timeball.operation.context import OperationContext
from timeball.operation.jobs.submit import Submit
from timeball.ports.readiness import Readiness
from timeball.ports.store.registry import Key
from timeball.ports.store.sign_in import WebSession
from timeball.ports.worker_protocol import KeyedWorkerProtocol
from timeball.web.static_files import Bundle

JSON: Final = b"application/json"
TEXT: Final = b"text/plain; charset=utf-8"
NO_STORE: Final = b"no-store"

Headers = list[tuple[bytes, bytes]]


class Permission(StrEnum):
    """The permission that a route needs."""

    PUBLIC = "public"
    """No API key is needed."""
    READ = "read"
    WRITE = "write"
    ADMIN = "admin"
    WORKER = "worker"
    """Send messages of the worker protocol."""
    KEY = "key"
    """Any valid API key."""


class Answer(Struct, frozen=True):
    body: bytes | AsyncIterator[bytes] = b""
    status: int = 200
    content_type: bytes = JSON
    headers: Headers = []
    cache_control: bytes = NO_STORE


@dataclass(frozen=True, slots=True)
class Services:
    """The services that handlers use."""

    context: OperationContext
    dispatch: KeyedWorkerProtocol
    submit: Submit
    ready: Callable[[], Awaitable[Readiness]]
    new_secret: Callable[[], str]
    find_key: Callable[[str], Awaitable[Key | None]]
    """Returns the valid key with a secret."""
    forget_key: Callable[[Key], None]
    sessions: Sessions
    version: str
    documents: Callable[[], Awaitable[Mapping[str, Answer]]]
    """Returns the pages `/openapi.json` and `/docs`. They are created with the first request, which takes a second."""
    stopping: Callable[[], bool]
    """Returns True when the server is stopping. Long answers then end."""
    web_ui: Callable[[], Awaitable[Bundle]]
    """Returns the files of the web UI. They are read and compressed with the first request."""
    streams: EventStreams
    """The event streams of this server."""


class Request(Struct, frozen=True, kw_only=True):
    """A request before authentication and decoding."""

    method: str
    path: str
    query: bytes
    headers: dict[bytes, bytes]
    """Headers by name, in lower case."""
    parameters: Mapping[str, str] = {}
    """The parameters in the path of the request, by name."""
    body: bytes | None = None
    """None: the body was not received yet."""
    receive: Receive
    client: ClientConnection | None = None
    """The connection of the request, as long as no request on it had a valid API key; None afterwards."""


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
    session: WebSession | None = None
    """The web session of the request; None if the request has an API key, or no credential."""

    @property
    def path(self) -> Mapping[str, str]:
        """The parameters in the path."""
        return self.request.parameters

    @property
    def headers(self) -> Mapping[bytes, bytes]:
        return self.request.headers

    @property
    def tenant(self) -> str:
        assert self.key is not None, "public routes have no tenant"
        return self.key.tenant

    @property
    def key_name(self) -> str:
        """The name of the API key, or its id if it has no name."""
        assert self.key is not None, "public routes have no key"
        return self.key.name or self.key.id

    @property
    def context(self) -> OperationContext:
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

    @property
    def worker_id(self) -> str:
        return self._id("worker", "w", "workerId")

    def _id(self, what: str, prefix: str, name: str) -> str:
        """Return the id in the path. Malformed ids are not looked up in the store."""
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
    """The type of the body, or a tuple of alternative types; None if there is no body."""
    many: bool = False
    """True if the body is an array of values of this type."""
    body_optional: bool = False
    lasts: bool = False
    """True if the handler waits for events and has to notice that the client disconnects, or if it streams
    its answer.
    """
    reads_raw: bool = False
    """True if the handler decodes the body itself; `body` is then only documentation."""
    limit: int = MAX_BODY
    answer: Any = None
    """The type of the answer's JSON, or a tuple of alternative types; None if it has none."""
    content_type: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    """Request headers that the route uses, with their descriptions."""
    example: Any = None
    """An example of a body."""
    problems: tuple[int, ...] = ()
    """Statuses of errors, in addition to those of every route."""


def answer_json(value: Any, status: int = 200, headers: Headers | None = None) -> Answer:
    return Answer(msgspec.json.encode(value), status, JSON, headers or [])
