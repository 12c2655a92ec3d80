"""Workflows over the API, with the real loops of a server, and a worker that the tests control."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import OTHER, Api, FakeWorker, running_api

DAILY = {"type": "cron", "expression": "0 2 * * *"}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as running:
        yield running


@pytest.fixture
async def worker(api: Api) -> FakeWorker:
    fake = FakeWorker(api)
    await fake.hello()
    return fake


def task(name: str, *needs: str, **fields: Any) -> dict[str, Any]:
    made = {"name": name, "task": {"kind": "shell", "command": "true"}, "retry": {"maxRetries": 0}, **fields}
    return {**made, "needs": list(needs)} if needs else made


async def create(api: Api, *tasks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    answer = await api("POST", "/v1/workflows", json={"name": "flow", "tasks": list(tasks), **fields})
    assert answer.status_code == 201, answer.text
    created: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"/v1/workflows/{created['workflowId']}"
    return created


async def newest_run(api: Api, workflow: dict[str, Any]) -> str:
    [run] = (await api.get(f"/v1/workflows/{workflow['workflowId']}/runs"))["items"]
    return str(run["runId"])


async def ended(api: Api, run_id: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            run: dict[str, Any] = await api.get(f"/v1/workflow-runs/{run_id}")
            if run["endTime"] is not None:
                return run
            await asyncio.sleep(0.01)


async def test_a_workflow_runs_from_its_first_task_to_its_last(api: Api, worker: FakeWorker) -> None:
    workflow = await create(
        api,
        task("extract"),
        task("load", "extract", parameters={"rows": {"$result": "extract", "path": "/rows"}}),
        task("alarm", "load", runIf="any_failed"),
    )
    assert [each["name"] for each in workflow["tasks"]] == ["extract", "load", "alarm"]
    assert "task" not in workflow
    first = await worker.take()
    run_id = await newest_run(api, workflow)
    run = await api.get(f"/v1/workflow-runs/{run_id}")
    assert (run["status"], run["workflowId"]) == ("running", workflow["workflowId"])
    assert [each["status"] for each in run["tasks"]] == ["running", "waiting", "waiting"]
    assert run["tasks"][1]["waitsFor"] == 1
    assert [each["endTime"] for each in run["tasks"]] == [None, None, None]
    why = await api.get(f"/v1/runs/{run_id}/why")
    assert why["reasons"][0]["code"] == "tasks"
    assert f"task extract (run {first['runId']})" in why["reasons"][0]["text"]
    await worker.succeed(first, {"rows": 3})
    second = await worker.take()
    assert second["spec"]["parameters"] == {"rows": 3}
    await worker.succeed(second)
    run = await ended(api, run_id)
    assert (run["status"], run["counts"]) == ("succeeded", {"succeeded": 2, "skipped": 1})
    assert run["tasks"][2]["reason"] == "none of the tasks it needs failed"
    assert run["tasks"][0]["startTime"] < run["tasks"][0]["endTime"] < run["tasks"][1]["startTime"]
    assert (run["tasks"][2]["startTime"], run["tasks"][2]["endTime"]) == (None, None)
    tasks = (await api.get(f"/v1/workflows/{workflow['workflowId']}/runs?origin=task"))["items"]
    assert {each["runId"] for each in tasks} == {first["runId"], second["runId"]}
    ledger = await api.get(f"/v1/jobs/{workflow['workflowId']}/ledger")
    assert (ledger["due"], [each["runId"] for each in ledger["items"]]) == (1, [run_id])
    assert (await api.get(f"/v1/jobs/{workflow['workflowId']}/status"))["runId"] == run_id


async def test_a_failed_run_is_retried_from_the_tasks_that_failed(api: Api, worker: FakeWorker) -> None:
    workflow = await create(api, task("a"), task("b", "a"))
    run_id = await newest_run(api, workflow)
    await worker.succeed(await worker.take())
    broken = await worker.take()
    await worker.fail(broken, "no such table")
    run = await ended(api, run_id)
    assert (run["status"], run["error"]["message"]) == ("failed", "task b: no such table")
    refused = await api("POST", f"/v1/runs/{broken['runId']}/retry")
    assert refused.status_code == 409
    assert "retry that" in refused.json()["detail"]
    again = (await api("POST", f"/v1/workflow-runs/{run_id}/retry")).json()
    assert again["retryOf"] == run_id
    assert (await api("POST", f"/v1/workflow-runs/{run_id}/retry")).json()["workflowRunId"] == again["workflowRunId"]
    only = await worker.take()
    assert only["spec"]["name"] == "flow/b"
    await worker.succeed(only)
    run = await ended(api, again["workflowRunId"])
    assert (run["status"], run["counts"]) == ("succeeded", {"succeeded": 2})
    assert (await api.get(f"/v1/workflow-runs/{run_id}"))["retriedAs"] == again["workflowRunId"]


async def test_an_edit_that_only_tasks_could_have_is_refused(api: Api, worker: FakeWorker) -> None:
    flow = await create(api, task("a"))
    run_id = await newest_run(api, flow)
    await worker.fail(await worker.take())
    await ended(api, run_id)
    for action in ("retry", "replay"):
        refused = await api("POST", f"/v1/runs/{run_id}/{action}", json={"edit": {"timeout": "5m"}})
        assert refused.status_code == 422, refused.text
        assert refused.json()["errors"][0]["pointer"] == "/edit/timeout"
        which = {"jobId": flow["workflowId"], "status": "failed", "origin": "schedule"}
        body = {"action": action, "filter": which, "edit": {"retry": {"maxRetries": 1}}}
        told = await api("POST", "/v1/runs:bulk", json=body)
        assert (told.status_code, "no retry of its own" in told.text) == (200, True), told.text
    assert (await api("POST", f"/v1/runs/{run_id}/retry", json={"edit": {"parameters": {"x": 1}}})).status_code == 200


async def test_a_run_is_cancelled_with_all_its_tasks(api: Api, worker: FakeWorker) -> None:
    workflow = await create(api, task("a"), task("b", "a"))
    run_id = await newest_run(api, workflow)
    assigned = await worker.take()
    run = (await api("POST", f"/v1/workflow-runs/{run_id}/cancel")).json()
    assert run["cancelRequestedAt"] is not None
    await worker.end(assigned, {"type": "cancelled"})
    run = await ended(api, run_id)
    assert (run["status"], run["counts"]) == ("cancelled", {"cancelled": 2})


async def test_a_workflow_is_listed_changed_paused_and_cancelled(api: Api) -> None:
    workflow = await create(api, task("a"), schedule=DAILY)
    await api.create(name="no workflow", schedule=DAILY)
    path = f"/v1/workflows/{workflow['workflowId']}"
    listed = (await api.get("/v1/workflows"))["items"]
    assert [each["workflowId"] for each in listed] == [workflow["workflowId"]]
    assert (await api.get("/v1/workflows?name=other"))["items"] == []
    changed = (await api("PATCH", path, json={"tasks": [task("new")], "overlap": "skip"})).json()
    assert ([each["name"] for each in changed["tasks"]], changed["overlap"]) == (["new"], "skip")
    whole = {**(await api.get(path)), "description": "all of it sent back"}
    assert (await api("PUT", path, json=whole)).json()["description"] == "all of it sent back"
    assert (await api("POST", f"{path}/pause", json={"reason": "holidays"})).json()["status"] == "paused"
    assert (await api("POST", f"{path}/resume")).json()["status"] == "scheduled"
    begun = (await api("POST", f"{path}/run")).json()
    assert begun["status"] == "queued"
    assert (await api("DELETE", path)).json() == {"jobId": workflow["workflowId"], "status": "cancelled"}
    assert (await ended(api, begun["runId"]))["status"] == "cancelled"


@pytest.mark.parametrize(
    ("tasks", "pointer", "words"),
    [
        ([task("a", "c"), task("b", "a"), task("c", "b")], None, "a → b → c → a"),
        ([task("a", "b")], "/tasks/0/needs/0", "there is no task 'b'"),
        ([task("a", "a")], "/tasks/0/needs/0", "needs itself"),
        ([task("a"), task("a")], "/tasks/1/name", "two tasks have the name 'a'"),
        ([{"name": "a", "taskId": "nobody"}], "/tasks/0/taskId", "no registered task"),
        ([task("a", timeout="soon")], "/tasks/0/timeout", "soon"),
        ([], "/tasks", "length"),
        ("all", "/tasks", "array"),
    ],
)
async def test_a_wrong_workflow_is_refused_with_a_pointer(
    api: Api, tasks: Any, pointer: str | None, words: str
) -> None:
    answer = await api("POST", "/v1/workflows", json={"name": "flow", "tasks": tasks})
    assert answer.status_code == 422, answer.text
    [error] = answer.json()["errors"]
    assert words in error["detail"] or pointer is None
    if pointer is None:
        assert " → ".join(sorted(error["detail"].rsplit(": ", 1)[1].split(" → ")[:3])) == "a → b → c"
        assert error["pointer"].endswith("/needs")
    else:
        assert error["pointer"] == pointer


async def test_what_only_tasks_have_is_refused(api: Api) -> None:
    answer = await api("POST", "/v1/workflows", json={"tasks": [task("a")], "timeout": "1m"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/timeout")
    answer = await api("POST", "/v1/workflows", json={"tasks": [task("a")], "task": {"kind": "shell"}})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/task")


async def test_the_workflow_of_the_documentation_is_one(api: Api) -> None:
    text = (Path(__file__).parents[2] / "docs" / "howto" / "workflows.md").read_text()
    document = json.loads(text.split("```json\n")[1].split("```")[0])
    answer = await api("POST", "/v1/workflows", json=document)
    assert answer.status_code == 201, answer.text
    assert [each["name"] for each in answer.json()["tasks"]] == ["list-files", "load", "report", "alarm"]


async def test_a_key_makes_one_workflow(api: Api) -> None:
    body = {"name": "flow", "tasks": [task("a")], "schedule": DAILY}
    headers = {"Idempotency-Key": "once"}
    first = await api("POST", "/v1/workflows", json=body, headers=headers)
    second = await api("POST", "/v1/workflows", json=body, headers=headers)
    assert first.json()["workflowId"] == second.json()["workflowId"]
    assert second.json()["tasks"][0]["name"] == "a"


async def test_others_see_nothing_of_it(api: Api) -> None:
    workflow = await create(api, task("a"))
    run_id = await newest_run(api, workflow)
    for method, path in (
        ("GET", f"/v1/workflows/{workflow['workflowId']}"),
        ("POST", f"/v1/workflows/{workflow['workflowId']}/run"),
        ("GET", f"/v1/workflow-runs/{run_id}"),
        ("POST", f"/v1/workflow-runs/{run_id}/cancel"),
        ("POST", f"/v1/workflow-runs/{run_id}/retry"),
    ):
        assert (await api(method, path, OTHER)).status_code == 404
    assert (await api("GET", "/v1/workflows", OTHER)).json()["items"] == []
    job = await api.create()
    assert (await api("GET", f"/v1/workflows/{job['jobId']}")).status_code == 404
