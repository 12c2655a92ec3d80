"""Is it alive, is it ready, and what can it do? Open to everybody."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.api.problems import CONTENT_TYPE, NotReady, headers, problem
from timeball.api.route import Answer, Call, Permission, Route, answer_json


class Alive(Struct, frozen=True):
    status: str
    version: str


class Ready(Struct, frozen=True):
    status: str
    checks: dict[str, bool]


async def livez(call: Call) -> Answer:
    return answer_json(Alive("alive", call.services.version))


async def readyz(call: Call) -> Answer:
    checks = dict(await call.services.ready())
    if all(checks.values()):
        return answer_json(Ready("ready", checks))
    waiting = ", ".join(name for name, fine in checks.items() if not fine)
    error = NotReady(f"not ready: {waiting}")
    body = msgspec.structs.replace(problem(error), checks=checks)
    return Answer(msgspec.json.encode(body), 503, CONTENT_TYPE, headers(error))


async def openapi(call: Call) -> Answer:
    return await _document(call, "/openapi.json")


async def docs(call: Call) -> Answer:
    return await _document(call, "/docs")


async def _document(call: Call, path: str) -> Answer:
    """In a thread of its own: to describe everything takes longer than a run may be late."""
    return (await asyncio.to_thread(call.services.documents))[path]


ROUTES: Final = (
    Route(
        method="GET",
        path="/livez",
        permission=Permission.PUBLIC,
        summary="Is the process alive?",
        handle=livez,
        answer=Alive,
    ),
    Route(
        method="GET",
        path="/readyz",
        permission=Permission.PUBLIC,
        summary="Is it ready to serve?",
        handle=readyz,
        answer=Ready,
    ),
    Route(
        method="GET",
        path="/openapi.json",
        permission=Permission.PUBLIC,
        summary="This description",
        handle=openapi,
        answer=dict[str, Any],
    ),
    Route(
        method="GET",
        path="/docs",
        permission=Permission.PUBLIC,
        summary="This description, for people",
        handle=docs,
        content_type="text/html",
    ),
)
