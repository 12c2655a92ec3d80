"""The API over a real SQLite store and the real operations."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.api import OTHER, WORKER, Api, FakeWorker, running_api
from timeball.api.documentation import openapi

TASK = {"kind": "shell", "command": "true"}
SAME = ("runId", "jobId", "attempt", "token", "serial")
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


# --- jobs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "flat"),
    [
        ({"type": "immediate"}, ("immediate", None, None)),
        ({"type": "date", "expression": "2099-01-01T00:00:00Z"}, ("future", "2099-01-01T00:00:00Z", None)),
        ({"type": "cron", "expression": "0 0 2 * * *", "timezone": "Europe/Berlin"}, ("cron", None, "0 0 2 * * *")),
        ({"type": "interval", "expression": "15m"}, ("interval", None, None)),
    ],
)
async def test_a_created_job_answers_what_was_written(api: Api, schedule: Any, flat: Any) -> None:
    written = {"name": "n", "task": TASK, "schedule": schedule, "tags": ["a"], "retry": {"maxRetries": 7}}
    answer = await api("POST", "/v1/jobs", json=written)
    job = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/jobs/{job['jobId']}"
    assert answer.headers["etag"] == '"1"'
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert job["schedule"] == schedule
    assert job["task"] == TASK
    assert (job["scheduleType"], job["scheduleTime"], job["cronExpression"]) == flat
    assert (job["status"], job["version"], job["maxRetries"]) == ("scheduled", 1, 7)
    assert job["nextFireAt"].endswith("Z")
    assert (await api.get(f"/v1/jobs/{job['jobId']}"))["schedule"] == schedule


async def test_the_flat_shape_is_stored_canonically(api: Api) -> None:
    written = {"name": "f", "scheduleType": "cron", "cronExpression": "0 0 2 * * *", "payload": {"script": "a.py"}}
    job = (await api("POST", "/v1/jobs", json=written)).json()
    assert job["task"] == {"kind": "script", "script": "a.py"}
    assert job["schedule"] == {"type": "cron", "expression": "0 0 2 * * *", "timezone": "UTC"}


async def test_a_job_refers_to_a_registered_task(api: Api) -> None:
    body = {"taskId": "mail", "schedule": {"type": "CRON", "expression": "0 9 * * MON"}, "parameters": {"to": "x"}}
    refused = await api("POST", "/jobs", json=body)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/taskId"
    assert (await api("PUT", "/v1/tasks/mail", json=TASK)).status_code == 201
    assert (await api("PUT", "/v1/tasks/mail", json=TASK)).json()["version"] == 2
    created = await api("POST", "/jobs", json=body)
    assert created.status_code == 201
    assert created.json()["taskId"] == "mail"
    assert (await api("DELETE", "/v1/tasks/mail")).status_code == 409
    await api("DELETE", f"/v1/jobs/{created.json()['jobId']}")
    assert (await api("DELETE", "/v1/tasks/mail")).status_code == 204
    assert (await api("GET", "/v1/tasks/mail")).status_code == 404


async def test_tasks_are_listed(api: Api) -> None:
    for name in ("a", "b", "c"):
        await api("PUT", f"/v1/tasks/{name}", json=TASK)
    first = await api.get("/v1/tasks?limit=2")
    rest = await api.get(f"/v1/tasks?limit=2&cursor={first['nextCursor']}")
    assert [task["taskId"] for task in first["items"] + rest["items"]] == ["a", "b", "c"]
    assert rest["nextCursor"] is None
    assert (await api.get("/v1/tasks/a"))["task"] == TASK


async def test_jobs_are_listed_newest_first_and_filtered(api: Api) -> None:
    made = [
        (await api.create(name=f"n{n}", tags=[f"t{n % 2}"], userId="u", schedule=HOURLY))["jobId"] for n in range(5)
    ]
    seen, cursor = [], ""
    while cursor is not None:
        page = await api.get(f"/v1/jobs?limit=2{f'&cursor={cursor}' if cursor else ''}")
        seen += [job["jobId"] for job in page["items"]]
        cursor = page["nextCursor"]
    assert seen == sorted(made, reverse=True)
    assert len((await api.get("/v1/jobs?tag=t0"))["items"]) == 3
    assert [job["name"] for job in (await api.get("/v1/jobs?name=n3"))["items"]] == ["n3"]
    assert len((await api.get("/v1/jobs?userId=u&status=scheduled,paused"))["items"]) == 5
    assert (await api.get("/v1/jobs?status=paused&status=cancelled"))["items"] == []


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_an_update_is_partial_and_guarded(api: Api, method: str) -> None:
    job = await api.create(name="a", description="d", schedule=HOURLY)
    path = f"/v1/jobs/{job['jobId']}"
    changed = await api(method, path, json={"name": "b"}, headers={"If-Match": '"1"'})
    assert changed.status_code == 200
    assert changed.headers["etag"] == '"2"'
    assert (changed.json()["name"], changed.json()["description"]) == ("b", "d")
    stale = await api(method, path, json={"name": "c"}, headers={"If-Match": '"1"'})
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    assert (await api(method, path, json={"name": "c"}, headers={"If-Match": "nonsense"})).status_code == 412
    same = await api(method, path, json=changed.json())
    assert same.json()["version"] == 2, "an answer sent back unchanged is no change"
    flat = await api(method, path, json={"cronExpression": "*/5 * * * *", "maxRetries": 9})
    assert flat.json()["schedule"] == {"type": "cron", "expression": "*/5 * * * *", "timezone": "UTC"}
    assert flat.json()["retry"]["maxRetries"] == 9


async def test_delete_cancels_and_can_be_repeated(api: Api) -> None:
    job = await api.create(schedule=HOURLY)
    for _ in range(2):
        answer = await api("DELETE", f"/v1/jobs/{job['jobId']}")
        assert (answer.status_code, answer.json()) == (200, {"jobId": job["jobId"], "status": "cancelled"})
    assert (await api.get(f"/v1/jobs/{job['jobId']}"))["status"] == "cancelled"
    refused = await api("PATCH", f"/v1/jobs/{job['jobId']}", json={"name": "x"})
    assert refused.status_code == 409


async def test_pause_and_resume(api: Api) -> None:
    job = await api.create(schedule=HOURLY)
    path = f"/v1/jobs/{job['jobId']}"
    paused = (await api("POST", f"{path}/pause", json={"reason": "holiday"})).json()
    assert (paused["status"], paused["pauseReason"], paused["nextFireAt"]) == ("paused", "holiday", None)
    coming = await api.get(f"{path}/next?count=2")
    assert "holiday" in coming["detail"]
    assert len(coming["items"]) == 2
    resumed = (await api("POST", f"{path}/resume")).json()
    assert resumed["status"] == "scheduled"
    assert resumed["nextFireAt"] == job["nextFireAt"]
    assert (await api("POST", f"{path}/pause")).json()["status"] == "paused"


async def test_a_pause_may_end_by_itself(api: Api) -> None:
    job = await api.create(schedule={"type": "interval", "expression": "1s"}, catchUp="none")
    path = f"/v1/jobs/{job['jobId']}"
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
    end = until.isoformat().replace("+00:00", "Z")
    paused = (await api("POST", f"{path}/pause", json={"reason": "a break", "until": end})).json()
    assert (paused["status"], paused["pausedUntil"], paused["nextFireAt"]) == ("paused", end, None)
    coming = await api.get(f"{path}/next?count=1")
    assert f"a break) until {end}" in coming["detail"]
    assert datetime.fromisoformat(coming["items"][0]["fireTime"]) >= until
    async with asyncio.timeout(60):
        while (found := await api.get(path))["status"] == "paused":
            await asyncio.sleep(0.02)
    assert "pausedUntil" not in found
    assert datetime.now(UTC) >= until


async def test_rules_of_a_schedule_are_kept_shown_and_changed(api: Api) -> None:
    rules = {
        "startAt": "2099-01-01T00:00:00Z",
        "endAt": "2099-01-01T04:00:00+01:00",
        "maxRuns": 2,
        "jitter": "30s",
        "startDeadline": "10m",
    }
    job = await api.create(schedule={"type": "cron", "expression": "0 * * * *"}, **rules)
    assert {name: job[name] for name in rules} == rules
    path = f"/v1/jobs/{job['jobId']}"
    assert job["nextFireAt"] == "2099-01-01T00:00:00Z"
    fires = [item["fireTime"][11:16] for item in (await api.get(f"{path}/next?count=9"))["items"]]
    assert fires == ["00:00", "01:00"], "nominal times, as many as maxRuns allows"
    changed = (await api("PATCH", path, json={"maxRuns": None, "jitter": "1m"})).json()
    assert "maxRuns" not in changed
    assert changed["jitter"] == "1m"
    fires = [item["fireTime"][11:16] for item in (await api.get(f"{path}/next?count=9"))["items"]]
    assert fires == ["00:00", "01:00", "02:00", "03:00"], "up to and with endAt"
    back = await api("PUT", path, json={**changed, "name": "x"})
    assert (back.status_code, back.json()["endAt"]) == (200, rules["endAt"])


async def test_next_tells_the_coming_fires(api: Api) -> None:
    job = await api.create(schedule={"type": "cron", "expression": "0 0 2 * * *", "timezone": "Europe/Berlin"})
    coming = await api.get(f"/v1/jobs/{job['jobId']}/next?count=3")
    times = [datetime.fromisoformat(item["fireTime"]) for item in coming["items"]]
    assert coming["items"][0]["fireTime"] == job["nextFireAt"]
    assert times == sorted(times)
    assert len(times) == 3


# --- idempotency ------------------------------------------------------------------------------------------------------


async def test_a_hundred_submits_with_one_key_make_one_job_and_one_answer(api: Api) -> None:
    body = {"task": TASK, "schedule": HOURLY}
    answers = await asyncio.gather(
        *(api("POST", "/v1/jobs", json=body, headers={"Idempotency-Key": "k"}) for _ in range(100))
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert len((await api.get("/v1/jobs"))["items"]) == 1


async def test_a_repetition_may_be_written_otherwise_but_not_say_otherwise(api: Api) -> None:
    first = await api("POST", "/v1/jobs", json={"task": TASK, "name": "x", "idempotencyKey": "k"})
    again = await api("POST", "/v1/jobs", json={"name": "x", "task": TASK}, headers={"Idempotency-Key": "k"})
    assert again.content == first.content
    assert again.headers["idempotency-replayed"] == "true"
    other = await api("POST", "/v1/jobs", json={"name": "y", "task": TASK}, headers={"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    both = await api("POST", "/v1/jobs", json={"task": TASK, "idempotencyKey": "a"}, headers={"Idempotency-Key": "b"})
    assert both.status_code == 422


# --- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [False, True])
async def test_a_batch_answers_in_order_and_a_bad_item_fails_alone(api: Api, lines: bool) -> None:
    good = b'{"task":{"kind":"shell","command":"true"},"name":"a"}'
    flat = b'{"scheduleType":"immediate","payload":{"script":"b.py"},"name":"b"}'
    bad = b'{"task":{"kind":"shell","command":"true"},"nme":"c"}'
    keyed = b'{"task":{"kind":"shell","command":"true"},"name":"d","idempotencyKey":"k"}'
    nul = b'{"task":{"kind":"shell","command":"\\u0000"}}'
    parts = [good, flat, bad, keyed, keyed, nul]
    body = b"\n".join(parts) + b"\n" if lines else b"[" + b",".join(parts) + b"]"
    answer = await api("POST", "/v1/jobs:batch", content=body)
    items = answer.json()["items"]
    assert answer.status_code == 200
    assert [sorted(item) for item in items] == [["jobId"], ["jobId"], ["error"], ["jobId"], ["jobId"], ["error"]]
    assert items[3] == items[4]
    assert items[2]["error"]["errors"][0]["pointer"] == "/nme"
    assert items[5]["error"]["errors"][0]["pointer"] == "/task/command"
    assert (await api.get(f"/v1/jobs/{items[1]['jobId']}"))["name"] == "b"


async def test_a_large_batch_of_plain_jobs(api: Api) -> None:
    jobs = [{"task": TASK, "name": str(n), "schedule": HOURLY} for n in range(10_000)]
    answer = await api("POST", "/v1/jobs:batch", json=jobs)
    ids = [item["jobId"] for item in answer.json()["items"]]
    assert len(set(ids)) == 10_000
    assert (await api.get(f"/v1/jobs/{ids[4_321]}"))["name"] == "4321"
    assert (await api("POST", "/v1/jobs:batch", json=[*jobs, jobs[0]])).status_code == 413


async def test_a_batch_can_be_sent_again_under_one_key(api: Api) -> None:
    jobs = [{"task": TASK, "name": str(n)} for n in range(3)]
    first = await api("POST", "/v1/jobs:batch", json=jobs, headers={"Idempotency-Key": "b"})
    again = await api("POST", "/v1/jobs:batch", json=jobs, headers={"Idempotency-Key": "b"})
    assert first.json() == again.json()


@pytest.mark.parametrize(("body", "status"), [(b"[1,", 400), (b'[{"a":1},]', 400), (b"[]", 200), (b"", 200)])
async def test_odd_batches(api: Api, body: bytes, status: int) -> None:
    assert (await api("POST", "/v1/jobs:batch", content=body)).status_code == status


# --- runs -------------------------------------------------------------------------------------------------------------


async def test_the_life_of_a_run_as_users_see_it(api: Api, worker: FakeWorker) -> None:
    job = await api.create(name="etl", tags=["x"], userId="u")
    path = f"/v1/jobs/{job['jobId']}"
    assigned = await worker.take()
    assert assigned["jobId"] == job["jobId"]
    same = {name: assigned[name] for name in ("runId", "token")}
    await worker.report(started=[{**same, "age": 1_000}], progress=[{**same, "fraction": 0.5, "note": "half"}])
    status = await api.get(f"{path}/status")
    assert status["startTime"].endswith("Z")
    assert {name: status[name] for name in status if name != "startTime"} == {
        "jobId": job["jobId"],
        "status": "running",
        "progress": "50%",
        "executorId": "w1",
        "runId": assigned["runId"],
        "attempt": 1,
    }
    await worker.write(assigned, "hello\n", "wor\0ld\n")
    await worker.succeed(assigned, {"rows": 3})

    run = await api.get(f"/v1/runs/{assigned['runId']}")
    assert (run["status"], run["verdict"], run["jobName"], run["progress"]) == ("succeeded", "on_time", "etl", "100%")
    assert run["lateMs"] >= 0
    assert [attempt["attempt"] for attempt in run["attempts"]] == [1]
    assert await api.get(f"/v1/runs/{assigned['runId']}/result") == {"rows": 3}
    text = await api("GET", f"{path}/logs")
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.text == "hello\nwor\ufffdld\n"
    lines = await api.get(f"{path}/logs", headers={"Accept": "application/json"})
    assert [line["text"] for line in lines["items"]] == ["hello\n", "wor\ufffdld\n"]
    assert (await api("GET", f"{path}/logs?search=HELL")).text == "hello\n"
    found = await api.get(f"{path}/logs?search=wor", headers={"Accept": "application/json"})
    assert [(line["stream"], line["text"]) for line in found["items"]] == [("stdout", "wor\ufffdld")]
    assert found["nextCursor"] is None
    refused = await api("GET", f"{path}/logs?search=wor&follow=1")
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/search")
    address = await api.get(f"{path}/logs?as=url")
    assert address["url"].endswith(f"/v1/runs/{assigned['runId']}/logs")
    assert (await api("GET", address["url"])).text == text.text
    assert (await api.get(path))["status"] == "completed"

    ledger = await api.get(f"{path}/ledger")
    assert (ledger["due"], ledger["counts"]) == (1, {"on_time": 1})
    assert ledger["items"][0]["runId"] == assigned["runId"]
    assert (await api.get(f"{path}/runs"))["items"][0]["runId"] == assigned["runId"]
    assert [item["runId"] for item in (await api.get("/v1/runs?status=done&tag=x&userId=u"))["items"]] == [run["runId"]]
    legacy = await api.get("/jobs?userId=u&status=COMPLETED")
    fire_time = datetime.fromisoformat(run["fireTime"])
    assert legacy == [
        {
            "jobId": job["jobId"],
            "executionTime": (fire_time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1),
            "status": "succeeded",
            "attempt": 1,
        }
    ]


async def test_runs_are_filtered_by_fire_time(api: Api) -> None:
    await api.create(schedule={"type": "date", "expression": "2020-01-01T00:00:00Z"})
    at = 1_577_836_800_000
    for window, found in (
        (f"startTime={at}&endTime={at + 1000}", 1),
        ("startTime=2020-01-01T00:00:00Z", 1),
        ("startTime=2020-01-01T01:00:00+01:00&endTime=2020-01-02T00:00:00Z", 1),
        (f"startTime={at + 1000}", 0),
        ("endTime=2019-12-31T00:00:00Z", 0),
    ):
        assert len((await api.get(f"/v1/runs?{window}"))["items"]) == found, window
        assert len(await api.get(f"/jobs?{window}")) == found, window


async def test_dead_letters_are_listed_and_retried_once(api: Api, worker: FakeWorker) -> None:
    job = await api.create(maxRetries=0)
    assigned = await worker.take()
    await worker.fail(assigned)
    dead = (await api.get("/v1/dead-letters"))["items"]
    assert [(run["runId"], run["status"], run["error"]["exitCode"]) for run in dead] == [(assigned["runId"], "dead", 1)]
    assert (await api.get("/v1/runs?status=errored"))["items"] == dead
    assert (await api.get("/v1/runs?status=FAILED"))["items"] == dead
    assert (await api.get("/v1/runs?status=failed"))["items"] == []
    answer = (await api("POST", "/v1/dead-letters:retry", json={"jobId": job["jobId"]})).json()
    assert (answer["matched"], answer["retried"], answer["skipped"]) == (1, 1, 0)
    assert (await api.get("/v1/dead-letters"))["items"] == []
    again = await worker.take()
    assert again["runId"] == answer["items"][0]["retriedAs"]
    await worker.succeed(again)
    assert (await api.get(f"/v1/runs/{again['runId']}"))["retryOf"] == assigned["runId"]
    refused = (await api("POST", "/v1/dead-letters:retry", json={"runIds": ["r_x", again["runId"]]})).json()
    assert (refused["matched"], refused["retried"], refused["skipped"]) == (2, 0, 2)
    assert [item["error"]["code"] for item in refused["items"]] == ["not_found", "conflict"]
    for body in ({}, {"all": True, "jobId": job["jobId"]}):
        assert (await api("POST", "/v1/dead-letters:retry", json=body)).status_code == 422


async def test_cancel_and_retry_of_a_run(api: Api) -> None:
    job = await api.create(schedule={"type": "date", "expression": "2020-01-01T00:00:00Z"})
    run_id = (await api.get(f"/v1/jobs/{job['jobId']}/runs"))["items"][0]["runId"]
    cancelled = (await api("POST", f"/v1/runs/{run_id}/cancel")).json()
    assert cancelled["status"] == "cancelled"
    retried = (await api("POST", f"/v1/runs/{run_id}/retry")).json()
    assert (retried["retryOf"], retried["status"]) == (run_id, "queued")


async def test_run_now_says_what_the_overlap_policy_did(api: Api) -> None:
    job = await api.create(schedule=HOURLY, overlap="skip")
    fates = [(await api("POST", f"/v1/jobs/{job['jobId']}/run")).json() for _ in range(2)]
    assert [fate["status"] for fate in fates] == ["queued", "skipped"]
    assert fates[0]["jobId"] == job["jobId"]
    assert "overlap" in fates[1]["detail"]


async def test_a_followed_log_ends_with_the_run(api: Api, worker: FakeWorker) -> None:
    await api.create()
    assigned = await worker.take()
    await worker.write(assigned, "one\n")
    following = asyncio.create_task(api("GET", f"/v1/runs/{assigned['runId']}/logs?follow=1"))
    await asyncio.sleep(0.05)
    assert not following.done()
    await worker.succeed(assigned)
    assert (await following).text == "one\n"


@pytest.mark.parametrize("cursor", ["", "&cursor=1000000", "&cursor=999999"])
async def test_a_followed_log_goes_on_with_an_attempt_that_was_given_back_and_begins_anew(
    api: Api, worker: FakeWorker, cursor: str
) -> None:
    await api.create()
    assigned = await worker.take()
    await worker.write(assigned, "one\n", "two\n")
    following = asyncio.create_task(api("GET", f"/v1/runs/{assigned['runId']}/logs?follow=1{cursor}"))
    await asyncio.sleep(0.1)
    await worker.end(assigned, {"type": "released"})
    again = await worker.take()
    assert again["attempt"] == assigned["attempt"] == 1
    await worker.write(again, "anew\n")
    await asyncio.sleep(0.3)
    await worker.succeed(again)
    seen = "two\n" if cursor == "&cursor=1000000" else "one\ntwo\n"
    assert (await following).text == f"{seen}anew\n"


async def test_following_from_a_place_that_is_forgotten_begins_that_attempt_anew(api: Api, worker: FakeWorker) -> None:
    await api.create()
    assigned = await worker.take()
    await worker.write(assigned, "one\n", "two\n")
    await worker.end(assigned, {"type": "released"})
    again = await worker.take()
    await worker.write(again, "anew\n")
    await worker.succeed(again)
    path = f"/v1/runs/{assigned['runId']}/logs?follow=1"
    assert (await api("GET", f"{path}&cursor=1000001")).text == "anew\n"
    assert (await api("GET", f"{path}&cursor=1000000")).text == ""


# --- workers and keys -------------------------------------------------------------------------------------------------


async def test_workers_are_listed_and_leave(api: Api, worker: FakeWorker) -> None:
    [shown] = (await api.get("/v1/workers"))["items"]
    assert (shown["name"], shown["slots"], shown["workerId"]) == ("w1", 4, worker.session)
    assert (shown["cpu"], shown["memoryMb"], shown["dedicated"], shown["reservedFor"]) == (None, None, False, None)
    await worker.send("beat", {"session": worker.session, "held": []})
    await worker.send("goodbye", {"session": worker.session}, 204)
    lost = await worker.send("beat", {"session": worker.session, "held": []}, 409)
    assert lost["code"] == "session_lost"
    assert (await api.get("/v1/workers"))["items"] == []
    [gone] = (await api.get("/v1/workers?include=gone"))["items"]
    assert (gone["name"], gone["status"], gone["workerId"]) == ("w1", "left", worker.session)
    assert gone["endedAt"] >= shown["startedAt"]
    assert shown["endedAt"] is None


async def test_the_runs_of_a_worker_are_those_that_it_executes(api: Api, worker: FakeWorker) -> None:
    await api.create()
    assigned = await worker.take()
    path = f"/v1/runs?workerId={worker.session}"
    await api.create()
    assert [run["runId"] for run in (await api.get(path))["items"]] == [assigned["runId"]]
    assert (await api.get(f"{path}&status=succeeded,queued"))["items"] == []
    assert (await api.get("/v1/runs?workerId=w_0000000000000000000000000000"))["items"] == []
    await worker.succeed(assigned)
    assert (await api.get(path))["items"] == []
    refused = await api("GET", f"{path}&archived=true")
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/query/workerId")


async def test_a_worker_that_is_drained_is_told_with_its_poll_and_gets_nothing_new(
    api: Api, worker: FakeWorker
) -> None:
    first = await api.create()
    assigned = await worker.take()
    asking = {"session": worker.session, "seq": 99, "free": 3, "held": [assigned["token"]], "wait": 20_000_000}
    polling = asyncio.create_task(worker.send("poll", asking))
    await asyncio.sleep(0.05)
    for _ in range(2):
        answer = await api("POST", f"/v1/workers/{worker.session}/drain")
        assert (answer.status_code, answer.json()) == (202, {"workerId": worker.session, "status": "draining"})
    assert await asyncio.wait_for(polling, 60) == {"drain": True}
    [shown] = (await api.get("/v1/workers"))["items"]
    assert (shown["status"], shown["running"]) == ("draining", 1)
    assert shown["drainingSince"] >= shown["startedAt"]
    second = await api.create()
    quick = {**asking, "seq": 100, "wait": 100_000}
    assert await worker.send("poll", quick) == {}
    assert (await worker.send("beat", {"session": worker.session, "held": [assigned["token"]]}))["drain"] is True
    [why] = (await api.get(f"/v1/jobs/{second['jobId']}/why"))["run"]["reasons"]
    assert (why["code"], why["text"]) == ("no_worker", "No worker accepts new runs: 1 worker is draining.")
    await worker.succeed(assigned)
    assert (await api.get(f"/v1/jobs/{first['jobId']}/status"))["status"] == "succeeded"
    await worker.send("goodbye", {"session": worker.session}, 204)
    assert (await api.get("/v1/workers"))["items"] == []


@pytest.mark.parametrize(
    "worker_id", ["w_0000000000000000000000000000", "w_x", "r_0000000000000000000000000000", "%00"]
)
async def test_a_worker_that_is_not_there_cannot_be_drained(api: Api, worker_id: str) -> None:
    answer = await api("POST", f"/v1/workers/{worker_id}/drain")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_a_worker_key_drains_no_worker(api: Api, worker: FakeWorker) -> None:
    answer = await api("POST", f"/v1/workers/{worker.session}/drain", WORKER)
    assert answer.status_code == 403


async def test_a_worker_shows_what_it_offers(api: Api) -> None:
    offer = {"cpu": 1.5, "memoryMb": 2048, "labels": ["gpu"], "dedicated": True}
    await api("POST", "/v1/worker/hello", WORKER, json={"name": "w", "slots": 1, **offer})
    [shown] = (await api.get("/v1/workers"))["items"]
    assert {field: shown[field] for field in offer} == offer


async def test_a_new_key_works_until_it_is_revoked(api: Api) -> None:
    made = await api("POST", "/v1/api-keys", json={"role": "admin", "name": "laptop"})
    key = made.json()
    assert made.status_code == 201
    assert (await api("GET", "/v1/jobs", key["key"])).status_code == 200
    listed = await api.get("/v1/api-keys")
    assert key["keyId"] in [found["keyId"] for found in listed["items"]]
    assert key["key"] not in str(listed)
    assert (await api("DELETE", f"/v1/api-keys/{key['keyId']}", key["key"])).status_code == 409
    assert (await api("DELETE", f"/v1/api-keys/{key['keyId']}")).status_code == 204
    assert (await api("GET", "/v1/jobs", key["key"])).status_code == 401
    assert (await api("DELETE", "/v1/api-keys/k_unknown")).status_code == 404


async def test_another_tenants_things_do_not_exist(api: Api, worker: FakeWorker) -> None:
    job = await api.create()
    run_id = (await worker.take())["runId"]
    await api("PUT", "/v1/tasks/mail", json=TASK)
    for method, path in (
        ("GET", f"/v1/jobs/{job['jobId']}"),
        ("PATCH", f"/v1/jobs/{job['jobId']}"),
        ("DELETE", f"/v1/jobs/{job['jobId']}"),
        ("GET", f"/v1/jobs/{job['jobId']}/logs"),
        ("GET", f"/v1/jobs/{job['jobId']}/ledger"),
        ("GET", f"/v1/jobs/{job['jobId']}/runs"),
        ("POST", f"/v1/jobs/{job['jobId']}/run"),
        ("GET", f"/v1/runs/{run_id}"),
        ("GET", f"/v1/runs/{run_id}/logs"),
        ("GET", f"/v1/runs/{run_id}/result"),
        ("POST", f"/v1/runs/{run_id}/cancel"),
        ("GET", "/v1/tasks/mail"),
        ("DELETE", "/v1/tasks/mail"),
    ):
        body = {"json": {}} if method == "PATCH" else {}
        assert (await api(method, path, OTHER, **body)).status_code == 404, (method, path)
    for path in ("/v1/jobs", "/v1/runs", "/v1/tasks", "/v1/dead-letters"):
        assert (await api.get(path, key=OTHER))["items"] == []


async def test_a_worker_key_opens_the_worker_protocol_and_nothing_else(api: Api) -> None:
    assert (await api("GET", "/v1/jobs", WORKER)).status_code == 403
    assert (await api("POST", "/v1/api-keys", WORKER, json={"role": "admin"})).status_code == 403
    assert (await api("POST", "/v1/worker/hello", WORKER, json={"name": "w", "slots": 1})).status_code == 200


async def test_a_worker_that_hangs_up_is_assigned_nothing(api: Api) -> None:
    hello = (await api("POST", "/v1/worker/hello", WORKER, json={"name": "w", "slots": 1})).json()
    body = {"session": hello["session"], "seq": 1, "free": 1, "held": [], "wait": 30_000_000}
    sent: list[Any] = []
    messages: asyncio.Queue[Any] = asyncio.Queue()
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/worker/poll",
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {WORKER}".encode())],
    }
    await messages.put({"type": "http.request", "body": msgspec.json.encode(body)})

    async def send(message: Any) -> None:
        sent.append(message)

    polling = asyncio.create_task(api.app(scope, messages.get, send))  # type: ignore[arg-type]
    for _ in range(500):
        if api.server.gateway.has_demand:
            break
        await asyncio.sleep(0.01)
    assert api.server.gateway.has_demand
    await messages.put({"type": "http.disconnect"})
    await polling
    assert not api.server.gateway.has_demand


@pytest.mark.parametrize(
    "odd",
    [
        str(2**63),
        '{"id": 12345678901234567890123}',
        "[" * 200 + "]" * 200,
        "1e999",
        "9" * 5_000,
        '"\\u0000"',
    ],
)
async def test_an_odd_result_is_kept_and_costs_its_neighbours_nothing(api: Api, worker: FakeWorker, odd: str) -> None:
    await api.create()
    await api.create()
    one = await worker.take()
    two = await worker.take(held=(one["token"],))
    entries = [
        "{"
        + ",".join(f'"{name}": {msgspec.json.encode(each[name]).decode()}' for name in SAME)
        + f', "outcome": {{"type": "succeeded", "result": {result}}}, "age": 2000, "took": 1000}}'
        for each, result in ((one, "7"), (two, odd))
    ]
    body = f'{{"session": "{worker.session}", "pollSeq": 2, "free": 2, "ended": [{",".join(entries)}]}}'
    answer = await api("POST", "/v1/worker/report", WORKER, content=body)
    assert answer.status_code == 200, answer.text
    for each, result in ((one, "7"), (two, odd)):
        run = await api.get(f"/v1/runs/{each['runId']}")
        assert run["status"] == "succeeded"
        kept = await api("GET", f"/v1/runs/{each['runId']}/result")
        assert (kept.status_code, kept.text) == (200, result.replace("\\u0000", "\\ufffd"))


@pytest.mark.parametrize(
    ("part", "pointer"),
    [
        ({"token": 2**70}, "/ended/0/token"),
        ({"attempt": -(2**63) - 1}, "/ended/0/attempt"),
        ({"age": 2**63}, "/ended/0/age"),
        (
            {"outcome": {"type": "failed", "failure": {"kind": "exit", "message": "", "exitCode": 2**63}}},
            "/ended/0/outcome/failure/exitCode",
        ),
    ],
)
async def test_a_report_with_numbers_beyond_64_bits_is_refused(
    api: Api, worker: FakeWorker, part: dict[str, Any], pointer: str
) -> None:
    await api.create()
    assigned = await worker.take()
    ended = {name: assigned[name] for name in SAME} | {"outcome": {"type": "succeeded", "result": 2**70}}
    body = json.dumps({"session": worker.session, "pollSeq": 2, "free": 2, "ended": [ended | part]})
    answer = await api("POST", "/v1/worker/report", WORKER, content=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


async def test_following_a_run_that_is_dropped_ends_quietly(api: Api) -> None:
    job = await api.create(schedule={"type": "interval", "expression": "10s"})
    while not (runs := (await api.get(f"/v1/jobs/{job['jobId']}/runs"))["items"]):
        await asyncio.sleep(0.02)
    run = runs[-1]
    following = asyncio.create_task(api("GET", f"/v1/runs/{run['runId']}/logs?follow=1"))
    await asyncio.sleep(0.1)
    assert (await api("POST", f"/v1/jobs/{job['jobId']}/pause")).status_code == 200
    async with asyncio.timeout(60):
        answer = await following
    assert (answer.status_code, answer.text) == (200, "")


async def test_no_answer_repeats_what_a_client_says_about_the_address(api: Api, worker: FakeWorker) -> None:
    """An answer may be kept by a cache, or followed with a key: a stranger's host has no place in it (I28)."""
    await api.create()
    assigned = await worker.take()
    await worker.succeed(assigned)
    path = f"/v1/jobs/{assigned['jobId']}/logs?as=url"
    plain = await api.get(path)
    forged = await api.get(path, headers={"Host": "evil.example", "X-Forwarded-Proto": "https"})
    assert forged == plain
    assert plain["url"] == f"/v1/runs/{assigned['runId']}/logs"


async def test_the_pages_of_the_api_are_made_once_however_many_ask_at_first(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I28: to make them takes a second, and many clients without a key may ask at the same time."""
    made: list[str] = []
    make = openapi.document

    def document(*given: Any) -> Any:
        made.append("made")
        return make(*given)

    monkeypatch.setattr(openapi, "document", document)
    answers = await asyncio.gather(*(api("GET", path) for path in ("/openapi.json", "/docs") * 5))
    assert [answer.status_code for answer in answers] == [200] * 10
    assert made == ["made"]
