"""The ASGI application: the route table, served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from starlette import routing
from starlette.types import ASGIApp, Receive, Scope, Send

from timeball.api import openapi, problems, reading, views
from timeball.api.auth import Authenticator
from timeball.api.docs_page import docs_page
from timeball.api.query import read_query
from timeball.api.route import Answer, Call, Permission, Route, Services
from timeball.api.routes import (
    batch,
    bulk_runs,
    dead_letters,
    health,
    job_actions,
    jobs,
    keys,
    legacy,
    runs,
    schedules,
    tasks,
    why,
    worker_protocol,
    workers,
)
from timeball.api.sending import send_answer
from timeball.domain.errors import NotFound
from timeball.operation.context import Context
from timeball.operation.submit import Submit
from timeball.ports.dispatch import Dispatch

ROUTES: Final[tuple[Route, ...]] = (
    *jobs.ROUTES,
    *batch.ROUTES,
    *job_actions.ROUTES,
    *runs.ROUTES,
    *why.ROUTES,
    *bulk_runs.ROUTES,
    *dead_letters.ROUTES,
    *schedules.ROUTES,
    *tasks.ROUTES,
    *workers.ROUTES,
    *keys.ROUTES,
    *legacy.ROUTES,
    *health.ROUTES,
    *worker_protocol.ROUTES,
)
"""Everything the API can do, in the order in which it is documented."""


def create_app(
    context: Context,
    dispatch: Dispatch,
    *,
    ready: Callable[[], Awaitable[Mapping[str, bool]]],
    new_secret: Callable[[], str],
    version: str,
    stopping: Callable[[], bool] = lambda: False,
    routes: Sequence[Route] = ROUTES,
) -> ASGIApp:
    """The API over a store and a dispatcher. `ready` names what has to work (the store, the loops) and
    whether it does; `new_secret` makes the secret of a new API key, and must be unguessable; `stopping` says that
    the server is about to go."""
    authenticate = Authenticator(context.store, context.clock)
    services = Services(
        context=context,
        dispatch=dispatch,
        submit=Submit(context, views.render_job),
        ready=ready,
        new_secret=new_secret,
        forget_key=authenticate.forget,
        version=version,
        documents=_documents(routes, version),
        stopping=stopping,
    )
    paths: dict[str, list[Route]] = {}
    for route in routes:
        paths.setdefault(route.path, []).append(route)
    endpoints = {path: Endpoint(methods, services, authenticate) for path, methods in paths.items()}
    return Paths(endpoints, default=Endpoint([], services, authenticate))


def _documents(routes: Sequence[Route], version: str) -> dict[str, Answer]:
    document = openapi.document(routes, version)
    page, policy = docs_page(document)
    return {
        "/openapi.json": Answer(msgspec.json.encode(document)),
        "/docs": Answer(page, content_type=b"text/html; charset=utf-8", headers=[(b"content-security-policy", policy)]),
    }


class Paths:
    """All endpoints. A path without parameters, and all hot ones are such, is looked up; those with parameters are
    compared one after the other, by Starlette."""

    def __init__(self, endpoints: Mapping[str, Endpoint], default: Endpoint) -> None:
        self._fixed = {path: endpoint for path, endpoint in endpoints.items() if "{" not in path}
        others = [routing.Route(path, endpoint) for path, endpoint in endpoints.items() if "{" in path]
        self._others = routing.Router(others, redirect_slashes=False, default=default)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._fixed.get(scope.get("path", ""), self._others)(scope, receive, send)


class Endpoint:
    """One path: finds the method, checks the key, reads, calls, answers. Whatever goes wrong becomes a problem."""

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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _refuse(scope, send)
            return
        method: str = scope["method"]
        try:
            answer = await self._answer(method, scope, receive)
        except Exception as error:
            answer = self._problem(error, method, scope["path"])
        if self._services.stopping():
            answer = msgspec.structs.replace(answer, headers=[*answer.headers, (b"connection", b"close")])
        await send_answer(answer, receive, send, with_body=method != "HEAD")

    async def _answer(self, method: str, scope: Scope, receive: Receive) -> Answer:
        if not self._routes:
            raise NotFound("page", scope["path"][:200])
        headers: dict[bytes, bytes] = dict(scope["headers"])
        route = self._routes.get(method)
        if route is None:
            return await self._without_route(method, headers)
        key = None
        if route.permission is not Permission.PUBLIC:
            key = await self._authenticate(headers.get(b"authorization"), route.permission)
        query = read_query(scope["query_string"], route.query) if route.query is not None else None
        raw, body = b"", None
        if route.body is not None:
            raw = await reading.read_body(headers, receive, route.limit)
            if not route.reads_raw:
                body = self._read(route, raw)
        return await route.handle(
            Call(
                services=self._services,
                key=key,
                path=scope.get("path_params", {}),
                headers=headers,
                query=query,
                body=body,
                raw=raw,
                scope=scope,
                receive=receive,
            )
        )

    def _read(self, route: Route, raw: bytes) -> Any:
        if route.body_optional and not raw.strip():
            return route.body()
        return reading.read(raw, self._decoders[route.method])

    async def _without_route(self, method: str, headers: Mapping[bytes, bytes]) -> Answer:
        if method != "OPTIONS":
            raise problems.MethodNotAllowed(method[:20], self._allowed)
        if not self._is_public:
            await self._authenticate(headers.get(b"authorization"), Permission.PUBLIC)
        return Answer(status=204, headers=[(b"allow", self._allowed.encode())])

    def _problem(self, error: Exception, method: str, path: str) -> Answer:
        if problems.is_expected(error):
            found = problems.problem(error)
        else:
            found = problems.unexpected(error, self._services.context.dice, method, path)
        return Answer(msgspec.json.encode(found), found.status, problems.CONTENT_TYPE, problems.headers(error))


async def _refuse(scope: Scope, send: Send) -> None:
    """No websockets are spoken here."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1003})
