"""The former definitions of a job, through the API."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import ADMIN, OTHER, WORKER, Api, serving
from tests.support.migrated import sqlite_store
from timeball.object_stores.bucket import open_objects
from timeball.stores.sql.dialect import Query

HOURLY = {"type": "interval", "expression": "1h"}
LARGE = {"rows": ["x" * 1_000] * 500}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    objects = open_objects(str(tmp_path / "objects"))
    async with serving(sqlite_store(tmp_path / "timeball.db"), objects=objects) as running:
        yield running


async def update(api: Api, job_id: str, key: str = ADMIN, **fields: Any) -> dict[str, Any]:
    answer = await api("PATCH", f"/v1/jobs/{job_id}", key, json=fields)
    assert answer.status_code == 200, answer.text
    changed: dict[str, Any] = answer.json()
    return changed


async def test_versions_are_listed_newest_first_with_time_and_key(api: Api) -> None:
    made = await api("POST", "/v1/api-keys", json={"role": "admin", "name": "deploy"})
    nameless = await api("POST", "/v1/api-keys", json={"role": "admin"})
    job = await api.create(name="etl", schedule=HOURLY)
    ident = job["jobId"]
    second = await update(api, ident, made.json()["key"], priority="high")
    await api("POST", f"/v1/jobs/{ident}/pause")
    await update(api, ident, priority="high")
    third = await update(
        api, ident, nameless.json()["key"], name="etl 2", schedule={"type": "cron", "expression": "0 2 * * *"}
    )
    found = await api.get(f"/v1/jobs/{ident}/versions")
    assert found["nextCursor"] is None
    assert [(each["version"], each["by"], each["at"]) for each in found["items"]] == [
        (4, nameless.json()["keyId"], third["updatedAt"]),
        (2, "deploy", second["updatedAt"]),
        (1, None, job["createdAt"]),
    ]
    assert [each["job"]["priority"] for each in found["items"]] == ["high", "high", "medium"]
    assert [each["job"]["schedule"]["type"] for each in found["items"]] == ["cron", "interval", "interval"]
    pages = await api.get(f"/v1/jobs/{ident}/versions", params={"limit": 2})
    rest = await api.get(f"/v1/jobs/{ident}/versions", params={"limit": 2, "cursor": pages["nextCursor"]})
    assert pages["items"] + rest["items"] == found["items"]
    assert rest["nextCursor"] is None


async def test_a_former_definition_can_be_sent_back(api: Api) -> None:
    job = await api.create(name="etl", schedule=HOURLY, parameters={"days": 30}, tags=["a"], timeout="5m")
    ident = job["jobId"]
    await update(api, ident, name="other", parameters={"days": 1}, tags=["b"], timeout="1h", priority="low")
    first = (await api.get(f"/v1/jobs/{ident}/versions"))["items"][-1]["job"]
    answer = await api("PUT", f"/v1/jobs/{ident}", json=first)
    assert answer.status_code == 200, answer.text
    restored = answer.json()
    assert {name: restored[name] for name in first} == first == {name: job[name] for name in first}
    versions = (await api.get(f"/v1/jobs/{ident}/versions"))["items"]
    assert [each["version"] for each in versions] == [3, 2, 1]
    assert versions[0]["job"] == versions[2]["job"]


async def test_large_parameters_are_shown_in_every_version(api: Api) -> None:
    job = await api.create(schedule=HOURLY, parameters=LARGE)
    ident = job["jobId"]
    await update(api, ident, name="still large")
    await update(api, ident, parameters={"small": 1})
    found: list[Any] = []
    cursor: str | None = ""
    pages = 0
    while cursor is not None:
        page = await api.get(f"/v1/jobs/{ident}/versions", params={"cursor": cursor})
        found += page["items"]
        cursor = page["nextCursor"]
        pages += 1
    assert [each["job"]["parameters"] for each in found] == [{"small": 1}, LARGE, LARGE]
    assert pages == 3, "no answer is large"


async def test_a_workflow_has_versions_as_well(api: Api) -> None:
    task = {"name": "a", "task": {"kind": "shell", "command": "true"}}
    made = (await api("POST", "/v1/workflows", json={"name": "flow", "tasks": [task], "schedule": HOURLY})).json()
    both = [task, {**task, "name": "b", "needs": ["a"]}]
    answer = await api("PATCH", f"/v1/workflows/{made['workflowId']}", json={"tasks": both})
    assert answer.status_code == 200, answer.text
    items = (await api.get(f"/v1/jobs/{made['workflowId']}/versions"))["items"]
    assert [(each["version"], each["by"], len(each["job"]["task"]["tasks"])) for each in items] == [
        (2, "admin", 2),
        (1, None, 1),
    ]


async def test_a_version_that_cannot_be_read_spoils_no_other(api: Api) -> None:
    """I30."""
    job = await api.create(schedule=HOURLY)
    await update(api, job["jobId"], name="second")
    store: Any = api.server.context.store
    spoil = Query("spoil", """UPDATE job_versions SET spec = '{"task":{"kind":"later"}}'""")
    await store._db.write(lambda tx: tx.execute(spoil))
    second, first = (await api.get(f"/v1/jobs/{job['jobId']}/versions"))["items"]
    assert second["job"]["name"] == "second"
    assert (first["version"], first["error"]["code"]) == (1, "unrenderable")


@pytest.mark.parametrize("cursor", ["x", "-1", "1e3", "٣", "9" * 19, "j_1"])
async def test_a_cursor_of_another_list_is_refused(api: Api, cursor: str) -> None:
    job = await api.create(schedule=HOURLY)
    answer = await api("GET", f"/v1/jobs/{job['jobId']}/versions", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/query/cursor")


async def test_versions_of_another_tenant_are_not_there(api: Api) -> None:
    """I24."""
    job = await api.create(schedule=HOURLY)
    path = f"/v1/jobs/{job['jobId']}/versions"
    assert (await api("GET", path, OTHER)).status_code == 404
    assert (await api("GET", path, WORKER)).status_code == 403
    assert json.loads((await api("GET", f"/v1/jobs/j_{'0' * 28}/versions")).text)["code"] == "not_found"
