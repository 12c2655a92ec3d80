"""Every route that changes something leaves one entry in the audit log, in the right chain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.security.requests import BODIES, FLOW, request_of
from tests.security.scene import HOST, JOB, NEVER, PAGE, SESSIONS, Scene, a_scene, a_worker, signed_in
from timeball.api.app import ROUTES
from timeball.domain.audit_log.entry import SYSTEM_CHAIN, AuditEntry
from timeball.domain.audit_log.verification import verify
from timeball.domain.instant import HOUR, render
from timeball.domain.tenant import TENANT_DELETED

SYSTEM: Final = ("tenant.create", "tenant.update", "tenant.delete", "worker.drain")
"""The actions in the chain of the system."""
OF_SESSIONS: Final = ("POST /v1/sign-in", "POST /v1/sign-out", "POST /v1/clock:accept")
"""Routes with tests of their own."""
AUDITED: Final = {
    name: route for route in ROUTES if route.audit and (name := f"{route.method} {route.path}") not in OF_SESSIONS
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with a_scene(tmp_path_factory.mktemp("scene")) as made:
        yield made


async def job(scene: Scene, **fields: Any) -> str:
    made = await scene.make("POST", "/v1/jobs", **{**JOB, "name": scene.fresh(), "schedule": NEVER, **fields})
    return str(made["jobId"])


async def flow(scene: Scene) -> str:
    return str((await scene.make("POST", "/v1/workflows", **FLOW, name=scene.fresh()))["workflowId"])


async def dead(scene: Scene, tag: str = "") -> str:
    worker = await a_worker(scene)
    tags = [tag] if tag else []
    await scene.make("POST", "/v1/jobs", **JOB, name=scene.fresh(), retry={"maxRetries": 0}, priority="high", tags=tags)
    assigned = await worker.take()
    await worker.fail(assigned)
    return str(assigned["runId"])


Sent = tuple[str, Any, str]
"""The path, the body, and the resource that the entry names."""


async def _paused(scene: Scene) -> Sent:
    made = await job(scene)
    await scene.make("POST", f"/v1/jobs/{made}/pause")
    return f"/v1/jobs/{made}/resume", None, made


async def _paused_flow(scene: Scene) -> Sent:
    made = await flow(scene)
    await scene.make("POST", f"/v1/workflows/{made}/pause")
    return f"/v1/workflows/{made}/resume", None, made


async def _backfill(scene: Scene) -> Sent:
    hourly = await job(scene, schedule={"type": "interval", "expression": "1h"})
    now = scene.api.server.context.store.now()
    return f"/v1/jobs/{hourly}/backfill", {"from": render(now - 3 * HOUR), "to": render(now - HOUR)}, hourly


async def _cancel_backfill(scene: Scene) -> Sent:
    path, body, hourly = await _backfill(scene)
    await scene.make("POST", f"/v1/jobs/{hourly}/pause")
    made = (await scene.make("POST", path, **body))["backfillId"]
    return f"/v1/backfills/{made}/cancel", None, made


async def _cancel_flow_run(scene: Scene) -> Sent:
    made = (await scene.make("POST", f"/v1/workflows/{await flow(scene)}/run"))["runId"]
    return f"/v1/workflow-runs/{made}/cancel", None, made


async def _retry_flow_run(scene: Scene) -> Sent:
    worker = await a_worker(scene)
    tasks = [{"name": "a", **JOB, "retry": {"maxRetries": 0}}]
    made = (await scene.make("POST", "/v1/workflows", tasks=tasks, name=scene.fresh(), schedule=NEVER))["workflowId"]
    run_id = (await scene.make("POST", f"/v1/workflows/{made}/run"))["runId"]
    path = f"/v1/workflow-runs/{run_id}"
    while not (wanted := (await scene.make("GET", path))["tasks"][0]["runId"]):
        await asyncio.sleep(0.01)
    while (assigned := await worker.take())["runId"] != wanted:
        await worker.succeed(assigned)
    await worker.fail(assigned)
    while (await scene.make("GET", path))["status"] == "running":
        await asyncio.sleep(0.01)
    return f"/v1/workflow-runs/{run_id}/retry", None, run_id


async def _cancel_run(scene: Scene) -> Sent:
    made = (await scene.make("POST", f"/v1/jobs/{await job(scene)}/run"))["runId"]
    return f"/v1/runs/{made}/cancel", None, made


async def _edited(scene: Scene, verb: str) -> Sent:
    made = await dead(scene)
    return f"/v1/runs/{made}/{verb}", {"edit": {"parameters": {"region": "eu"}}}, made


async def _bulk_jobs(scene: Scene) -> Sent:
    tag = scene.fresh()
    for _ in range(3):
        await job(scene, tags=[tag])
    return "/v1/jobs:bulk", {"action": "pause", "filter": {"tag": tag}}, ""


async def _bulk_runs(scene: Scene) -> Sent:
    tag = scene.fresh()
    for _ in range(3):
        await dead(scene, tag)
    return "/v1/runs:bulk", {"action": "retry", "filter": {"tag": tag}}, ""


async def _dead_letters(scene: Scene, verb: str) -> Sent:
    return f"/v1/dead-letters:{verb}", {"runIds": [await dead(scene), await dead(scene)]}, ""


async def _key(scene: Scene) -> str:
    return str((await scene.make("POST", "/v1/api-keys", role="viewer"))["keyId"])


async def _rotate(scene: Scene) -> Sent:
    made = await _key(scene)
    return f"/v1/api-keys/{made}/rotate", {"overlap": "1h"}, made


async def _revoke(scene: Scene) -> Sent:
    made = await _key(scene)
    return f"/v1/api-keys/{made}", None, made


async def _user(scene: Scene, body: Any) -> Sent:
    made = scene.fresh()
    await scene.make("POST", "/v1/users", userId=made, role="viewer")
    return f"/v1/users/{made}", body, made


async def _new_user(scene: Scene) -> Sent:
    made = scene.fresh()
    return "/v1/users", {"userId": made, "role": "viewer"}, made


async def _session(scene: Scene) -> Sent:
    _, made = await signed_in(scene, "admin")
    return f"/v1/sessions/{made}", None, made


async def _tenant(scene: Scene) -> Sent:
    made = scene.fresh()
    return "/v1/tenants", {"tenantId": made}, made


async def _changed_tenant(scene: Scene) -> Sent:
    path, body, made = await _tenant(scene)
    await scene.make("POST", path, **body)
    return f"/v1/tenants/{made}", {"limits": {"jobs": 7}}, made


async def _deleted_tenant(scene: Scene) -> Sent:
    path, _, made = await _changed_tenant(scene)
    return path, None, made


async def _task(scene: Scene) -> Sent:
    made = scene.fresh()
    return f"/v1/tasks/{made}", {"kind": "shell", "command": "true"}, made


async def _calendar(scene: Scene) -> Sent:
    made = scene.fresh()
    return f"/v1/calendars/{made}", {"entries": [{"dates": ["2030-01-01"]}]}, made


async def _deleted(scene: Scene, make: Callable[[Scene], Awaitable[Sent]]) -> Sent:
    path, body, made = await make(scene)
    await scene.make("PUT", path, **body)
    return path, None, made


async def _drain(scene: Scene) -> Sent:
    made = (await a_worker(scene)).session
    return f"/v1/workers/{made}/drain", None, made


async def _on_job(scene: Scene, path: str = "", body: Any = None) -> Sent:
    made = await job(scene)
    return f"/v1/jobs/{made}{path}", body, made


async def _on_flow(scene: Scene, path: str = "", body: Any = None) -> Sent:
    made = await flow(scene)
    return f"/v1/workflows/{made}{path}", body, made


DESCRIBED: Final = {"description": "d"}
MAKE: Final[dict[str, Callable[[Scene], Awaitable[Sent]]]] = {
    "PUT /v1/jobs/{jobId}": lambda scene: _on_job(scene, "", DESCRIBED),
    "PATCH /v1/jobs/{jobId}": lambda scene: _on_job(scene, "", DESCRIBED),
    "DELETE /v1/jobs/{jobId}": _on_job,
    "POST /v1/jobs/{jobId}/run": lambda scene: _on_job(scene, "/run"),
    "POST /v1/jobs/{jobId}/pause": lambda scene: _on_job(scene, "/pause"),
    "POST /v1/jobs/{jobId}/resume": _paused,
    "POST /v1/jobs/{jobId}/backfill": _backfill,
    "POST /v1/backfills/{backfillId}/cancel": _cancel_backfill,
    "POST /v1/jobs:bulk": _bulk_jobs,
    "PUT /v1/workflows/{workflowId}": lambda scene: _on_flow(scene, "", DESCRIBED),
    "PATCH /v1/workflows/{workflowId}": lambda scene: _on_flow(scene, "", DESCRIBED),
    "DELETE /v1/workflows/{workflowId}": _on_flow,
    "POST /v1/workflows/{workflowId}/run": lambda scene: _on_flow(scene, "/run"),
    "POST /v1/workflows/{workflowId}/pause": lambda scene: _on_flow(scene, "/pause"),
    "POST /v1/workflows/{workflowId}/resume": _paused_flow,
    "POST /v1/workflow-runs/{workflowRunId}/cancel": _cancel_flow_run,
    "POST /v1/workflow-runs/{workflowRunId}/retry": _retry_flow_run,
    "POST /v1/runs/{runId}/cancel": _cancel_run,
    "POST /v1/runs/{runId}/retry": lambda scene: _edited(scene, "retry"),
    "POST /v1/runs/{runId}/replay": lambda scene: _edited(scene, "replay"),
    "POST /v1/runs:bulk": _bulk_runs,
    "POST /v1/dead-letters:retry": lambda scene: _dead_letters(scene, "retry"),
    "POST /v1/dead-letters:discard": lambda scene: _dead_letters(scene, "discard"),
    "PUT /v1/tasks/{taskId}": _task,
    "DELETE /v1/tasks/{taskId}": lambda scene: _deleted(scene, _task),
    "PUT /v1/calendars/{name}": _calendar,
    "DELETE /v1/calendars/{name}": lambda scene: _deleted(scene, _calendar),
    "POST /v1/workers/{workerId}/drain": _drain,
    "POST /v1/api-keys/{keyId}/rotate": _rotate,
    "DELETE /v1/api-keys/{keyId}": _revoke,
    "DELETE /v1/sessions/{sessionId}": _session,
    "POST /v1/users": _new_user,
    "PATCH /v1/users/{userId}": lambda scene: _user(scene, {"name": "n"}),
    "DELETE /v1/users/{userId}": lambda scene: _user(scene, None),
    "POST /v1/tenants": _tenant,
    "PATCH /v1/tenants/{tenantId}": _changed_tenant,
    "DELETE /v1/tenants/{tenantId}": _deleted_tenant,
}
"""How to make what the request of a route changes. The other routes create something, with `BODIES`."""


async def entries(scene: Scene) -> list[AuditEntry]:
    store = scene.api.server.context.store
    return [each for chain in await store.audit_chains() for each in await store.audit_entries(chain, 0, 10_000)]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", AUDITED)
async def test_a_request_leaves_one_entry(scene: Scene, name: str) -> None:
    route = AUDITED[name]
    resource = None
    if (make := MAKE.get(name)) is not None:
        path, body, resource = await make(scene)
    else:
        path, body = await request_of(scene, name, "system", succeeds=True)
        assert body == BODIES[name]
    before = {(each.chain, each.seq) for each in await entries(scene)}
    answer = await scene.send("system", route.method, path, body)
    assert answer.status_code < 300, answer.text
    new = [each for each in await entries(scene) if (each.chain, each.seq) not in before]
    [entry] = [each for each in new if each.action != TENANT_DELETED]  # the receipt follows in the background
    assert (entry.action, entry.resource) == (route.audit, route.audit.partition(".")[0])
    assert entry.chain == (SYSTEM_CHAIN if route.audit in SYSTEM else "default")
    assert (entry.actor.kind, entry.actor.name, entry.address) == ("key", "admin", "127.0.0.1")
    assert entry.resource_id == resource if resource is not None else entry.resource_id in answer.text
    assert entry.before or entry.after
    assert '"edit":{"parameters":{"region":"eu"}}' in (entry.after or "") or "edit" not in str(body)


@pytest.mark.asyncio(loop_scope="module")
async def test_requests_that_change_nothing_leave_none(scene: Scene) -> None:
    made = await job(scene)
    store = scene.api.server.context.store

    async def of_tenants() -> list[AuditEntry]:
        return [each for chain in ("default", "other") for each in await store.audit_entries(chain, 0, 10_000)]

    before = await of_tenants()
    for path, body in (
        ("/v1/jobs:bulk", {"action": "pause", "filter": {"all": True}, "dryRun": True}),
        ("/v1/runs:bulk", {"action": "replay", "filter": {"all": True}, "dryRun": True}),
        ("/v1/jobs:bulk", {"action": "pause", "filter": {"tag": "none-has-this"}}),
        (f"/v1/jobs/{made}/resume", None),
        ("/v1/jobs", JOB),  # fires once: its row has the credential
        ("/v1/jobs", {"task": {"kind": "unknown"}}),
        (f"/v1/jobs/{made}/backfill", {"from": "not a time"}),
    ):
        await scene.send("system", "POST", path, body)
    await scene.send("viewer", "POST", f"/v1/jobs/{made}/pause")
    await scene.send("other_admin", "POST", f"/v1/jobs/{made}/pause")
    assert await of_tenants() == before


@pytest.mark.asyncio(loop_scope="module")
async def test_a_job_that_fires_once_has_the_credential_of_its_request(scene: Scene) -> None:
    made = (await scene.send("editor", "POST", "/v1/jobs", JOB)).json()["jobId"]
    found = (await scene.api.server.context.store.jobs([made]))[made]
    assert found.job.created_by == scene.ids["key of editor"]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_browser_acts_with_the_key_that_opened_its_session(scene: Scene) -> None:
    made = (await scene.send("session_editor", "POST", "/v1/jobs", {**JOB, "schedule": NEVER})).json()["jobId"]
    [entry] = [each for each in await entries(scene) if each.resource_id == made]
    assert (entry.actor.kind, entry.actor.id) == ("session", scene.ids["key of editor"])


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("who", ["editor", "other_admin"])
async def test_signing_in_and_out_leaves_one_entry_each(scene: Scene, who: str) -> None:
    cookie, session = await signed_in(scene, who)
    scene.credentials["browser"] = cookie
    assert (await scene.send("browser", "POST", "/v1/sign-out", None)).status_code == 200
    assert (await scene.send("browser", "POST", "/v1/sign-out", None)).status_code == 401
    assert (await scene.send(who, "POST", "/v1/sign-out", None)).status_code == 200, "a key has no session to end"
    chain = "other" if who == "other_admin" else "default"
    opened, closed = [each for each in await entries(scene) if each.resource_id == session]
    assert (opened.action, closed.action) == ("session.open", "session.close")
    for entry in (opened, closed):
        assert (entry.chain, entry.actor.kind, entry.address, entry.resource) == (
            chain, "session", "127.0.0.1", "session"
        )  # fmt: skip
        assert who != "editor" or entry.actor.id == scene.ids["key of editor"]
    assert opened.actor == closed.actor


@pytest.mark.asyncio(loop_scope="module")
async def test_a_user_of_the_provider_signs_in_with_an_entry(scene: Scene) -> None:
    before = await entries(scene)
    await SESSIONS["session_of_user"](scene)
    (entry,) = [each for each in (await entries(scene)) if each.action == "session.open" and each not in before]
    assert (entry.actor.kind, entry.chain) == ("session", "default")
    assert entry.actor.user_id


@pytest.mark.asyncio(loop_scope="module")
async def test_a_refused_sign_in_leaves_none(scene: Scene) -> None:
    before = [each for each in await entries(scene) if each.resource == "session"]
    for body in ({"apiKey": "x" * 43}, {"token": "x" * 43}, {}):
        answer = await scene.http.client.post(f"{scene.http.url}/v1/sign-in", headers={"host": HOST, **PAGE}, json=body)
        assert answer.status_code in (401, 422)
    assert [each for each in await entries(scene) if each.resource == "session"] == before


@pytest.mark.asyncio(loop_scope="module")
async def test_accepting_the_clock_leaves_an_entry_if_planning_is_held(scene: Scene) -> None:
    assert (await scene.send("system", "POST", "/v1/clock:accept", None)).status_code == 200
    assert [each for each in await entries(scene) if each.action == "clock.accept"] == []
    clock = scene.api.server.context.store._clock  # type: ignore[attr-defined]
    clock._held_since = clock()
    try:
        assert (await scene.send("system", "POST", "/v1/clock:accept", None)).status_code == 200
    finally:
        clock._held_since = None
    (entry,) = [each for each in await entries(scene) if each.action == "clock.accept"]
    assert (entry.chain, entry.actor.name, entry.resource) == (SYSTEM_CHAIN, "admin", "clock")


@pytest.mark.asyncio(loop_scope="module")
async def test_all_chains_verify_after_all_of_it(scene: Scene) -> None:
    store = scene.api.server.context.store
    await scene.make("POST", "/v1/tenants", tenantId=scene.fresh())
    for chain in ("default", "other", SYSTEM_CHAIN):  # those of other tenants are being deleted
        end = await store.audit_end(chain)
        entries_until_then = (await store.audit_entries(chain, 0, 10_000))[: end.last]
        assert verify(entries_until_then, end.head, chain) == []
    assert end.last > 0
