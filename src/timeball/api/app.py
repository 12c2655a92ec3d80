"""The ASGI application: serves the table of routes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.resources.abc import Traversable
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from timeball.api import problems, views
from timeball.api.asgi import Receive, Scope, Send
from timeball.api.auth import Authenticator, check_permission
from timeball.api.documentation import openapi
from timeball.api.documentation.docs_page import docs_page
from timeball.api.event_streams import Credential, EventStreams
from timeball.api.headers import RepeatedHeader, find_repeated
from timeball.api.query import read_query
from timeball.api.request_body import check_encoding, read_body
from timeball.api.responses import send_answer
from timeball.api.routes import (
    calendars,
    clock,
    events,
    health,
    keys,
    me,
    sign_in,
    tasks,
    web,
    why,
    worker_protocol,
    workers,
)
from timeball.api.routes.jobs import (
    backfills,
    batch,
    bulk_jobs,
    forecast,
    job_actions,
    jobs,
    legacy,
    schedules,
    versions,
)
from timeball.api.routes.overview import stats, timeline
from timeball.api.routes.runs import bulk_runs, dead_letters, runs
from timeball.api.routes.workflows import workflow_runs, workflows
from timeball.api.routing import Answer, Call, Headers, Permission, Request, Route, Services
from timeball.api.sign_in.sessions import Sessions
from timeball.api.sign_in.site import Site
from timeball.domain.errors import NotFound, Unavailable
from timeball.domain.web_address import WebAddress
from timeball.jobspec import json_input
from timeball.operation.context import OperationContext
from timeball.operation.jobs.submit import Submit
from timeball.ports.readiness import Readiness
from timeball.ports.store.registry import Key
from timeball.ports.store.sign_in import WebSession
from timeball.ports.worker_protocol import KeyedWorkerProtocol
from timeball.resource_shortage import is_shortage
from timeball.slices import beside
from timeball.web.static_files import bundled

ROUTES: Final[tuple[Route, ...]] = (
    *jobs.ROUTES,
    *batch.ROUTES,
    *bulk_jobs.ROUTES,
    *job_actions.ROUTES,
    *versions.ROUTES,
    *backfills.ROUTES,
    *workflows.ROUTES,
    *workflow_runs.ROUTES,
    *runs.ROUTES,
    *why.ROUTES,
    *bulk_runs.ROUTES,
    *dead_letters.ROUTES,
    *schedules.ROUTES,
    *tasks.ROUTES,
    *calendars.ROUTES,
    *forecast.ROUTES,
    *stats.ROUTES,
    *timeline.ROUTES,
    *workers.ROUTES,
    *events.ROUTES,
    *clock.ROUTES,
    *me.ROUTES,
    *keys.ROUTES,
    *sign_in.ROUTES,
    *legacy.ROUTES,
    *health.ROUTES,
    *worker_protocol.ROUTES,
)
"""All routes of the API, in the order in which they are documented."""
MAX_REMEMBERED: Final = 1_000
"""Maximum number of request heads in the cache."""
LOCAL_SITE: Final = Site(WebAddress("http", "127.0.0.1", 1300))
"""The site of a server with the default settings."""
PAGES_TOO: Final = frozenset({"/jobs"})
"""Paths of the API that are also pages of the web UI."""


def create_app(
    context: OperationContext,
    dispatch: KeyedWorkerProtocol,
    *,
    ready: Callable[[], Awaitable[Readiness]],
    new_secret: Callable[[], str],
    version: str,
    stopping: Callable[[], bool] = lambda: False,
    site: Site = LOCAL_SITE,
    routes: Sequence[Route] = ROUTES,
    static_files: Traversable | None = None,
) -> Paths:
    """Return the API over a store and the worker protocol. `ready` returns the checks of the store and the loops;
    `new_secret` returns an unguessable secret for a new API key; `stopping` returns True when the server is stopping.
    `site` is the address for browsers, `static_files` the folder of the web UI if it is not the built one.
    """
    authenticate = Authenticator(context.store, context.clock)
    sessions = Sessions(context, site)

    def forget_key(key: Key) -> None:
        authenticate.forget(key)
        sessions.forget_key(key)

    services = Services(
        context=context,
        dispatch=dispatch,
        submit=Submit(context, views.render_job),
        ready=ready,
        new_secret=new_secret,
        find_key=authenticate.find,
        forget_key=forget_key,
        sessions=sessions,
        version=version,
        documents=_Documents(routes, version, site.address.base_path),
        stopping=stopping,
        web_ui=web.WebUi(static_files or bundled(), site.address.base_path),
        streams=EventStreams(context, _checks(authenticate, sessions)),
    )
    paths: dict[str, list[Route]] = {}
    for route in routes:
        paths.setdefault(route.path, []).append(route)
    endpoints = {path: _endpoint(path, methods, services, authenticate) for path, methods in paths.items()}
    default = PageEndpoint([], services, authenticate)
    return Paths(endpoints, default=default, base_path=site.address.base_path)


def _checks(authenticate: Authenticator, sessions: Sessions) -> Callable[[Credential], Awaitable[Key]]:
    """Return the function that checks the credential of an event stream: the header with an API key, or the digest of a
    web session."""

    async def check(credential: Credential) -> Key:
        if not isinstance(credential, str):
            return await authenticate(credential, Permission.READ)
        key = (await sessions.check(credential)).key
        check_permission(key, Permission.READ)
        return key

    return check


def _endpoint(path: str, routes: Sequence[Route], services: Services, authenticate: Authenticator) -> Endpoint:
    kind = PageEndpoint if path in PAGES_TOO else Endpoint
    return kind(routes, services, authenticate)


class _Documents:
    """The pages that describe the API. They are created once, in a thread, because that takes longer than a run may be
    late.
    """

    def __init__(self, routes: Sequence[Route], version: str, base_path: str) -> None:
        self._routes = routes
        self._version = version
        self._base_path = base_path
        self._made: dict[str, Answer] = {}

    async def __call__(self) -> Mapping[str, Answer]:
        return self._made or await beside(self._make)

    def _make(self) -> Mapping[str, Answer]:
        if not self._made:  # requests that arrive at the same time wait for the first one
            document = openapi.document(self._routes, self._version, self._base_path)
            page, policy = docs_page(document)
            headers: Headers = [(b"content-security-policy", policy)]
            self._made = {
                "/openapi.json": Answer(msgspec.json.encode(document)),
                "/docs": Answer(page, content_type=b"text/html; charset=utf-8", headers=headers),
            }
        return self._made


class Asked(Struct, frozen=True):
    """The parsed head of a request, and the endpoint that answers it."""

    endpoint: Endpoint
    request: Request
    """The request without its body."""
    length: int
    """Length of the body in bytes."""


class Paths:
    """All endpoints by path. Paths without parameters, including all frequent ones, are looked up in a dict; paths with
    parameters are matched one after the other.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], default: Endpoint, base_path: str = "/") -> None:
        self._fixed = {path: endpoint for path, endpoint in endpoints.items() if "{" not in path}
        self._others = [(_pattern(path), endpoint) for path, endpoint in endpoints.items() if "{" in path]
        self._default = default
        self._prefix = base_path.removesuffix("/")
        """The path of the public URL. A proxy may remove it from requests or not."""
        self.asked: dict[bytes, Asked] = {}
        """Cache of parsed requests, by their heads."""

    def remember(self, head: bytes, asked: Asked) -> None:
        """Add a request to the cache. When the cache is full, the oldest entry is removed."""
        if len(self.asked) >= MAX_REMEMBERED:
            del self.asked[next(iter(self.asked))]
        self.asked[head] = asked

    def find(self, raw_path: str) -> tuple[Endpoint, Mapping[str, str]]:
        """Return the endpoint of a path, and the parameters in the path.

        The path is compared as it was sent: an encoded slash is not a separator, and only parameters are decoded, once.
        """
        found = self._match(raw_path)
        if found is None and self._prefix and raw_path.startswith(f"{self._prefix}/"):
            found = self._match(raw_path.removeprefix(self._prefix))
        return found or (self._default, {})

    def _match(self, raw_path: str) -> tuple[Endpoint, Mapping[str, str]] | None:
        if (endpoint := self._fixed.get(raw_path)) is not None:
            return endpoint, {}
        for pattern, endpoint in self._others:
            if (match := pattern.match(raw_path)) is not None:
                parameters = match.groupdict()
                if "%" in raw_path or "/." in raw_path:
                    parameters = {name: unquote(value) for name, value in parameters.items()}
                    if not all(map(_is_plain, parameters.values())):
                        break
                return endpoint, parameters
        return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _refuse(scope, send)
            return
        raw_path = scope.get("raw_path")
        endpoint, parameters = self.find(scope["path"] if raw_path is None else raw_path.decode("latin-1"))
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        request = Request(
            method=scope["method"],
            path=scope["path"],
            query=scope["query_string"],
            headers=dict(headers),
            parameters=parameters,
            receive=receive,
            client=scope.get("state", {}).get("peer"),
        )
        if len(request.headers) != len(headers) and (name := find_repeated(headers)) is not None:
            answer = endpoint.refuse(RepeatedHeader(name), request)
        else:
            answer = await endpoint.answer(request)
        await send_answer(answer, receive, send, with_body=request.method != "HEAD")


