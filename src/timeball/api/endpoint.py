"""Endpoints: the routes of one path, with all that a request passes before its handler and after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from timeball.api import problems
from timeball.api.auth import Authenticator, caller_of_session
from timeball.api.query import read_query
from timeball.api.request_body import check_encoding, read_body
from timeball.api.responses import rate_headers
from timeball.api.routes import web
from timeball.api.routes.audit_log.audited import audited_request
from timeball.api.routing import Answer, Call, Request, Route, Services
from timeball.domain.errors import NotFound, Unavailable
from timeball.domain.identity.caller import Caller
from timeball.domain.identity.permission import Permission
from timeball.jobspec import json_input
from timeball.ports.store.sign_in import WebSession
from timeball.resource_shortage import is_shortage


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
        self._limits = services.context.limits
        self._authenticate = authenticate

    def lasts(self, method: str) -> bool:
        """True if the route of this method waits for events, or streams its answer (`Route.lasts`)."""
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
        caller = session = None
        if route.permission is not Permission.PUBLIC:
            authorization = headers.get(b"authorization")
            if authorization is None and b"cookie" in headers:
                session, caller = await self._session(request, route.permission)
            else:
                caller = await self._authenticate(authorization, route.permission)
            if request.client is not None:
                request.client.admit()
            if self._limits.by_tenant and route.is_rated:
                return await self._within_rates(route, request, caller, session)
        return await self._handle(route, request, caller, session)

    async def _within_rates(self, route: Route, request: Request, caller: Caller, session: WebSession | None) -> Answer:
        """Answer a request of a tenant that may have limits of its rate of requests: refuse the request if a limit is
        exceeded. The answer has the headers that describe these limits, if there are any."""
        states, exceeded = self._services.rates.take(caller)
        if not states:
            return await self._handle(route, request, caller, session)
        try:
            if exceeded is not None:
                raise exceeded
            answer = await self._handle(route, request, caller, session)
        except Exception as error:
            answer = self.refuse(error, request)
        return msgspec.structs.replace(answer, headers=[*answer.headers, *rate_headers(states)])

    async def _handle(
        self, route: Route, request: Request, caller: Caller | None, session: WebSession | None
    ) -> Answer:
        """Decode an authorized request, and call the handler."""
        query = read_query(request.query, route.query) if route.query is not None else None
        raw, body = b"", None
        if route.body is not None:
            if request.body is None:
                raw = await read_body(request.headers, request.receive, route.limit)
            else:
                check_encoding(request.headers)
                raw = request.body
            if not route.reads_raw:
                body = await self._read(route, raw)
        audited, context = None, None
        if route.audit:
            audited = audited_request(route, caller, request, self._services.client_address(request))
            if not route.audited_by_job:
                context = self._services.context.for_request(audited)
        return await route.handle(Call(self._services, caller, request, query, body, raw, session, audited, context))

    async def _session(self, request: Request, permission: Permission) -> tuple[WebSession, Caller]:
        session = await self._services.sessions.authenticate(request.method, request.headers)
        caller = caller_of_session(session)
        caller.require(permission)
        return session, caller

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
    """Passes a request to the web UI if a browser opens a page, and each GET or HEAD request for a path without
    routes. The web UI answers with a file, with its page, or with 404. Other requests are answered as by any endpoint.
    """

    async def _answer(self, request: Request) -> Answer:
        is_read = request.method in ("GET", "HEAD")
        if is_read and (not self._routes or web.is_navigation(request)):
            return await web.PAGE.handle(Call(self._services, None, request, None, None, b""))
        return await super()._answer(request)
