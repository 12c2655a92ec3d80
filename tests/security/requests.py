"""The request of each route: with what exists in the default tenant, and new things where a success uses them up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from tests.security.scene import JOB, MARK, NEVER, Scene, a_worker, signed_in
from tests.support.api import ADMIN

Sent = tuple[str, Any]
"""The path with its query, and the body or None."""
Make = Callable[[Scene, str, bool], Awaitable[Sent]]
"""Takes the scene, the column of the file, and True if the request is expected to succeed."""

FLOW: Final = {"tasks": [{"name": "a", **JOB}], "schedule": NEVER}
BODIES: Final[dict[str, Any]] = {
    "POST /v1/jobs": {**JOB, "schedule": NEVER},
    "POST /jobs": {**JOB, "schedule": NEVER},
    "PUT /v1/jobs/{jobId}": {"description": "d"},
    "PATCH /v1/jobs/{jobId}": {"description": "d"},
    "POST /v1/jobs:batch": [{**JOB, "schedule": NEVER}],
    "POST /v1/jobs:bulk": {"action": "pause", "filter": {"all": True}, "dryRun": True},
    "POST /v1/workflows": FLOW,
    "PUT /v1/workflows/{workflowId}": {"description": "d"},
    "PATCH /v1/workflows/{workflowId}": {"description": "d"},
    "POST /v1/runs:bulk": {"action": "replay", "filter": {"all": True}, "dryRun": True},
    "POST /v1/dead-letters:retry": {"all": True, "dryRun": True},
    "POST /v1/dead-letters:discard": {"all": True, "dryRun": True},
    "POST /v1/schedules:preview": {"schedule": NEVER},
    "PUT /v1/tasks/{taskId}": {"kind": "shell", "command": "true"},
    "PUT /v1/calendars/{name}": {"description": "d", "entries": [{"dates": ["2030-01-01"]}]},
    "POST /v1/calendars:preview": {"calendar": {"entries": [{"dates": ["2030-01-01"]}]}},
    "POST /v1/api-keys": {"role": "viewer"},
    "POST /v1/api-keys/{keyId}/rotate": {"overlap": "1h"},
    "PATCH /v1/users/{userId}": {"name": MARK},
    "POST /v1/tenants": {"tenantId": "other"},
    "PATCH /v1/tenants/{tenantId}": {"description": "d"},
    "POST /v1/tenants/{tenantId}/api-keys": {"role": "viewer"},
    "POST /v1/sign-in": {"apiKey": ADMIN},
    "POST /v1/sign-in/provider": {},
    "POST /v1/worker/hello": {"name": "w", "slots": 0},
}
PATHS: Final = {
    "DELETE /v1/jobs/{jobId}": "/v1/jobs/{cancelled}",
    "GET /v1/jobs/{jobId}/logs": "/v1/jobs/{ended job}/logs",
    "DELETE /v1/workflows/{workflowId}": "/v1/workflows/{cancelled workflow}",
    "GET /v1/runs/{runId}/logs": "/v1/runs/{ended}/logs?follow=1",
    "POST /v1/runs/{runId}/retry": "/v1/runs/{dead}/retry",
    "GET /v1/slo": "/v1/slo?tag=t",
    "GET /v1/timeline": "/v1/timeline?from={span from}&to={span to}",
}
"""Paths with other things than the first of their kind, or with a query."""


async def request_of(scene: Scene, route: str, who: str, succeeds: bool) -> Sent:
    if (make := FRESH.get(route)) is not None:
        return await make(scene, who, succeeds)
    path = PATHS.get(route, route.partition(" ")[2])
    return path.format_map({"runId": scene.ids["ended"], "tenantId": "default", **scene.ids}), BODIES.get(route)


async def _task(scene: Scene, who: str, succeeds: bool) -> Sent:
    task_id = scene.ids["taskId"]
    if succeeds or who == "other_admin":  # which may have one of that name
        task_id = scene.fresh()
        await scene.make("PUT", f"/v1/tasks/{task_id}", kind="shell", command="true")
    return f"/v1/tasks/{task_id}", None


async def _calendar(scene: Scene, who: str, succeeds: bool) -> Sent:
    name = scene.ids["name"]
    if succeeds or who == "other_admin":  # which may have one of that name
        name = scene.fresh()
        await scene.make("PUT", f"/v1/calendars/{name}", entries=[{"dates": ["2030-01-01"]}])
    return f"/v1/calendars/{name}", None


async def _user(scene: Scene, who: str, succeeds: bool) -> Sent:
    user_id = scene.ids["userId"]
    if succeeds or who == "other_admin":  # which may have one of that name
        user_id = scene.fresh()
        await scene.make("POST", "/v1/users", userId=user_id, role="viewer")
    return f"/v1/users/{user_id}", None


async def _dead(scene: Scene, who: str, succeeds: bool) -> Sent:
    if not succeeds:
        return f"/v1/runs/{scene.ids['dead']}/retry", None
    worker = await a_worker(scene)
    await scene.make("POST", "/v1/jobs", **JOB, name=scene.fresh(), retry={"maxRetries": 0}, priority="high")
    assigned = await worker.take()
    await worker.fail(assigned)
    return f"/v1/runs/{assigned['runId']}/retry", None


async def _session(scene: Scene, who: str, succeeds: bool) -> Sent:
    return f"/v1/sessions/{(await signed_in(scene, 'system'))[1]}", None


async def _backfill(scene: Scene, who: str, succeeds: bool) -> Sent:
    span = {"from": scene.ids["span from"], "to": scene.ids["span to"], "dryRun": True}
    return f"/v1/jobs/{scene.ids['jobId']}/backfill", span


async def _new_user(scene: Scene, who: str, succeeds: bool) -> Sent:
    return "/v1/users", {"userId": "someone" if who == "other_admin" else scene.ids["userId"], "role": "viewer"}


async def _poll(scene: Scene, who: str, succeeds: bool) -> Sent:
    return "/v1/worker/poll", {**await _message(scene), "seq": 1, "free": 0, "held": [], "wait": 0}


async def _beat(scene: Scene, who: str, succeeds: bool) -> Sent:
    return "/v1/worker/beat", {**await _message(scene), "held": []}


async def _report(scene: Scene, who: str, succeeds: bool) -> Sent:
    return "/v1/worker/report", {**await _message(scene), "pollSeq": 0, "free": 0}


async def _goodbye(scene: Scene, who: str, succeeds: bool) -> Sent:
    return "/v1/worker/goodbye", await _message(scene)


async def _message(scene: Scene) -> dict[str, Any]:
    """Return the beginning of a message of a worker of the default tenant, whose session has just begun."""
    return {"session": (await a_worker(scene, slots=0)).session}


FRESH: Final[dict[str, Make]] = {
    "DELETE /v1/tasks/{taskId}": _task,
    "DELETE /v1/calendars/{name}": _calendar,
    "DELETE /v1/users/{userId}": _user,
    "POST /v1/runs/{runId}/retry": _dead,
    "DELETE /v1/sessions/{sessionId}": _session,
    "POST /v1/users": _new_user,
    "POST /v1/jobs/{jobId}/backfill": _backfill,
    "POST /v1/worker/poll": _poll,
    "POST /v1/worker/beat": _beat,
    "POST /v1/worker/report": _report,
    "POST /v1/worker/goodbye": _goodbye,
}