class Endpoint:
    """The routes of one path: selects the method, checks the key, decodes the request, calls the handler, and returns
    its answer. Every error becomes a problem document.
    """

    def __init__(self, routes: Sequence[Route], services: Services, authenticate: Authenticator) -> None:
        self._routes = {route.method: route for route in routes}
        if "GET" in self._routes:
            self._routes.setdefault("HEAD", self._routes["GET"])
        self._allowed = ", ".join(sorted({*self._routes, "OPTIONS"}))
        self._is_public = any(route.permission is Permission.PUBLIC for route in routes)
        self._decoders = {
            route.method: msgspec.json.Decoder(route.body)
            for route in routes
            if route.body is not None and not route.reads_raw
        }
        self._services = services
        self._authenticate = authenticate

    def lasts(self, method: str) -> bool:
        """True if the answer to this method may take long."""
        route = self._routes.get(method)
        return route is not None and route.lasts

    async def answer(self, request: Request) -> Answer:
        """Return the answer to a request. Never raises."""
        try:
            answer = await self._answer(request)
        except Exception as error:
            answer = self.refuse(error, request)
        if request.client is not None:
            await request.client.wait_for_turn()
        if self._services.stopping() or (request.client is not None and request.client.is_last_answer()):
            answer = msgspec.structs.replace(answer, headers=[*answer.headers, (b"connection", b"close")])
        return answer

    async def _answer(self, request: Request) -> Answer:
        if not self._routes:
            raise NotFound("page", request.path[:200])
        headers = request.headers
        route = self._routes.get(request.method)
        if route is None:
            return await self._without_route(request)
        key = session = None
        if route.permission is not Permission.PUBLIC:
            authorization = headers.get(b"authorization")
            if authorization is None and b"cookie" in headers:
                session = await self._session(request, route.permission)
                key = session.key
            else:
                key = await self._authenticate(authorization, route.permission)
            if request.client is not None:
                request.client.admit()
        query = read_query(request.query, route.query) if route.query is not None else None
        raw, body = b"", None
        if route.body is not None:
            if request.body is None:
                raw = await read_body(headers, request.receive, route.limit)
            else:
                check_encoding(headers)
                raw = request.body
            if not route.reads_raw:
                body = await self._read(route, raw)
        return await route.handle(Call(self._services, key, request, query, body, raw, session))

    async def _session(self, request: Request, permission: Permission) -> WebSession:
        session = await self._services.sessions.authenticate(request.method, request.headers)
        check_permission(session.key, permission)
        return session

    async def _read(self, route: Route, raw: bytes) -> Any:
        if route.body_optional and not raw.strip():
            return route.body()
        return await json_input.read(raw, self._decoders[route.method], self._services.context.clock)

    async def _without_route(self, request: Request) -> Answer:
        if request.method != "OPTIONS":
            raise problems.MethodNotAllowed(request.method[:20], self._allowed)
        if not self._is_public:
            authorization = request.headers.get(b"authorization")
            if authorization is None and b"cookie" in request.headers:
                await self._session(request, Permission.PUBLIC)
            else:
                await self._authenticate(authorization, Permission.PUBLIC)
        return Answer(status=204, headers=[(b"allow", self._allowed.encode())])

    def refuse(self, error: Exception, request: Request) -> Answer:
        if is_shortage(error):
            problems.log.warning("request refused: the server lacks a resource", path=request.path, reason=str(error))
            error = Unavailable("the server lacks a resource such as memory or file descriptors; try again in a moment")
        if problems.is_expected(error):
            found = problems.problem(error)
        else:
            found = problems.unexpected(error, self._services.context.rng, request.method, request.path)
        return Answer(msgspec.json.encode(found), found.status, problems.CONTENT_TYPE, problems.headers(error))


class PageEndpoint(Endpoint):
    """Answers with the web UI if a browser opens a page, and if a GET or HEAD request has a path without routes. It
    answers other requests like any endpoint.
    """

    async def _answer(self, request: Request) -> Answer:
        is_read = request.method in ("GET", "HEAD")
        if is_read and (not self._routes or web.is_navigation(request)):
            return await web.PAGE.handle(Call(self._services, None, request, None, None, b""))
        return await super()._answer(request)


def _pattern(path: str) -> re.Pattern[str]:
    """Return a pattern for the paths of a route. A `{parameter}` is at least one character without a slash."""
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path)) + "$")


def _is_plain(parameter: str) -> bool:
    """True if all readers of a path understand the parameter in the same way: no separator, no dot segment, no control
    character.
    """
    return parameter.isprintable() and "/" not in parameter and "\\" not in parameter and parameter not in (".", "..")


async def _refuse(scope: Scope, send: Send) -> None:
    """Refuse websocket connections, which are not supported."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1003})
