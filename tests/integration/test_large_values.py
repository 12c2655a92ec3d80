"""Large parameters, results and output are objects beside the store, and requests show them like small ones."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Api, FakeWorker, serving
from tests.support.migrated import sqlite_store
from timeball.domain.errors import Unavailable
from timeball.domain.instant import DAY, MINUTE
from timeball.domain.job import large_values
from timeball.domain.job.job import OffloadedSpec
from timeball.domain.run import archive_record
from timeball.object_stores.bucket import Bucket, open_objects
from timeball.operation.storage.archive import archive_day
from timeball.operation.storage.search_archive import Archive

PARAMETERS = {"rows": ["x" * 1_000] * 500, "name": "ü"}
OUTPUT = ["a" * 60_000 + "\n", "b" * 60_000 + "\n"]


class Fragile:
    """Objects in a folder that can be away."""

    def __init__(self, inner: Bucket) -> None:
        self.inner = inner
        self.is_away = False
        self.takes = 0.0
        """Seconds, for each reading."""

    def _ask(self) -> Bucket:
        if self.is_away:
            raise Unavailable("the object storage does not answer: it is away")
        return self.inner

    async def put(self, objects: Mapping[str, bytes]) -> None:
        await self._ask().put(objects)

    async def get(self, keys: Sequence[str]) -> list[bytes | None]:
        await asyncio.sleep(self.takes)
        return await self._ask().get(keys)

    async def folders(self, prefix: str) -> list[str]:
        return await self._ask().folders(prefix)

    async def delete(self, keys: Sequence[str]) -> None:
        await self._ask().delete(keys)

    async def of(self, kind: str) -> list[str]:
        return await self.inner.list(f"{kind}/")

    async def list(self, prefix: str) -> list[str]:
        return await self._ask().list(prefix)


@pytest.fixture
def objects(tmp_path: Path) -> Fragile:
    return Fragile(open_objects(str(tmp_path / "objects")))


@pytest.fixture
async def api(tmp_path: Path, objects: Fragile) -> AsyncIterator[Api]:
    async with serving(sqlite_store(tmp_path / "timeball.db"), Archive(objects.inner), objects) as api:
        await first_sweep_ended(api)
        yield api


async def first_sweep_ended(api: Api) -> None:
    """Wait for the sweep that the maintenance loop starts in its first turn: it could delete what a test puts there."""
    while any(loop.problem() for loop in api.server.loops):
        await asyncio.sleep(0.001)
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "sweep"))


async def stored_spec(api: Api, job_id: str) -> Any:
    return (await api.server.context.store.jobs([job_id]))[job_id].job.spec


async def beside(api: Api) -> None:
    """What is done with large values meanwhile is done."""
    for task in list(api.server.gateway._background.running):
        await task


async def finished(api: Api, worker: FakeWorker, result: Any = None, output: Sequence[str] = ()) -> str:
    assigned = await worker.take()
    if output:
        await worker.write(assigned, *output)
    await worker.succeed(assigned, result)
    await beside(api)
    run_id: str = assigned["runId"]
    return run_id


async def test_large_parameters_are_answered_and_executed_as_they_were_sent(api: Api, objects: Fragile) -> None:
    created = await api.create(parameters=PARAMETERS)
    job = f"/v1/jobs/{created['jobId']}"

    assert created["parameters"] == PARAMETERS
    assert (await api.get(job))["parameters"] == PARAMETERS
    assert (await api.get("/v1/jobs"))["items"][0]["parameters"] == PARAMETERS
    assert isinstance(await stored_spec(api, created["jobId"]), OffloadedSpec)
    assert len(await objects.of("payloads")) == 1

    worker = FakeWorker(api)
    await worker.hello()
    assigned = await worker.take()
    assert assigned["spec"]["parameters"] == PARAMETERS
    assert "parametersAt" not in assigned["spec"]
    assert (await api.get(f"/v1/runs/{assigned['runId']}/spec"))["spec"]["parameters"] == PARAMETERS


async def test_a_worker_that_waits_already_gets_them_too(api: Api) -> None:
    worker = FakeWorker(api)
    await worker.hello()
    taking = asyncio.create_task(worker.take())
    while not api.server.gateway.has_demand:
        await asyncio.sleep(0)
    await api.create(parameters=PARAMETERS)
    assert (await taking)["spec"]["parameters"] == PARAMETERS


async def test_small_ones_of_a_batch_stay_where_they_are(api: Api, objects: Fragile) -> None:
    task = {"kind": "shell", "command": "true"}
    batch = [{"task": task, "parameters": {"a": 1}}, {"task": task, "parameters": PARAMETERS}, {"task": task}]
    items = (await api("POST", "/v1/jobs:batch", json=batch)).json()["items"]
    kept = [isinstance(await stored_spec(api, item["jobId"]), OffloadedSpec) for item in items]
    assert kept == [False, True, False]
    assert (await api.get(f"/v1/jobs/{items[1]['jobId']}"))["parameters"] == PARAMETERS

    objects.is_away = True
    refused = (await api("POST", "/v1/jobs:batch", json=batch)).json()["items"]
    assert ["jobId" in item for item in refused] == [True, False, True]
    assert refused[1]["error"]["code"] == "unavailable"


async def test_nobody_refers_to_an_object_by_writing_it(api: Api) -> None:
    """A parameter of that name is one like any other, and a field of that name is none."""
    created = await api.create(parameters={"parametersAt": "payloads/x"})
    assert (await api.get(f"/v1/jobs/{created['jobId']}"))["parameters"] == {"parametersAt": "payloads/x"}
    refused = await api("POST", "/v1/jobs", json={"task": {"kind": "shell", "command": "true"}, "parametersAt": "x"})
    assert refused.status_code == 422

    worker = FakeWorker(api)
    await worker.hello()
    assigned = await worker.take()
    assert assigned["spec"]["parameters"] == {"parametersAt": "payloads/x"}
    same = {name: assigned[name] for name in ("runId", "attempt", "token")}
    forged = {
        "session": worker.session,
        "pollSeq": 1,
        "free": 1,
        "logs": [{**same, "seq": 0, "stream": "@", "text": "x"}],
    }
    await worker.send("report", forged, status=422)
    await worker.write(assigned, "logs/x")
    await worker.succeed(assigned, "@results/x")
    run = f"/v1/runs/{assigned['runId']}"
    assert await api.get(f"{run}/result") == "@results/x"
    assert (await api("GET", f"{run}/logs")).text == "logs/x"


async def test_a_repeated_request_gets_the_first_answer(api: Api, objects: Fragile) -> None:
    body = {"task": {"kind": "shell", "command": "true"}, "parameters": PARAMETERS, "idempotencyKey": "k"}
    first = await api("POST", "/v1/jobs", json=body)
    again = await api("POST", "/v1/jobs", json=body)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (201, "true")
    assert again.json() == first.json()
    assert first.json()["parameters"] == PARAMETERS
    other = await api("POST", "/v1/jobs", json={**body, "parameters": {**PARAMETERS, "name": "u"}})
    assert other.status_code == 422


async def test_an_update_leaves_parameters_where_they_are_unless_it_changes_them(api: Api, objects: Fragile) -> None:
    later = {"type": "interval", "expression": "1d"}
    created = await api.create(parameters=PARAMETERS, schedule=later)
    path = f"/v1/jobs/{created['jobId']}"
    place = (await stored_spec(api, created["jobId"])).parameters_at

    changed = (await api("PATCH", path, json={"description": "new"})).json()
    assert (changed["description"], changed["parameters"]) == ("new", PARAMETERS)
    assert (await stored_spec(api, created["jobId"])).parameters_at == place
    paused = (await api("POST", f"{path}/pause", json={})).json()
    assert paused["parameters"] == PARAMETERS

    larger = {**PARAMETERS, "more": "y" * 1_000}
    assert (await api("PATCH", path, json={"parameters": larger})).json()["parameters"] == larger
    assert (await stored_spec(api, created["jobId"])).parameters_at != place
    assert (await api("PATCH", path, json={"parameters": {"a": 1}})).json()["parameters"] == {"a": 1}
    assert not isinstance(await stored_spec(api, created["jobId"]), OffloadedSpec)
    assert (await api("PATCH", path, json={"parameters": PARAMETERS})).json()["parameters"] == PARAMETERS


async def test_an_edited_run_has_parameters_of_its_own(api: Api, objects: Fragile) -> None:
    await api.create(parameters=PARAMETERS, retry={"maxRetries": 0})
    worker = FakeWorker(api)
    await worker.hello()
    assigned = await worker.take()
    await worker.fail(assigned)
    path = f"/v1/runs/{assigned['runId']}"
    retried = (await api("POST", f"{path}/retry", json={"edit": {"parameters": {"name": "o"}}})).json()
    assigned = await worker.take()
    assert assigned["spec"]["parameters"] == {**PARAMETERS, "name": "o"}
    owners = {large_values.owner(key) for key in await objects.of("payloads")}
    assert owners == {assigned["jobId"], retried["runId"]}
    await worker.fail(assigned)
    again = (await api("POST", f"/v1/runs/{retried['runId']}/retry", json={})).json()
    assert (await worker.take())["spec"]["parameters"] == {**PARAMETERS, "name": "o"}
    assert again["runId"] in {large_values.owner(key) for key in await objects.of("payloads")}


async def test_large_results_and_output_are_read_as_before(api: Api, objects: Fragile) -> None:
    await api.create()
    worker = FakeWorker(api)
    await worker.hello()
    result = {"found": "z" * 1_000_000}
    run = f"/v1/runs/{await finished(api, worker, result, OUTPUT)}"

    assert (len(await objects.of("results")), len(await objects.of("logs"))) == (1, 1)
    assert await api.get(f"{run}/result") == result
    for how in ("", "?follow=1", "?attempt=1"):
        assert (await api("GET", f"{run}/logs{how}")).text == "".join(OUTPUT)
    page = await api.get(f"{run}/logs?limit=1", headers={"Accept": "application/json"})
    assert [each["text"] for each in page["items"]] == OUTPUT[:1]
    page = await api.get(f"{run}/logs?limit=1&cursor={page['nextCursor']}", headers={"Accept": "application/json"})
    assert [each["text"] for each in page["items"]] == OUTPUT[1:]
    lines = await api("GET", f"{run}/logs", headers={"Accept": "application/x-ndjson"})
    assert [json.loads(line)["text"] for line in lines.text.splitlines()] == OUTPUT


async def test_a_job_may_name_a_place_for_its_results(api: Api, objects: Fragile) -> None:
    created = await api.create(resultLocation="reports/daily")
    assert created["resultLocation"] == "reports/daily"
    worker = FakeWorker(api)
    await worker.hello()
    assigned = await worker.take()
    assert assigned["spec"]["resultLocation"] == "reports/daily"
    await worker.end(assigned, {"type": "succeeded", "result": {"rows": 7}}, placed=True)
    [key] = await objects.of("results")
    assert key.endswith(f"/reports/daily/{assigned['runId']}-{assigned['token']}.json")
    assert await api.get(f"/v1/runs/{assigned['runId']}/result") == {"rows": 7}
    assert large_values.owner(key) == assigned["runId"]
    assert await api.server.context.large_value_store.sweep(api.server.context.store.now() + 9 * DAY) == 0


async def test_a_place_is_nowhere_else(api: Api) -> None:
    for place in (
        "../x",
        "a/../b",
        "/etc",
        "a//b",
        "a/",
        ".",
        "",
        "s3://bucket/x",
        "http://10.0.0.1/",
        "ä",
        "a b",
        "a\n",
    ):
        body = {"task": {"kind": "shell", "command": "true"}, "resultLocation": place}
        assert (await api("POST", "/v1/jobs", json=body)).status_code == 422, place
    flow = {"kind": "workflow", "tasks": [{"name": "a", "task": {"kind": "shell", "command": "true"}}]}
    refused = await api("POST", "/v1/jobs", json={"task": flow, "resultLocation": "x"})
    assert (refused.status_code, "resultLocation" in refused.text) == (422, True)


async def test_without_an_object_storage_there_is_no_place(tmp_path: Path) -> None:
    async with serving(sqlite_store(tmp_path / "timeball.db")) as api:
        body = {"task": {"kind": "shell", "command": "true"}, "resultLocation": "x"}
        refused = await api("POST", "/v1/jobs", json=body)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/resultLocation")
        created = await api.create(schedule={"type": "interval", "expression": "1d"})
        changed = await api("PATCH", f"/v1/jobs/{created['jobId']}", json={"resultLocation": "x"})
        assert changed.status_code == 422


async def test_while_the_object_storage_is_away_only_what_is_large_waits(api: Api, objects: Fragile) -> None:
    created = await api.create(parameters=PARAMETERS, schedule={"type": "interval", "expression": "1d"})
    worker = FakeWorker(api)
    await worker.hello()
    await api.create()
    kept = f"/v1/runs/{await finished(api, worker, 'z' * 100_000, OUTPUT)}"

    objects.is_away = True
    refused = await api("POST", "/v1/jobs", json={"task": {"kind": "shell", "command": "x"}, "parameters": PARAMETERS})
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert int(refused.headers["retry-after"]) >= 1
    for path in (f"/v1/jobs/{created['jobId']}", f"{kept}/result", f"{kept}/logs"):
        unread = await api("GET", path)
        assert unread.status_code == 503
        assert "payloads/" in unread.text or "results/" in unread.text or "logs/" in unread.text

    assert (await api.create(parameters={"a": 1}))["parameters"] == {"a": 1}
    run = f"/v1/runs/{await finished(api, worker, {'at': 'home' * 50_000}, OUTPUT)}"  # stays in the store
    assert await api.get(f"{run}/result") == {"at": "home" * 50_000}
    assert (await api("GET", f"{run}/logs")).text == "".join(OUTPUT)

    objects.is_away = False
    assert (await api.get(f"/v1/jobs/{created['jobId']}"))["parameters"] == PARAMETERS
    assert await api.get(f"{kept}/result") == "z" * 100_000


async def test_a_run_whose_parameters_cannot_be_read_waits_and_costs_no_attempt(api: Api, objects: Fragile) -> None:
    await api.create(parameters=PARAMETERS)
    objects.is_away = True
    worker = FakeWorker(api)
    await worker.hello()
    (large_run,) = (await api.get("/v1/runs"))["items"]
    small = await api.create()
    assert (await worker.take())["jobId"] == small["jobId"]
    await beside(api)
    waits = await api.get(f"/v1/runs/{large_run['runId']}")
    assert (waits["status"], waits["attempt"]) == ("scheduled", 0)  # not before some seconds have passed
    why = await api.get(f"/v1/runs/{large_run['runId']}/why")
    assert why["reasons"][0]["code"] == "parameters"
    assert "object storage" in why["answer"]


async def test_small_runs_do_not_overtake_one_whose_parameters_take_their_time(api: Api, objects: Fragile) -> None:
    objects.takes = 0.1
    first = await api.create(parameters=PARAMETERS)
    for _ in range(3):
        await api.create()
    worker = FakeWorker(api)
    await worker.hello()
    assigned = await worker.take()
    assert assigned["jobId"] == first["jobId"]
    assert assigned["spec"]["parameters"] == PARAMETERS


async def test_what_nobody_refers_to_is_swept_when_it_is_old_enough(api: Api, objects: Fragile) -> None:
    """A server died between the object and its row; or the row is gone. Objects of other stores stay."""
    store, large_value_store = api.server.context.store, api.server.context.large_value_store
    created = await api.create(parameters=PARAMETERS)
    [kept] = await objects.of("payloads")
    left = {
        (kind, number, days): large_values.key(kind, number, store.now() - days * DAY, f"{created['jobId']}-1")
        for kind in large_values.KINDS
        for number, days in ((1, 2), (1, 4), (2, 4))
    }
    await objects.put(dict.fromkeys(left.values(), b"{}"))
    assert await large_value_store.sweep(store.now()) == 3
    found = {key for kind in large_values.KINDS for key in await objects.of(kind)}
    assert found == {kept, *(key for (_, number, days), key in left.items() if (number, days) != (1, 4))}


async def test_a_run_that_left_the_store_takes_its_large_values_along(api: Api, objects: Fragile) -> None:
    await api.create()
    worker = FakeWorker(api)
    await worker.hello()
    run_id = await finished(api, worker, "z" * 100_000, OUTPUT)
    store, large_value_store = api.server.context.store, api.server.context.large_value_store
    after = store.now() + 5 * DAY

    assert await large_value_store.sweep(after) == 0  # rows refer to them
    await archive_day(store, objects.inner, archive_record.day_of(run_id), large_value_store=large_value_store)
    lead = await store.lead("test", "s_1", MINUTE)
    assert lead is not None
    (day,) = await store.days_to_prune(after, 10)
    while await store.prune_day(lead, day, after, 100):
        pass
    assert await large_value_store.sweep(store.now()) == 0  # somebody may be about to refer to what is so young
    assert await large_value_store.sweep(after) == 2
    assert await objects.of("results") == await objects.of("logs") == []
    assert await api.get(f"/v1/runs/{run_id}/result") == "z" * 100_000
    assert (await api("GET", f"/v1/runs/{run_id}/logs")).text == "".join(OUTPUT)
