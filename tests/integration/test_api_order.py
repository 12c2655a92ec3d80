"""What the API shows of runs that wait for other runs, and of the workers that they wait for."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Api, FakeWorker, running_api

HOURLY = {"type": "interval", "expression": "1h"}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as running:
        yield running


@pytest.fixture
async def worker(api: Api) -> FakeWorker:
    fake = FakeWorker(api)
    await fake.hello()
    return fake


async def the_run(api: Api, job: dict[str, Any]) -> Any:
    [run] = (await api.get(f"/v1/jobs/{job['jobId']}/runs"))["items"]
    return run


async def test_a_run_that_waits_for_its_turn_and_for_an_earlier_one_says_so(api: Api, worker: FakeWorker) -> None:
    job = await api.create(schedule=HOURLY, orderingKey="k")
    first = (await api("POST", f"/v1/jobs/{job['jobId']}/run")).json()
    assigned = await worker.take()
    assert assigned["runId"] == first["runId"]
    second = (await api("POST", f"/v1/jobs/{job['jobId']}/run")).json()
    run = await api.get(f"/v1/runs/{second['runId']}")
    assert (run["status"], run["blockedBy"], run["orderingKey"]) == ("blocked", ["overlap", "turn"], "k")
    running = await api.get(f"/v1/runs/{first['runId']}")
    assert "blockedBy" not in running
    await worker.succeed(assigned)
    assert (await worker.take())["runId"] == second["runId"]


async def test_a_run_at_a_gate_says_which(api: Api, worker: FakeWorker) -> None:
    holder = await api.create(concurrency={"key": "db", "limit": 1}, rateLimit={"key": "r", "limit": 1, "per": "1h"})
    assigned = await worker.take()
    full = await api.create(concurrency={"key": "db", "limit": 1})
    spent = await api.create(rateLimit={"key": "r", "limit": 1, "per": "1h"})
    plain = await api.create()
    assert (await worker.take(held=(assigned["token"],)))["jobId"] == plain["jobId"]
    assert (await the_run(api, holder))["status"] == "running"
    assert (await the_run(api, full))["blockedBy"] == ["gate:limit:db"]
    assert (await the_run(api, spent))["blockedBy"] == ["gate:rate:r"]
    listed = (await api.get("/v1/runs?status=blocked"))["items"]
    assert {run["jobId"] for run in listed} == {full["jobId"], spent["jobId"]}


async def test_a_run_tells_when_it_is_due_and_when_it_is_too_late(api: Api) -> None:
    job = await api.create(
        schedule={"type": "interval", "expression": "5s"}, jitter="10h", startDeadline="1h", orderingKey="k"
    )
    run = await the_run(api, job)
    assert run["fireTime"] < run["dueAt"] < run["startBy"]
    assert run["status"] == "scheduled"


async def test_a_run_that_was_asked_to_make_way_says_for_whom(api: Api, worker: FakeWorker) -> None:
    job = await api.create(schedule=HOURLY, overlap="cancel_previous")
    first = (await api("POST", f"/v1/jobs/{job['jobId']}/run")).json()
    await worker.take()
    second = (await api("POST", f"/v1/jobs/{job['jobId']}/run")).json()
    run = await api.get(f"/v1/runs/{first['runId']}")
    assert run["status"] == "running"
    assert run["cancelReason"] == f"run {second['runId']} replaced this run (overlap cancel_previous)"


async def test_workers_tell_what_is_in_use(api: Api, worker: FakeWorker) -> None:
    await api.create(resources={"cpu": 0.5, "memoryMb": 100})
    assigned = await worker.take()
    [told] = (await api.get("/v1/workers"))["items"]
    assert told["running"] == 1
    assert told["inUse"] == {"slots": 1, "cpu": 0.5, "memoryMb": 100}
    await worker.succeed(assigned)
    [told] = (await api.get("/v1/workers"))["items"]
    assert told["inUse"] == {"slots": 0, "cpu": 0.0, "memoryMb": 0}
