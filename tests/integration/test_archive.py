"""What has left the store is still answered: lists, runs, output and results, to its own tenant only (I24)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import OTHER, Api, FakeWorker, running_api, serving
from timeball import system
from timeball.domain import record
from timeball.domain.instant import DAY, MINUTE
from timeball.objects.bucket import Bucket, open_objects
from timeball.operation.archive import archive_day
from timeball.operation.search_archive import Archive
from timeball.stores.sqlite import SqliteStore


@pytest.fixture
def objects(tmp_path: Path) -> Bucket:
    return open_objects(str(tmp_path / "archive"))


@pytest.fixture
async def api(tmp_path: Path, objects: Bucket) -> AsyncIterator[Api]:
    store = SqliteStore(tmp_path / "timeball.db", wall=system.wall, monotonic=system.monotonic)
    async with serving(store, Archive(objects)) as api:
        yield api


async def archived_run(api: Api, objects: Bucket, **job: Any) -> dict[str, Any]:
    """A run as the API told it before it went."""
    worker = FakeWorker(api)
    await worker.hello()
    await api.create(**job)
    assigned = await worker.take()
    await worker.write(assigned, "one\n", "two\n")
    await worker.succeed(assigned, {"rows": 7})
    told: dict[str, Any] = await api.get(f"/v1/runs/{assigned['runId']}")
    store = api.server.context.store
    await archive_day(store, objects, record.day_of(told["runId"]))
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
    assert (await api("POST", f"{path}/retry")).status_code == 404


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
