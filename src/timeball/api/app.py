"""The ASGI application: serves the table of routes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from importlib.resources.abc import Traversable
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from timeball.api import views
from timeball.api.asgi import Receive, Scope, Send
from timeball.api.auth import Authenticator, caller_of_session
from timeball.api.client_connection import TrustedProxies
from timeball.api.documentation.documents import Documents
from timeball.api.endpoint import Endpoint, PageEndpoint
from timeball.api.event_streams import Credential, EventStreams
from timeball.api.headers import RepeatedHeader, find_repeated
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
    tenants,
    users,
    web,
    why,
    worker_protocol,
    workers,
)
from timeball.api.routes.audit_log import entries as audit_log
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
from timeball.api.routes.overview import slo, stats, timeline, usage
from timeball.api.routes.runs import bulk_runs, dead_letters, runs
from timeball.api.routes.workflows import workflow_runs, workflows
from timeball.api.routing import Request, Route, Services
from timeball.api.sign_in.accounts import Accounts
from timeball.api.sign_in.sessions import Sessions
from timeball.api.sign_in.site import Site
from timeball.domain.identity.caller import Caller
from timeball.domain.identity.permission import Permission
from timeball.domain.web_address import WebAddress
from timeball.operation.context import OperationContext
from timeball.operation.jobs.submit import Submit
from timeball.operation.tenants.request_rates import RequestRates
from timeball.ports.identity_provider import NO_PROVIDER, IdentityProvider
from timeball.ports.readiness import Readiness
from timeball.ports.store.registry import Key
from timeball.ports.worker_protocol import KeyedWorkerProtocol
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
    *slo.ROUTES,
    *usage.ROUTES,
    *workers.ROUTES,
    *events.ROUTES,
    *clock.ROUTES,
    *me.ROUTES,
    *keys.ROUTES,
    *users.ROUTES,
    *tenants.ROUTES,
    *audit_log.ROUTES,
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
    read_metrics: Callable[[], Awaitable[bytes]],
    open_metrics: bool = False,
    stopping: Callable[[], bool] = lambda: False,
    site: Site = LOCAL_SITE,
    provider: IdentityProvider = NO_PROVIDER,
    trusted_proxies: Sequence[str] = (),
    routes: Sequence[Route] = ROUTES,
    static_files: Traversable | None = None,
) -> Paths:
    """Return the API over a store and the worker protocol. `ready` returns the checks of the store and the loops;
    `new_secret` returns an unguessable secret for a new API key; `stopping` returns True when the server is stopping.
    `read_metrics` returns the text of `/metrics`, which needs no key with `open_metrics`.
    `site` is the address for browsers, `static_files` the folder of the web UI if it is not the built one. `provider`
    verifies the tokens of users, and signs them in. `trusted_proxies` are ranges of addresses.
    """
    if open_metrics:
        routes = [replace(each, permission=_OPENED.get(each.permission, each.permission)) for each in routes]
    accounts = Accounts(context)
    authenticate = Authenticator(context, accounts, provider.tokens)
    sessions = Sessions(context, site, None if provider.sign_in is None else provider.sign_in.issuer)

    def forget_key(key: Key) -> None:
        authenticate.forget(key)
        sessions.forget_key(key)

    def forget_tenant(tenant: str) -> None:
        for cache in (authenticate, accounts, sessions):
            cache.forget_tenant(tenant)

    services = Services(
        context=context,
        dispatch=dispatch,
        submit=Submit(context, views.render_job),
        ready=ready,
        new_secret=new_secret,
        find_key=authenticate.find,
        forget_key=forget_key,
        forget_tenant=forget_tenant,
        sessions=sessions,
        sign_in=provider.sign_in,
        metrics=read_metrics,
        version=version,
        documents=Documents(routes, version, site.address.base_path),
        stopping=stopping,
        web_ui=web.WebUi(static_files or bundled(), site.address.base_path),
        streams=EventStreams(context, _checks(authenticate, sessions)),
        rates=RequestRates(context.limits, context.clock),
        proxies=TrustedProxies(trusted_proxies),
    )
    paths: dict[str, list[Route]] = {}
    for route in routes:
        paths.setdefault(route.path, []).append(route)
    endpoints = {path: _endpoint(path, methods, services, authenticate) for path, methods in paths.items()}
    default = PageEndpoint([], services, authenticate)
    return Paths(endpoints, default=default, base_path=site.address.base_path)


_OPENED: Final = {Permission.METRICS: Permission.PUBLIC}


def _checks(authenticate: Authenticator, sessions: Sessions) -> Callable[[Credential], Awaitable[Caller]]:
    """Return the function that checks the credential of an event stream: the header with an API key, or the digest of a
    web session."""

    async def check(credential: Credential) -> Caller:
        if not isinstance(credential, str):
            return await authenticate(credential, Permission.READ)
        caller = caller_of_session(await sessions.check(credential))
        caller.require(Permission.READ)
        return caller

    return check


def _endpoint(path: str, routes: Sequence[Route], services: Services, authenticate: Authenticator) -> Endpoint:
    kind = PageEndpoint if path in PAGES_TOO else Endpoint
    return kind(routes, services, authenticate)


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
            address=client[0] if (client := scope.get("client")) else "",
        )
        if len(request.headers) != len(headers) and (name := find_repeated(headers)) is not None:
            answer = endpoint.refuse(RepeatedHeader(name), request)
        else:
            answer = await endpoint.answer(request)
        await send_answer(answer, receive, send, with_body=request.method != "HEAD")


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
