"""Tenants, users and API keys over the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.api import ADMIN, OTHER, Api, FakeWorker, running_api
from tests.support.browser import Browser
from timeball.domain.instant import DAY, SECOND, render
from timeball.server.loops.credential_use_writer import WRITE_INTERVAL

JOB = {"task": {"kind": "shell", "command": "true"}}


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as api:
        yield api


async def ask(api: Api, method: str, path: str, key: str = ADMIN, status: int = 200, **body: Any) -> Any:
    answer = await api(method, path, key, **({"json": body} if body else {}))
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


async def new_key(api: Api, role: str, key: str = ADMIN, **fields: Any) -> str:
    made = await ask(api, "POST", "/v1/api-keys", key, 201, role=role, **fields)
    return str(made["key"])


async def test_a_system_admin_makes_a_tenant_whose_admin_sees_only_that_one(api: Api) -> None:
    """I24."""
    limits = {"weight": 2.0, "jobs": 5, "maxPriority": 7, "prices": {"run": "0.0001"}}
    made = await ask(api, "POST", "/v1/tenants", status=201, tenantId="acme", name="ACME", limits=limits)
    assert (made["tenantId"], made["state"], made["limits"], made["version"]) == ("acme", "active", limits, 1)
    first = await ask(api, "POST", "/v1/tenants/acme/api-keys", status=201, role="admin", name="first")
    key = first["key"]
    assert (await ask(api, "GET", "/v1/me", key))["tenant"] == "acme"
    used = {"concurrentRuns": 0, "jobs": 0, "runsPerDay": None, "storedBytes": None}
    assert await ask(api, "GET", "/v1/tenants/acme", key) == {**made, "used": used}
    for path in ("/v1/tenants/other", "/v1/tenants/nowhere", "/v1/tenants/default"):
        await ask(api, "GET", path, key, 404)
    await ask(api, "GET", "/v1/tenants", key, 403)
    await ask(api, "PATCH", "/v1/tenants/acme", key, 403, limits={})
    await ask(api, "POST", "/v1/tenants/acme/api-keys", key, 403, role="viewer")
    assert [each["tenantId"] for each in (await ask(api, "GET", "/v1/tenants"))["items"]] == [
        "acme",
        "default",
        "other",
    ]
    await ask(api, "POST", "/v1/tenants/nowhere/api-keys", status=404, role="admin")


async def test_a_tenant_changes_field_by_field_and_by_version(api: Api) -> None:
    await ask(api, "POST", "/v1/tenants", status=201, tenantId="acme", name="ACME", limits={"jobs": 5})
    await ask(api, "POST", "/v1/tenants", status=409, tenantId="acme")
    changed = await ask(api, "PATCH", "/v1/tenants/acme", description="d")
    assert (changed["name"], changed["limits"], changed["version"]) == ("ACME", {"jobs": 5}, 2)
    assert (await ask(api, "PATCH", "/v1/tenants/acme", limits={}))["limits"] == {}
    assert (await ask(api, "PATCH", "/v1/tenants/acme", limits={}))["version"] == 3
    stale = await api("PATCH", "/v1/tenants/acme", json={"name": "B"}, headers={"If-Match": '"2"'})
    assert stale.status_code == 412
    fresh = await api("PATCH", "/v1/tenants/acme", json={"name": "B"}, headers={"If-Match": '"3"'})
    assert (fresh.status_code, fresh.headers["etag"]) == (200, '"4"')


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"tenantId": "Acme"}, "/tenantId"),
        ({"tenantId": "*"}, "/tenantId"),
        ({"tenantId": ""}, "/tenantId"),
        ({"tenantId": "a", "limits": {"jobs": -1}}, "/limits/jobs"),
        ({"tenantId": "a", "limits": {"weight": 0}}, "/limits/weight"),
        ({"tenantId": "a", "limits": {"maxPriority": 10}}, "/limits/maxPriority"),
        ({"tenantId": "a", "limits": {"job": 1}}, "/limits/job"),
        ({"tenantId": "a", "limits": {"prices": {"run": "-1"}}}, "/limits/prices/run"),
        ({"tenantId": "a", "limits": {"prices": {"run": "NaN"}}}, "/limits/prices/run"),
        ({"tenantId": "a", "limits": {"prices": {"cpuSecond": "1e-13"}}}, "/limits/prices/cpuSecond"),
        ({"tenantId": "a", "limits": {"prices": {"runs": "1"}}}, "/limits/prices/runs"),
    ],
)
async def test_wrong_values_of_a_tenant_are_named(api: Api, body: dict[str, Any], pointer: str) -> None:
    problem = await ask(api, "POST", "/v1/tenants", status=422, **body)
    assert [each["pointer"] for each in problem["errors"]] == [pointer], problem


async def test_nobody_grants_a_role_above_their_own(api: Api) -> None:
    """I24."""
    admin = await new_key(api, "admin")
    editor = await new_key(api, "editor", admin)
    await ask(api, "POST", "/v1/api-keys", editor, 403, role="viewer")
    await ask(api, "POST", "/v1/api-keys", admin, 403, role="system")
    await ask(api, "POST", "/v1/users", admin, 403, userId="u", role="system")
    keys_only = await new_key(api, "admin", scopes=["admin", "read"])
    await ask(api, "POST", "/v1/api-keys", keys_only, 403, role="editor")
    assert await new_key(api, "editor", keys_only, scopes=["read"])
    await ask(api, "POST", "/v1/api-keys", keys_only, 403, role="editor", scopes=["read", "edit"])
    root = next(each for each in (await ask(api, "GET", "/v1/api-keys"))["items"] if each["role"] == "system")
    for method, path in (("DELETE", ""), ("POST", "/rotate")):
        await ask(api, method, f"/v1/api-keys/{root['keyId']}{path}", admin, 403)
    await ask(api, "POST", "/v1/users", status=201, userId="root", role="system")
    for method in ("PATCH", "DELETE"):
        await ask(api, method, "/v1/users/root", admin, 403, **({"state": "disabled"} if method == "PATCH" else {}))
    await ask(api, "POST", "/v1/users", admin, 201, userId="u", role="viewer")
    await ask(api, "PATCH", "/v1/users/u", admin, 403, role="system")


async def test_a_key_has_only_its_scopes(api: Api) -> None:
    key = await new_key(api, "editor", scopes=["read"])
    assert (await ask(api, "GET", "/v1/me", key))["permissions"] == ["read"]
    await ask(api, "GET", "/v1/jobs", key)
    assert "limited scopes" in (await ask(api, "POST", "/v1/jobs", key, 403, **JOB))["detail"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"role": "editor", "scopes": ["admin"]}, "/scopes"),
        ({"role": "editor", "scopes": []}, "/scopes"),
        ({"role": "editor", "labels": ["gpu"]}, "/labels"),
        ({"role": "editor", "tenants": ["other"]}, "/tenants"),
        ({"role": "worker", "tenants": []}, "/tenants"),
        ({"role": "worker", "tenants": ["nowhere"]}, "/tenants/0"),
        ({"role": "worker", "labels": ["~other"]}, "/labels/0"),
        ({"role": "editor", "userId": "nobody"}, "/userId"),
        ({"role": "editor", "userId": "vera"}, "/role"),
        ({"role": "editor", "expiresAt": "2020-01-01T00:00:00Z"}, "/expiresAt"),
        ({"role": "editor", "expiresAt": "tomorrow"}, "/expiresAt"),
    ],
)
async def test_rules_of_a_key_that_contradict_each_other_are_refused(
    api: Api, body: dict[str, Any], pointer: str
) -> None:
    await ask(api, "POST", "/v1/users", status=201, userId="vera", role="viewer")
    problem = await ask(api, "POST", "/v1/api-keys", status=422, **body)
    assert [each["pointer"] for each in problem["errors"]] == [pointer], problem


async def test_an_expired_key_says_so(api: Api) -> None:
    store = api.server.context.store
    key = await new_key(api, "viewer", expiresAt=render(store.now() + 300_000))
    await ask(api, "GET", "/v1/jobs", key)
    await asyncio.sleep(0.31)
    assert "this API key expired at 20" in (await ask(api, "GET", "/v1/jobs", key, 401))["detail"]
    signed_in = await Browser(api).sign_in(apiKey=key)
    assert "this API key expired at 20" in signed_in.json()["detail"]


async def test_a_rotated_key_works_beside_the_new_one_until_the_overlap_ends(api: Api) -> None:
    old = await ask(api, "POST", "/v1/api-keys", status=201, role="operator", name="ci", scopes=["read"])
    path = f"/v1/api-keys/{old['keyId']}/rotate"
    new = await ask(api, "POST", path, status=201, overlap="500ms")
    assert (new["name"], new["role"], new["scopes"], new["replaces"]) == ("ci", "operator", ["read"], old["keyId"])
    for key in (old["key"], new["key"]):
        await ask(api, "GET", "/v1/jobs", key)
    await ask(api, "POST", path, status=409)
    await asyncio.sleep(0.51)
    await ask(api, "GET", "/v1/jobs", old["key"], 401)
    await ask(api, "GET", "/v1/jobs", new["key"])
    await ask(api, "POST", f"/v1/api-keys/{new['keyId']}/rotate", OTHER, 404)
    problem = await ask(api, "POST", f"/v1/api-keys/{new['keyId']}/rotate", status=422, overlap="91d")
    assert [each["pointer"] for each in problem["errors"]] == ["/overlap"]
    listed = {each["keyId"]: each for each in (await ask(api, "GET", "/v1/api-keys"))["items"]}
    assert listed[old["keyId"]]["expiresAt"] is not None
    assert all("key" not in each and "digest" not in each for each in listed.values())


async def test_a_key_that_expires_gets_its_lifetime_again(api: Api) -> None:
    store = api.server.context.store
    old = await ask(api, "POST", "/v1/api-keys", status=201, role="viewer", expiresAt=render(store.now() + DAY))
    new = await ask(api, "POST", f"/v1/api-keys/{old['keyId']}/rotate", status=201)
    assert new["expiresAt"] > old["expiresAt"]


async def test_a_user_that_is_disabled_or_deleted_has_no_valid_key(api: Api) -> None:
    await ask(api, "POST", "/v1/users", status=201, userId="anna", role="editor", email="anna@example.org")
    key = await new_key(api, "editor", userId="anna")
    await ask(api, "GET", "/v1/jobs", key)
    await ask(api, "PATCH", "/v1/users/anna", state="disabled")
    await refused_soon(api, key)
    await ask(api, "PATCH", "/v1/users/anna", state="active", role="viewer")
    await until(api, key, 403, "POST")
    await ask(api, "GET", "/v1/jobs", key)
    await ask(api, "DELETE", "/v1/users/anna", status=204)
    await refused_soon(api, key)
    await ask(api, "GET", "/v1/users/anna", status=404)


async def refused_soon(api: Api, key: str) -> None:
    await until(api, key, 401, "GET")


async def until(api: Api, key: str, status: int, method: str) -> None:
    async with asyncio.timeout(60):
        while (await api(method, "/v1/jobs", key, json=JOB)).status_code != status:
            await asyncio.sleep(0.1)


async def test_users_are_seen_by_admins_of_their_tenant_only(api: Api) -> None:
    """I24."""
    await ask(api, "POST", "/v1/users", status=201, userId="anna", role="editor")
    assert (await ask(api, "GET", "/v1/users", OTHER))["items"] == []
    for method in ("GET", "PATCH", "DELETE"):
        await ask(api, method, "/v1/users/anna", OTHER, 404, **({"name": "x"} if method == "PATCH" else {}))
    editor = await new_key(api, "editor")
    await ask(api, "GET", "/v1/users", editor, 403)


async def test_an_admin_does_not_lock_itself_out(api: Api) -> None:
    await ask(api, "POST", "/v1/users", status=201, userId="anna", role="admin")
    key = await new_key(api, "admin", userId="anna")
    assert (await ask(api, "PATCH", "/v1/users/anna", key, name="Anna"))["name"] == "Anna"
    for body in ({"state": "disabled"}, {"role": "viewer"}):
        assert "your own user" in (await ask(api, "PATCH", "/v1/users/anna", key, 409, **body))["detail"]
    await ask(api, "DELETE", "/v1/users/anna", key, 409)


async def test_the_user_of_a_job_comes_from_the_credential(api: Api) -> None:
    await ask(api, "POST", "/v1/users", status=201, userId="anna", role="admin")
    of_anna = await new_key(api, "editor", userId="anna")
    of_no_user = await new_key(api, "editor")
    made = await ask(api, "POST", "/v1/jobs", of_anna, 201, **JOB)
    assert made["userId"] == "anna"
    assert (await ask(api, "POST", "/v1/jobs", of_anna, 201, **JOB, userId="anna"))["userId"] == "anna"
    assert (await ask(api, "POST", "/v1/jobs", of_no_user, 201, **JOB))["userId"] == ""
    for key in (of_anna, of_no_user):
        assert "userId" in (await ask(api, "POST", "/v1/jobs", key, 403, **JOB, userId="bert"))["detail"]
        await ask(api, "PATCH", f"/v1/jobs/{made['jobId']}", key, 403, userId="bert")
        batch = (await api("POST", "/v1/jobs:batch", key, json=[JOB, {**JOB, "userId": "bert"}])).json()
        assert [each.get("error", {}).get("status") for each in batch["items"]] == [None, 403]
    flow = {"name": "w", "tasks": [{"name": "a", **JOB}]}
    await ask(api, "POST", "/v1/workflows", of_anna, 403, **flow, userId="bert")
    created = await ask(api, "POST", "/v1/workflows", of_anna, 201, **flow)
    assert created["userId"] == "anna"
    await ask(api, "PATCH", f"/v1/workflows/{created['workflowId']}", of_anna, 403, userId="bert")
    whole = await ask(api, "GET", f"/v1/jobs/{made['jobId']}", of_no_user)
    await ask(api, "PATCH", f"/v1/jobs/{made['jobId']}", of_no_user, description="d", userId=whole["userId"])
    assert (await ask(api, "POST", "/v1/jobs", ADMIN, 201, **JOB, userId="bert"))["userId"] == "bert"
    assert (await ask(api, "PATCH", f"/v1/jobs/{made['jobId']}", ADMIN, userId="bert"))["userId"] == "bert"


async def test_the_last_use_of_a_key_is_stored_without_a_write_per_request(api: Api) -> None:
    key = await ask(api, "POST", "/v1/api-keys", status=201, role="viewer")
    writer = next(loop for loop in api.server.loops if loop.name == "credential_use_writer")
    for _ in range(20):
        await ask(api, "GET", "/v1/me", key["key"])

    async def last_used() -> str | None:
        (found,) = [each for each in (await ask(api, "GET", "/v1/api-keys"))["items"] if each["keyId"] == key["keyId"]]
        return str(found["lastUsedAt"]) if found["lastUsedAt"] else None

    assert await last_used() is None
    writer._sleeps_until = 0
    writer.wake()
    async with asyncio.timeout(60):
        while await last_used() is None:
            await asyncio.sleep(0.02)
    assert writer._sleeps_until - api.server.context.clock.monotonic() > WRITE_INTERVAL - 10 * SECOND


# --- worker keys ---------------------------------------------------------------------------------------------------


async def test_a_worker_offers_only_labels_of_its_key(api: Api) -> None:
    worker = FakeWorker(api, await new_key(api, "worker", labels=["gpu", "eu"]))
    hello = {"name": "w", "slots": 1, "version": "0"}
    refused = await worker.send("hello", {**hello, "labels": ["gpu", "us"]}, 403)
    assert "'us'" in refused["detail"]
    await worker.send("hello", {**hello, "labels": ["gpu"]})
    await worker.send("hello", {**hello, "labels": []})
    free = FakeWorker(api, await new_key(api, "worker"))
    await free.send("hello", {**hello, "labels": ["us"]})


async def test_a_worker_gets_only_runs_of_the_tenants_of_its_key(api: Api) -> None:
    """I24, I31."""
    of_other = FakeWorker(api, await new_key(api, "worker", OTHER))
    of_default = FakeWorker(api, await new_key(api, "worker"))
    of_both = FakeWorker(api, await new_key(api, "worker", tenants=["default", "other"]))
    for worker in (of_other, of_default, of_both):
        await worker.hello()
    other = await ask(api, "POST", "/v1/jobs", OTHER, 201, **JOB)
    assert await of_default.poll(wait=200_000) == []
    assigned = await of_other.take()
    assert assigned["jobId"] == other["jobId"]
    await of_other.succeed(assigned)
    own, second = [(await ask(api, "POST", "/v1/jobs", ADMIN, 201, **JOB))["jobId"] for _ in range(2)]
    assert await of_other.poll(wait=200_000) == []
    assert (await of_default.take())["jobId"] == own
    assert (await of_both.take())["jobId"] == second
    await ask(api, "POST", "/v1/api-keys", OTHER, 403, role="worker", tenants=["default"])
    await ask(api, "POST", "/v1/api-keys", OTHER, 403, role="worker", tenants=["*"])


async def test_the_worker_of_one_tenant_settles_nothing_of_another(api: Api) -> None:
    """I31."""
    holder, stranger = (
        FakeWorker(api, await new_key(api, "worker")),
        FakeWorker(api, await new_key(api, "worker", OTHER)),
    )
    for worker in (holder, stranger):
        await worker.hello()
    made = await ask(api, "POST", "/v1/jobs", ADMIN, 201, **JOB)
    assigned = await holder.take()
    await stranger.succeed(assigned)
    stranger.session = holder.session
    with pytest.raises(AssertionError, match="session"):
        await stranger.succeed(assigned)
    assert (await ask(api, "GET", f"/v1/jobs/{made['jobId']}/status"))["status"] == "running"
    await holder.succeed(assigned)
    assert (await ask(api, "GET", f"/v1/jobs/{made['jobId']}/status"))["status"] == "succeeded"


async def gone(api: Api, tenant: str) -> list[dict[str, Any]]:
    """Wait until a tenant is deleted; its views until then."""
    seen: list[dict[str, Any]] = []
    async with asyncio.timeout(60):
        while (answer := await api("GET", f"/v1/tenants/{tenant}")).status_code == 200:
            seen.append(answer.json())
            await asyncio.sleep(0.05)
    assert answer.status_code == 404
    return seen


async def test_a_deleted_tenant_is_refused_at_once_and_gone_when_its_runs_have_ended(api: Api) -> None:
    """I10: its running attempt is cancelled, and nothing is deleted before it has ended."""
    await ask(api, "POST", "/v1/tenants", status=201, tenantId="acme")
    key = (await ask(api, "POST", "/v1/tenants/acme/api-keys", status=201, role="admin"))["key"]
    shared = await new_key(api, "worker", tenants=["*"])
    job = await ask(api, "POST", "/v1/jobs", key, 201, **JOB)
    cron = await ask(api, "POST", "/v1/jobs", key, 201, **JOB, schedule={"type": "interval", "expression": "1h"})
    kept = await ask(api, "POST", "/v1/jobs", status=201, **JOB, schedule={"type": "interval", "expression": "1h"})
    worker = FakeWorker(api, shared)
    await worker.hello()
    assigned = await worker.take()
    assert assigned["jobId"] == job["jobId"]

    made = await ask(api, "DELETE", "/v1/tenants/acme", status=202)
    assert (made["state"], made["deletion"]["phase"], made["deletion"]["deleted"]) == ("deleting", "runs", {})
    await ask(api, "GET", "/v1/jobs", key, 401)
    assert (await ask(api, "DELETE", "/v1/tenants/acme", status=202))["version"] == made["version"]
    await ask(api, "PATCH", "/v1/tenants/acme", status=409, name="B")
    await ask(api, "POST", "/v1/tenants/acme/api-keys", status=409, role="admin")
    assert await api.server.context.store.tenant("acme") is not None, "the attempt is running"
    run = (await api.server.context.store.runs([assigned["runId"]]))[assigned["runId"]]
    assert run.cancel_requested_at is not None
    await worker.succeed(assigned, None)

    seen = await gone(api, "acme")
    assert {each["state"] for each in seen} <= {"deleting"}
    assert (await ask(api, "GET", "/v1/tenants"))["items"][0]["tenantId"] == "default"
    assert (await api.server.context.store.jobs([job["jobId"], cron["jobId"]])) == {}
    assert (await ask(api, "GET", f"/v1/jobs/{kept['jobId']}"))["status"] == "scheduled"
    await ask(api, "DELETE", "/v1/tenants/acme", status=404)
    again = await ask(api, "POST", "/v1/tenants", status=409, tenantId="acme")
    assert "cannot be used again" in again["detail"]


async def test_the_default_tenant_and_the_own_one_are_not_deleted(api: Api) -> None:
    await ask(api, "DELETE", "/v1/tenants/default", status=409)
    await ask(api, "POST", "/v1/tenants", status=201, tenantId="acme")
    root = (await ask(api, "POST", "/v1/tenants/acme/api-keys", status=201, role="system"))["key"]
    refused = await ask(api, "DELETE", "/v1/tenants/acme", root, 409)
    assert "your credential" in refused["detail"]
    admin = (await ask(api, "POST", "/v1/tenants/acme/api-keys", status=201, role="admin"))["key"]
    await ask(api, "DELETE", "/v1/tenants/other", admin, 403)
    await ask(api, "DELETE", "/v1/tenants/nowhere", status=404)
