"""Backfills over the API, the clients and the command line. Only the worker is a fake."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_cli import fields, run, run_json
from tests.support.api import OTHER, Api, FakeWorker, running_api
from tests.support.both_clients import BOTH, either
from tests.support.live_server import LiveServer
from timeball import Invalid
from timeball.domain.errors import IdempotencyMismatch

pytestmark = pytest.mark.usefixtures("environment_of_live")

DAY = {"from": "2026-02-01T00:00:00Z", "to": "2026-02-02T00:00:00Z"}
HOURLY = {"type": "cron", "expression": "0 * * * *"}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as api:
        yield api


async def begin(api: Api, job_id: str, status: int = 201, key: str | None = None, **body: Any) -> Any:
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = await api("POST", f"/v1/jobs/{job_id}/backfill", json={**DAY, **body}, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_from_the_count_before_to_its_end(api: Api) -> None:
    job_id = (await api.create(schedule=HOURLY, name="hourly"))["jobId"]
    counted = await begin(api, job_id, 200, dryRun=True)
    assert counted == {
        "jobId": job_id,
        "total": 24,
        "firstFireTime": "2026-02-01T00:00:00Z",
        "lastFireTime": "2026-02-01T23:00:00Z",
    }
    assert (await api.get("/v1/backfills"))["items"] == []
    begun = await begin(api, job_id, parallelism=2)
    assert (begun["status"], begun["total"], begun["remaining"], begun["jobName"]) == ("running", 24, 24, "hourly")
    worker = FakeWorker(api)
    await worker.hello()
    fires = []
    for _ in range(24):
        taken = await worker.take()
        fires.append(taken["fireTime"])
        await worker.succeed(taken)
    assert fires == sorted(set(fires))
    path = f"/v1/backfills/{begun['backfillId']}"
    async with asyncio.timeout(60):
        while (shown := await api.get(path))["finishedAt"] is None:
            await asyncio.sleep(0.02)
    sums = ("total", "done", "succeeded", "failed", "cancelled", "running", "remaining")
    assert [shown[each] for each in sums] == [24, 24, 24, 0, 0, 0, 0]
    assert (shown["status"], shown["nextFireTime"]) == ("completed", None)
    [one, *_] = (await api.get(f"/v1/jobs/{job_id}/runs?origin=backfill"))["items"]
    assert (one["backfillId"], one["fireTime"], one["retryOf"]) == (shown["backfillId"], "2026-02-01T23:00:00Z", None)
    assert (one["lateMs"], one["verdict"]) == (None, "caught_up")
    assert (await api.get(f"/v1/jobs/{job_id}/ledger"))["due"] == 0
    assert (await api("POST", f"{path}/cancel")).status_code == 409


async def test_one_key_one_backfill(api: Api) -> None:
    job_id = (await api.create(schedule=HOURLY))["jobId"]
    first = await begin(api, job_id, key="k")
    assert await begin(api, job_id, key="k") == first
    assert (await begin(api, job_id, 422, key="k", parallelism=2))["code"] == "idempotency_mismatch"
    assert (await begin(api, job_id))["backfillId"] != first["backfillId"]
    assert len((await api.get(f"/v1/backfills?jobId={job_id}"))["items"]) == 2


async def test_bad_ranges_are_refused_with_what_is_wrong(api: Api) -> None:
    job_id = (await api.create(schedule=HOURLY))["jobId"]
    for body, pointer in (
        ({"from": "yesterday"}, "/from"),
        ({"to": "2026-01-01T00:00:00Z"}, "/to"),
        ({"to": "2999-01-01T00:00:00Z"}, "/to"),
        ({"from": "1980-01-01T00:00:00Z"}, "/to"),
        ({"parallelism": 0}, "/parallelism"),
        ({"parallel": 1}, "/parallel"),
    ):
        problem = await begin(api, job_id, 422, **body)
        assert problem["errors"][0]["pointer"] == pointer, problem
    once = (await api.create())["jobId"]
    assert "fires once" in (await begin(api, once, 422))["detail"]


async def test_another_tenants_backfill_is_none(api: Api) -> None:
    job_id = (await api.create(schedule=HOURLY))["jobId"]
    begun = await begin(api, job_id)
    path = f"/v1/backfills/{begun['backfillId']}"
    assert (await api("GET", path, key=OTHER)).status_code == 404
    assert (await api("POST", f"{path}/cancel", key=OTHER)).status_code == 404
    assert (await api("GET", f"/v1/backfills?jobId={job_id}", key=OTHER)).status_code == 404
    assert (await api.get("/v1/backfills", key=OTHER))["items"] == []
    assert (await api("GET", "/v1/backfills/b_1")).status_code == 404
    assert (await api("POST", f"/v1/jobs/{job_id}/backfill", key=OTHER, json=DAY)).status_code == 404


def test_the_command_line(live: LiveServer) -> None:
    run("jobs", "create", "every-hour", "--shell", "echo", "--cron", "0 * * * *")
    window = ("--from", "2026-02-01", "--to", "2026-02-02")
    assert run("jobs", "backfill", "every-hour", *window, "--dry-run") == "24\n"
    done = run("jobs", "backfill", "every-hour", *window, "--parallelism", "8", "--wait")
    backfill_id, status = done.split()
    assert status == "completed"
    shown = fields(run("backfills", "show", backfill_id))
    assert (shown["succeeded"], shown["fires"], shown["parallelism"]) == ("24", "24", "8")
    assert f"{backfill_id}\tevery-hour\tcompleted\t24/24" in run("backfills", "list", "--job", "every-hour")
    [newest] = run_json("runs", "list", "--job", "every-hour", "--origin", "backfill", "--limit", "1")["items"]
    assert fields(run("runs", "show", newest["runId"]))["backfill"] == backfill_id
    run("jobs", "create", "broken-hour", "--shell", "false", "--cron", "0 * * * *", "--retries", "0")
    assert "completed" in run("jobs", "backfill", "broken-hour", *window, "--wait", code=1)
    run("jobs", "create", "nowhere", "--shell", "true", "--cron", "0 * * * *", "--runs-on", "moon")
    waits = run("jobs", "backfill", "nowhere", *window).strip()
    assert run("backfills", "cancel", waits) == f"{waits}\n"
    assert fields(run("backfills", "show", waits))["status"] == "cancelled"


@pytest.mark.parametrize("kind", BOTH)
def test_the_clients(kind: str) -> None:
    since = datetime(2026, 2, 1, tzinfo=UTC)
    with either(kind) as client:
        job = client.create_job(f"for {kind}", shell="echo", cron="0 * * * *")
        assert client.backfill_range(job.job_id, since, since + timedelta(hours=5)).total == 5
        begun = client.backfill(job.job_id, since, since + timedelta(hours=5), idempotency_key=f"k {kind}")
        again = client.backfill(job.job_id, since, since + timedelta(hours=5), idempotency_key=f"k {kind}")
        assert (again.backfill_id, begun.since, begun.total) == (begun.backfill_id, since, 5)
        with pytest.raises(IdempotencyMismatch):
            client.backfill(job.job_id, since, since + timedelta(hours=6), idempotency_key=f"k {kind}")
        with pytest.raises(Invalid):
            client.backfill(job.job_id, since, since)
        found: Iterator[Any] = iter(client.backfills(job_id=job.job_id))
        assert [each.backfill_id for each in found] == [begun.backfill_id]
        while not (shown := client.backfill_progress(begun.backfill_id)).over:
            time.sleep(0.02)
        assert (shown.status, shown.succeeded, shown.remaining) == ("completed", 5, 0)
        waits = client.create_job(f"waits {kind}", shell="echo", cron="0 * * * *", runs_on=["moon"])
        begun = client.backfill(waits.job_id, since, since + timedelta(hours=5))
        assert client.cancel_backfill(begun.backfill_id).status == "cancelled"
