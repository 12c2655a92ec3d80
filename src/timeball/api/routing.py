"""`Route`: all properties of one method of one path, in one object.

Routing, the permission check, decoding and the OpenAPI document use these objects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.api.asgi import Receive
from timeball.api.client_connection import FORWARDED, ClientConnection, TrustedProxies
from timeball.api.event_streams import EventStreams
from timeball.api.sign_in.sessions import Sessions
from timeball.domain import ids
from timeball.domain.audit_log.change import AuditedRequest
from timeball.domain.errors import NotFound
from timeball.domain.identity.caller import Caller
from timeball.domain.identity.permission import Permission
from timeball.domain.job.edit import Edit
from timeball.jobspec.json_input import MAX_BODY
from timeball.operation.context import OperationContext
from timeball.operation.jobs.submit import Submit
from timeball.operation.tenants.request_rates import RequestRates
from timeball.ports.identity_provider import SignInProvider
from timeball.ports.readiness import Readiness
from timeball.ports.store.registry import Key
from timeball.ports.store.sign_in import WebSession
from timeball.ports.worker_protocol import KeyedWorkerProtocol
from timeball.web.static_files import Bundle

JSON: Final = b"application/json"
TEXT: Final = b"text/plain; charset=utf-8"
NO_STORE: Final = b"no-store"

Headers = list[tuple[bytes, bytes]]


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
    """Returns the key with a secret; None if it is unknown or was revoked. Raises `Unauthorized` if it has expired."""
    forget_key: Callable[[Key], None]
    forget_tenant: Callable[[str], None]
    """Removes the credentials of a tenant from the caches of this server."""
    sessions: Sessions
    sign_in: SignInProvider | None
    """The identity provider that browsers sign in with; None: there is none."""
    metrics: Callable[[], Awaitable[bytes]]
    """Returns the text of `/metrics`."""
    version: str
    documents: Callable[[], Awaitable[Mapping[str, Answer]]]
    """Returns the pages `/openapi.json` and `/docs`. They are created with the first request, which takes a second."""
    stopping: Callable[[], bool]
    """Returns True when the server is stopping. Long answers then end."""
    web_ui: Callable[[], Awaitable[Bundle]]
    """Returns the files of the web UI. They are read and compressed with the first request."""
    streams: EventStreams
    """The event streams of this server."""
    rates: RequestRates
    """The limits of the rates of requests."""
    proxies: TrustedProxies

    def client_address(self, request: Request) -> str:
        """Return the address of the client of a request, as the audit log has it."""
        return self.proxies.client(request.address, request.headers.get(FORWARDED))


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
    """The connection of the request. None if the fast path answers it, and an earlier request on the connection had a
    valid credential."""
    address: str = ""
    """The network address of the other end of the connection: the client, or a proxy; empty if it has none."""


class Call(Struct, frozen=True):
    """One request, authenticated and decoded."""

    services: Services
    authenticated: Caller | None
    """The caller; None if the route is public."""
    request: Request
    query: Any
    """An instance of the route's query type."""
    body: Any
    """An instance of the route's body type; None where the handler reads `raw` itself."""
    raw: bytes
    session: WebSession | None = None
    """The web session of the request; None if the request has another credential, or none."""
    audited: AuditedRequest | None = None
    """The request for the audit log; None if it changes nothing that the audit log keeps."""
    own_context: OperationContext | None = None
    """The context whose store appends the entry of this request to the audit log; None: the request leaves none."""

    @property
    def path(self) -> Mapping[str, str]:
        """The parameters in the path."""
        return self.request.parameters

    @property
    def headers(self) -> Mapping[bytes, bytes]:
        return self.request.headers

    @property
    def caller(self) -> Caller:
        """The caller of a route that is not public."""
        assert self.authenticated is not None, "public routes have no caller"
        return self.authenticated

    @property
    def tenant(self) -> str:
        return self.caller.tenant

    def check_edit(self, edit: Edit | None) -> None:
        """Check an edit of what a run executes, which needs the permission to edit jobs: raise `Forbidden` if the
        caller lacks it, or else add the edit to the entry in the audit log. None: there is no edit to check."""
        if edit is not None:
            self.caller.require(Permission.EDIT)
            if self.audited is not None:
                self.audited.details = {"edit": msgspec.to_builtins(edit)}

    def audit_selection(self) -> None:
        """Add the body of a bulk request, which selects jobs or runs, to its entry in the audit log."""
        if self.audited is not None:
            self.audited.selection = msgspec.json.decode(self.raw)

    @property
    def context(self) -> OperationContext:
        return self.own_context or self.services.context

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
    audit: str = ""
    """The action in the audit log, such as `job.pause`: the kind of what is changed, and a verb. Empty: the route
    changes nothing that the audit log keeps."""
    audited_by_job: bool = False
    """True if each job that the route submits carries the request to the audit log."""
    description: str = ""
    query: type[Struct] | None = None
    body: Any = None
    """The type of the body, or a tuple of alternative types; None if there is no body."""
    many: bool = False
    """True if the body is an array of values of the type `body`."""
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

    @property
    def is_rated(self) -> bool:
        """True if requests of the route count for the limits of the rate of requests. Requests of workers do not, since
        workers have to keep their leases. Requests that need the system role do not, since an operator has to be able
        to raise a limit. Public routes and `/metrics` do not either."""
        return self.permission not in (Permission.PUBLIC, Permission.WORKER, Permission.SYSTEM, Permission.METRICS)


def answer_json(value: Any, status: int = 200, headers: Headers | None = None) -> Answer:
    return Answer(msgspec.json.encode(value), status, JSON, headers or [])
