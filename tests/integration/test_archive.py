"""Runs that have left the store are still shown: lists, runs, output and results, to their own tenant only (I24)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import OTHER, Api, FakeWorker, running_api, serving
from timeball import system
from timeball.domain.instant import DAY, MINUTE
from timeball.domain.run import archive_record
from timeball.object_stores.bucket import Bucket, open_objects
from timeball.operation.storage.archive import archive_day
from timeball.operation.storage.search_archive import Archive
from timeball.stores.sqlite.store import SqliteStore

ONCE = {"retry": {"maxRetries": 0}}
FAILURE = {"kind": "exit", "message": "boom", "exitCode": 1}


@pytest.fixture
def objects(tmp_path: Path) -> Bucket:
    return open_objects(str(tmp_path / "archive"))


@pytest.fixture
async def api(tmp_path: Path, objects: Bucket) -> AsyncIterator[Api]:
    store = SqliteStore(tmp_path / "timeball.db", wall=system.wall, monotonic=system.monotonic)
    async with serving(store, Archive(objects)) as api:
        yield api


async def archived_run(api: Api, objects: Bucket, end: dict[str, Any] | None = None, **job: Any) -> dict[str, Any]:
    """A run as the API told it before it went."""
    worker = FakeWorker(api)
    await worker.hello()
    created = await api.create(**job)
    if "schedule" in job:
        await api("POST", f"/v1/jobs/{created['jobId']}/run", json={})
    assigned = await worker.take()
    await worker.write(assigned, "one\n", "two\n")
    await worker.end(assigned, end or {"type": "succeeded", "result": {"rows": 7}})
    told: dict[str, Any] = await api.get(f"/v1/runs/{assigned['runId']}")
    store = api.server.context.store
    await archive_day(store, objects, archive_record.day_of(told["runId"]))
    lead = await store.lead("test", "s_1", MINUTE)
    assert lead is not None
    (day,) = await store.days_to_prune(store.now() + 2 * DAY, 10)
    while await store.prune_day(lead, day, store.now() + 2 * DAY, 100):
        pass
    assert await store.runs([told["runId"]]) == {}
    return told


async def test_a_run_that_has_left_the_store_is_told_as_before(api: Api, objects: Bucket) -> None:
    told = await archived_run(api, objects, name="etl", tags=["nightly"])
    path = f"/v1/runs/{told['runId']}"

    assert await api.get(path) == {**told, "archived": True}
    assert await api.get(f"{path}/result") == {"rows": 7}
    assert (await api("GET", f"{path}/logs")).text == "one\ntwo\n"
    assert (await api("GET", f"{path}/logs?follow=1")).text == "one\ntwo\n"
    page = await api.get(f"{path}/logs?limit=1", headers={"Accept": "application/json"})
    assert ([each["text"] for each in page["items"]], page["nextCursor"]) == (["one\n"], "1000000")
    for missing in (path, f"{path}/result", f"{path}/logs"):
        assert (await api("GET", missing, OTHER)).status_code == 404
    for doing in ("retry", "replay"):
        assert (await api("POST", f"{path}/{doing}", OTHER)).status_code == 404
    assert (await api("GET", f"{path}/why", OTHER)).status_code == 404


async def test_why_tells_of_an_archived_run_what_its_record_says(api: Api, objects: Bucket) -> None:
    told = await archived_run(api, objects)
    why = await api.get(f"/v1/runs/{told['runId']}/why")
    assert why["status"] == "succeeded"
    assert [reason["code"] for reason in why["reasons"]] == ["succeeded", "archived"]
    assert "The run succeeded" in why["answer"]
    day = told["createdAt"][:10]
    assert f"like all runs that were created on {day}" in why["reasons"][1]["text"]


async def test_an_archived_run_is_run_once_more_as_long_as_its_job_is_there(api: Api, objects: Bucket) -> None:
    daily = {"type": "interval", "expression": "1d"}
    told = await archived_run(api, objects, end={"type": "failed", "failure": FAILURE}, **ONCE, schedule=daily)
    path = f"/v1/runs/{told['runId']}"
    for doing, origin in (("retry", "replay"), ("replay", "replay")):
        again = await api("POST", f"{path}/{doing}", json={"edit": {"parameters": {"how": doing}}})
        assert again.status_code == 200, again.text
        made = await api.get(f"/v1/runs/{again.json()['runId']}")
        assert (made["jobId"], made["replayOf"], made["origin"]) == (told["jobId"], told["runId"], origin)
        spec = await api.get(f"/v1/runs/{made['runId']}/spec")
        assert spec["spec"]["parameters"] == {"how": doing}
    refused = await api("GET", f"{path}/spec")
    assert (refused.status_code, "version 1 of job" in refused.text) == (409, True)

    await api("DELETE", f"/v1/jobs/{told['jobId']}")
    assert (await api("POST", f"{path}/replay")).status_code == 409


async def test_what_cannot_be_run_once_more_says_why(api: Api, objects: Bucket) -> None:
    """A one-shot goes with its last run."""
    told = await archived_run(api, objects)
    path = f"/v1/runs/{told['runId']}"
    replayed = await api("POST", f"{path}/replay")
    assert (replayed.status_code, "is gone" in replayed.json()["detail"]) == (409, True)
    retried = await api("POST", f"{path}/retry")
    assert (retried.status_code, "did not succeed" in retried.json()["detail"]) == (409, True)
    assert (await api("GET", f"/v1/jobs/{told['jobId']}/runs")).status_code == 404
    listed = await api.get(f"/v1/jobs/{told['jobId']}/runs?archived=true")
    assert [each["runId"] for each in listed["items"]] == [told["runId"]]
    assert (await api.get(f"/v1/jobs/{told['jobId']}/runs?archived=true", key=OTHER))["items"] == []


async def test_archived_runs_are_listed_when_they_are_asked_for(api: Api, objects: Bucket) -> None:
    told = await archived_run(api, objects, tags=["nightly"], userId="ann")
    meant = f"tag=nightly&userId=ann&status=done&jobId={told['jobId']}&startTime={told['fireTime']}"

    assert (await api.get("/v1/runs"))["items"] == []
    found = await api.get(f"/v1/runs?archived=true&{meant}&limit=5")
    assert ([each["runId"] for each in found["items"]], found["nextCursor"]) == ([told["runId"]], None)
    assert found["items"][0]["archived"] is True
    assert (await api.get("/v1/runs?archived=true&tag=weekly"))["items"] == []
    assert (await api.get("/v1/runs?archived=true", key=OTHER))["items"] == []
    refused = await api("GET", "/v1/runs?archived=true&cursor=x")
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/query/cursor")


async def test_a_server_without_an_archive_says_so(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        refused = await api("GET", "/v1/runs?archived=true")
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/query/archived")
        assert (await api("GET", f"/v1/runs/r_{0:028x}")).status_code == 404
