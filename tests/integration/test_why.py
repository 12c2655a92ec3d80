"""`why` over HTTP: the reasons of runs and jobs, the parts of a lateness, and the warning when a job is created."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import OTHER, Api, FakeWorker, running_api
from tests.support.still import START, World
from timeball.domain.instant import HOUR, MINUTE, SECOND
from timeball.domain.schedule.schedule import CronSchedule, Interval
from timeball.ports.store.workers import WorkerRecord
from timeball.ports.store_clock import ClockState

GPU = {"runsOn": ["gpu"], "resources": {"cpu": 4}}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as api:
        yield api


async def run_of(api: Api, job: dict[str, Any]) -> str:
    """The only run of a job, once there is one."""
    while True:
        items = (await api.get(f"/v1/jobs/{job['jobId']}/runs"))["items"]
        if items:
            return str(items[0]["runId"])
        await asyncio.sleep(0.01)


async def test_a_run_tells_what_it_waits_for_and_how_it_ended(api: Api) -> None:
    job = await api.create(name="etl", concurrency={"key": "db", "limit": 1})
    run_id = await run_of(api, job)
    waiting = await api.get(f"/v1/runs/{run_id}/why")
    assert waiting["reasons"][0]["code"] == "no_worker"
    assert waiting["answer"] == waiting["reasons"][0]["text"] == "There is no worker."
    assert (waiting["status"], waiting["jobName"], waiting["lateness"]) == ("queued", "etl", None)
    worker = FakeWorker(api)
    await worker.hello()
    assigned = await worker.take()
    blocked = await run_of(api, await api.create(concurrency={"key": "db", "limit": 1}))
    reason = (await api.get(f"/v1/runs/{blocked}/why"))["reasons"][0]
    assert (reason["code"], reason["runId"]) == ("concurrency", run_id)
    assert reason["unblocks"] == "The end of one of these runs, or a higher limit."
    await worker.succeed(assigned)
    ended = await api.get(f"/v1/runs/{run_id}/why")
    assert ended["reasons"][-1]["code"] == "succeeded"
    shown = (await api.get(f"/v1/runs/{run_id}"))["lateness"]
    assert shown == ended["lateness"]
    parts = sum(shown[part] for part in ("schedulerMs", "blockedMs", "queueMs", "workerMs"))
    assert parts == pytest.approx(shown["totalMs"])
    (item,) = (await api.get(f"/v1/jobs/{job['jobId']}/ledger"))["items"]
    assert (item["lateness"], item["lateMs"]) == (shown, shown["totalMs"])


async def test_a_job_tells_its_state_its_run_and_its_exceptions(api: Api) -> None:
    job = await api.create(name="nightly", schedule={"type": "interval", "expression": "1h"})
    why = await api.get(f"/v1/jobs/{job['jobId']}/why")
    assert [reason["code"] for reason in why["reasons"]] == ["not_due"]
    assert why["reasons"][0]["until"] == job["nextFireAt"]
    assert (why["run"], why["exceptions"], why["state"]) == (None, [], "active")
    await api("POST", f"/v1/jobs/{job['jobId']}/pause", json={"reason": "holiday"})
    paused = await api.get(f"/v1/jobs/{job['jobId']}/why")
    assert paused["answer"] == "The job is paused: holiday."
    assert paused["reasons"][0]["unblocks"] == f"Resume the job: timeball jobs resume {job['jobId']}."
    past = "2020-01-01T00:00:00Z"
    late = await api.create(schedule={"type": "date", "expression": past}, **GPU)
    told = await api.get(f"/v1/jobs/{late['jobId']}/why")
    assert told["answer"] == told["run"]["answer"] == "No worker offers 4 CPU and label gpu: there is no worker."
    run_id = told["run"]["runId"]
    await api("POST", f"/v1/runs/{run_id}/cancel")
    (exception,) = (await api.get(f"/v1/jobs/{late['jobId']}/why"))["exceptions"]
    assert (exception["runId"], exception["verdict"]) == (run_id, "cancelled")


async def test_a_job_that_the_clock_holds_up_names_the_command_that_accepts_it(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await api.create(schedule={"type": "interval", "expression": "1h"})
    held = ClockState(store_time=START, wall_clock=START + HOUR, held_since=START, confirmed_in=MINUTE)
    monkeypatch.setattr(api.server.context.store, "clock_state", lambda: held)
    reason = (await api.get(f"/v1/jobs/{job['jobId']}/why"))["reasons"][0]
    assert reason["code"] == "clock"
    assert reason["unblocks"] == (
        "Wait until the step of the clock is confirmed, or accept it now: timeball clock accept."
    )


async def test_what_is_not_there_or_somebody_elses_has_no_why(api: Api) -> None:
    job = await api.create()
    run_id = await run_of(api, job)
    for path in (f"/v1/jobs/{job['jobId']}/why", f"/v1/runs/{run_id}/why"):
        assert (await api("GET", path, OTHER)).status_code == 404
        assert (await api("GET", path, None)).status_code == 401
    for path in ("/v1/jobs/j_0194f3a1c2b79f86d081884c7d65/why", "/v1/runs/nonsense/why"):
        assert (await api("GET", path)).status_code == 404


async def test_a_job_that_nobody_can_run_is_accepted_with_a_warning(api: Api) -> None:
    created = await api.create(**GPU)
    (warning,) = created["warnings"]
    assert warning.startswith("No worker offers 4 CPU and label gpu: there is no worker.")
    assert "timeball worker --cpu 4 --label gpu" in warning
    again = await api("PATCH", f"/v1/jobs/{created['jobId']}", json={**created, "name": "other"})
    assert again.json()["warnings"] == created["warnings"]
    assert "warnings" not in await api.get(f"/v1/jobs/{created['jobId']}")
    assert "warnings" not in await api.create()
    batch = await api("POST", "/v1/jobs:batch", json=[{"task": {"kind": "shell", "command": "x"}, **GPU}] * 2)
    assert [item["warnings"] for item in batch.json()["items"]] == [created["warnings"]] * 2
    now = api.server.context.store.now()
    able = WorkerRecord(
        session="w_gpu", key=None, name="g", slots=1, labels=["gpu"], tasks=[], version="", started_at=now, seen_at=now,
        lease_until=now,
    )  # fmt: skip
    await api.server.context.store.register(able, HOUR)
    assert "warnings" not in await api.create(**GPU)
    python = await api.create(**{**GPU, "task": {"kind": "python", "function": "train"}})
    assert python["warnings"][0].startswith("No worker has the Python function train")
    fixed = await api("PATCH", f"/v1/jobs/{created['jobId']}", json={"runsOn": None, "resources": None})
    assert "warnings" not in fixed.json()


async def test_a_repeated_request_gets_the_same_warning(api: Api) -> None:
    body = {"task": {"kind": "shell", "command": "x"}, "idempotencyKey": "one", **GPU}
    first, second = [await api("POST", "/v1/jobs", json=body) for _ in range(2)]
    assert first.json()["warnings"]
    assert first.content == second.content


async def test_the_ledger_adds_up_whatever_becomes_of_the_fires(world: World) -> None:
    """Every verdict there is, each with its reason, of one job a minute."""
    job = await world.create(
        CronSchedule(expression="* * * * *"), overlap="cancel_previous", start_deadline="10m", catch_up_window="5m"
    )
    await world.live(2 * MINUTE)
    world.time += 30 * MINUTE  # nobody was there: the oldest are missed, the others caught up, one after the other
    await world.plan()
    await world.live(2 * MINUTE)
    hasty = await world.create(Interval(expression="60s"), start_deadline="5s")
    world.time = START + 3 * HOUR
    await world.plan()
    rows = await world.runs(job)
    assert sum((await world.ledger(job)).values()) == sum(row.fires for row in rows)
    for row in rows:
        assert row.reason or row.verdict in ("on_time", "late", "caught_up", "open"), row
    assert {row.verdict for row in rows} >= {"on_time", "missed", "skipped"}
    assert {row.reason for row in rows} >= {"a later fire replaced this run"}
    world.time += 7 * SECOND
    await world.store.expire(100)
    late = [row for row in await world.runs(hasty) if row.verdict == "skipped"]
    assert {row.reason for row in late} >= {"it did not start within its start deadline"}
    assert sum((await world.ledger(hasty)).values()) == sum(row.fires for row in await world.runs(hasty))
