"""Errors that are planted into permissions and tenant filters, each of which the lines of `permissions.csv` find."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from tests.security.scene import Scene, a_scene
from tests.security.test_permissions import wrong_lines
from timeball.api import auth
from timeball.api.app import ROUTES
from timeball.api.routes import tenants, worker_protocol
from timeball.api.routes.audit_log import entries as audit_log
from timeball.api.routes.jobs import jobs, versions
from timeball.api.routes.overview import usage
from timeball.api.routes.runs import runs
from timeball.domain.identity.permission import Permission
from timeball.operation.events.hub import EventHub
from timeball.ports.store.registry import Key
from timeball.server.worker_gateway.gateway import WorkerGateway
from timeball.server.worker_gateway.session import WorkerSession
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.registry import api_keys, registered_tasks, users, web_sessions

Patch = Callable[[pytest.MonkeyPatch, Scene], None]


def lowered(route: str, permission: Permission) -> tuple[str, str, Patch]:
    """A route needs less than it should."""

    def patch(patched: pytest.MonkeyPatch, scene: Scene) -> None:
        (found,) = [each for each in ROUTES if f"{each.method} {each.path}" == route]
        change(patched, found, "permission", permission)

    return f"{route} needs only {permission.value}", route, patch


def unfiltered(route: str, module: Any, names: str, condition: str) -> tuple[str, str, Patch]:
    """Statements lack a condition."""

    def patch(patched: pytest.MonkeyPatch, scene: Scene) -> None:
        for name in names.split():
            statement: Query = getattr(module, name)
            assert condition in statement.text
            text = statement.text.replace(condition, f"({condition} OR 1 = 1)")
            patched.setattr(module, name, Query(statement.name, text, statement.many))

    return f"{names} ignores {condition}", route, patch


def planted(what: str, route: str, patch: Patch) -> tuple[str, str, Patch]:
    return what, route, patch


def change(patched: pytest.MonkeyPatch, frozen: Any, name: str, value: Any) -> None:
    """Change a field of a frozen object until the end of the test."""
    before = getattr(frozen, name)
    object.__setattr__(frozen, name, value)
    undo.append(lambda: object.__setattr__(frozen, name, before))


undo: list[Callable[[], None]] = []


def for_every_tenant(module: Any, name: str) -> Patch:
    """A function that gets the context and the tenant looks in the default tenant, whatever the tenant is."""

    def patch(patched: pytest.MonkeyPatch, scene: Scene) -> None:
        original = getattr(module, name)

        def everywhere(context: Any, tenant: str, *rest: Any, **more: Any) -> Any:
            return original(context, "default", *rest, **more)

        patched.setattr(module, name, everywhere)

    return patch


def filter_of_default(module: Any, name: str) -> Patch:
    """A filter from a query or a body selects in the default tenant."""

    def patch(patched: pytest.MonkeyPatch, scene: Scene) -> None:
        original = getattr(module, name)
        patched.setattr(module, name, lambda given, tenant, *rest: original(given, "default", *rest))

    return patch


def _no_expiry(patched: pytest.MonkeyPatch, scene: Scene) -> None:
    patched.setattr(Key, "is_expired", lambda key, now: False)


def _every_session(patched: pytest.MonkeyPatch, scene: Scene) -> None:
    patched.setattr(WorkerGateway, "_refuse_if_foreign", lambda gateway, session, key: None)
    patched.setattr(WorkerSession, "belongs_to", lambda session, key: True)
    patched.setattr(WorkerSession, "heard", lambda session, key, now: True)


def _events_of_default(patched: pytest.MonkeyPatch, scene: Scene) -> None:
    original = EventHub.subscribe
    patched.setattr(EventHub, "subscribe", lambda hub, tenant, *rest: original(hub, "default", *rest))


def _any_tenant_is_read(patched: pytest.MonkeyPatch, scene: Scene) -> None:
    async def read(call: Any) -> Any:
        return tenants._answer(await tenants.find_tenant(call.context, call.path["tenantId"]))

    (found,) = [each for each in tenants.ROUTES if (each.method, each.path) == ("GET", "/v1/tenants/{tenantId}")]
    change(patched, found, "handle", read)


def _key_of_any_worker(patched: pytest.MonkeyPatch, scene: Scene) -> None:
    patched.setattr(worker_protocol, "_key_of", lambda call: scene.ids["key of worker"])


def _roles_of_keys_are_system(patched: pytest.MonkeyPatch, scene: Scene) -> None:
    original = auth._caller
    patched.setattr(auth, "_caller", lambda key, *rest: replace(original(key, *rest), role="system"))


def _audit_log_of_default(patched: pytest.MonkeyPatch, scene: Scene) -> None:
    patched.setattr(audit_log, "_chain", lambda call, scope: "default")


def _usage_of_default(patched: pytest.MonkeyPatch, scene: Scene) -> None:
    async def tenants_read(call: Any, only: str) -> list[str]:
        return ["default"]

    patched.setattr(usage, "_tenants", tenants_read)


TENANT: Final = "tenant = :tenant"
PLANTED: Final = (
    lowered("DELETE /v1/jobs/{jobId}", Permission.READ),
    lowered("POST /v1/jobs", Permission.RUN),
    lowered("POST /v1/jobs:batch", Permission.KEY),
    lowered("GET /v1/runs/{runId}/logs", Permission.KEY),
    lowered("GET /v1/events", Permission.KEY),
    lowered("POST /v1/worker/report", Permission.READ),
    lowered("POST /v1/runs:bulk", Permission.READ),
    lowered("PUT /v1/workflows/{workflowId}", Permission.RUN),
    lowered("GET /v1/tenants", Permission.ADMIN),
    lowered("GET /v1/clock", Permission.READ),
    planted("usage is that of the default tenant", "GET /v1/usage", _usage_of_default),
    planted("a job is found in any tenant", "GET /v1/jobs/{jobId}/versions", for_every_tenant(versions, "find_job")),
    planted("a run is found in any tenant", "GET /v1/runs/{runId}/spec", for_every_tenant(runs, "find_run_anywhere")),
    planted("logs are found in any tenant", "GET /v1/runs/{runId}/logs", for_every_tenant(runs, "find_run_anywhere")),
    planted("jobs of any tenant are listed", "GET /v1/jobs", filter_of_default(jobs, "job_filter")),
    planted("runs of any tenant are listed", "GET /v1/runs", filter_of_default(runs, "run_filter")),
    planted("runs of any tenant are counted", "POST /v1/runs:bulk", filter_of_default(runs, "run_filter")),
    unfiltered("GET /v1/tasks/{taskId}", registered_tasks, "TASK", TENANT),
    unfiltered("GET /v1/tasks", registered_tasks, "LIST_TASKS TASKS_BY_ID", "tenant = :tenant"),
    unfiltered("GET /v1/users", users, "LIST_USERS", "u.tenant = :tenant"),
    unfiltered("GET /v1/users/{userId}", users, "USER", "u.tenant = :tenant"),
    unfiltered("GET /v1/api-keys", api_keys, "LIST_KEYS", "k.tenant = :tenant"),
    unfiltered("DELETE /v1/api-keys/{keyId}", api_keys, "KEY_BY_ID", "k.tenant = :tenant"),
    unfiltered("DELETE /v1/sessions/{sessionId}", web_sessions, "REVOKE_SESSION", TENANT),
    unfiltered("GET /v1/me", api_keys, "KEY_BY_DIGEST", "k.revoked_at IS NULL"),
    planted("a key never expires", "GET /v1/me", _no_expiry),
    planted("a session of a worker belongs to every key", "POST /v1/worker/report", _every_session),
    planted("the key of a message is not compared", "POST /v1/worker/beat", _key_of_any_worker),
    planted("events of any tenant are sent", "GET /v1/events", _events_of_default),
    planted("the audit log of any tenant is listed", "GET /v1/audit-log", _audit_log_of_default),
    planted("the audit log of any tenant is exported", "GET /v1/audit-log/export", _audit_log_of_default),
    lowered("GET /v1/audit-log", Permission.EDIT),
    planted("any tenant is shown", "GET /v1/tenants/{tenantId}", _any_tenant_is_read),
    planted("the role of a key is not read", "POST /v1/users", _roles_of_keys_are_system),
)


async def test_every_planted_error_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I24."""
    missed = []
    async with a_scene(tmp_path) as scene:
        for what, route, patch in PLANTED:
            with monkeypatch.context() as patched:
                patch(patched, scene)
                forget_credentials(scene)
                try:
                    if not await wrong_lines(scene, [route]):
                        missed.append(what)
                finally:
                    while undo:
                        undo.pop()()
            forget_credentials(scene)
    assert missed == []
    assert len(PLANTED) >= 20


def forget_credentials(scene: Scene) -> None:
    """Empty the cache of credentials, so that each planted error meets them anew."""
    authenticate = scene.api.app._default._authenticate  # type: ignore[attr-defined]
    authenticate._known.clear()
    authenticate._unknown.clear()
