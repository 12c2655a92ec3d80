"""Routes for liveness, readiness, metrics and the description of the API. Only metrics need a key."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.api.problems import CONTENT_TYPE, NotReady, headers, problem
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.domain.identity.permission import Permission

PROMETHEUS: Final = b"text/plain; version=0.0.4; charset=utf-8"


class Alive(Struct, frozen=True):
    status: str
    version: str


class Ready(Struct, frozen=True):
    status: str
    checks: dict[str, bool]
    degraded: dict[str, str] = {}
    """Failing loops that no job depends on, such as maintenance, with the kind of their last error."""


async def livez(call: Call) -> Answer:
    return answer_json(Alive("alive", call.services.version))


async def readyz(call: Call) -> Answer:
    found = await call.services.ready()
    if found.is_ready:
        return answer_json(Ready("ready", found.checks, found.degraded))
    error = NotReady(f"not ready: {'; '.join(f'{name} ({problem})' for name, problem in found.problems.items())}")
    body = msgspec.structs.replace(problem(error), checks=found.checks)
    return Answer(msgspec.json.encode(body), 503, CONTENT_TYPE, headers(error))


async def metrics(call: Call) -> Answer:
    return Answer(await call.services.metrics(), content_type=PROMETHEUS)


async def openapi(call: Call) -> Answer:
    return await _document(call, "/openapi.json")


async def docs(call: Call) -> Answer:
    return await _document(call, "/docs")


async def _document(call: Call, path: str) -> Answer:
    return (await call.services.documents())[path]


ROUTES: Final = (
    Route(
        method="GET",
        path="/livez",
        permission=Permission.PUBLIC,
        summary="Check whether the process is alive",
        handle=livez,
        answer=Alive,
    ),
    Route(
        method="GET",
        path="/readyz",
        permission=Permission.PUBLIC,
        summary="Check whether the server is ready",
        description=(
            "503 while the store does not answer or cannot be written, while a loop that runs depend on had no success"
            " for 10 s, and once the server stops. The detail names each failed check with the kind of its last error."
        ),
        handle=readyz,
        answer=Ready,
    ),
    Route(
        method="GET",
        path="/metrics",
        permission=Permission.METRICS,
        summary="The metrics of this server, for Prometheus",
        description=(
            "The text format of Prometheus. It needs a key with the scope `metrics`, or a server with --metrics-open."
            " While the store does not answer, a key that was valid within the last day is accepted."
        ),
        handle=metrics,
        content_type="text/plain",
    ),
    Route(
        method="GET",
        path="/openapi.json",
        permission=Permission.PUBLIC,
        summary="The OpenAPI description",
        handle=openapi,
        answer=dict[str, Any],
    ),
    Route(
        method="GET",
        path="/docs",
        permission=Permission.PUBLIC,
        summary="The description as an HTML page",
        handle=docs,
        content_type="text/html",
    ),
)
