"""`GET /v1/events` over real HTTP, on both stores: I24 for streams, bounded work and memory for listeners (I28)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.api import OTHER, WORKER, FakeWorker, serving
from tests.support.event_streams import HttpApi, over_http
from tests.support.migrated import sqlite_store
from timeball import system
from timeball.ports.store.store import Store
from timeball.stores.postgres.store import PostgresStore


@pytest.fixture(params=["sqlite", "postgres"])
async def http(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[HttpApi]:
    store: Store
    if request.param == "sqlite":
        store = sqlite_store(tmp_path / "timeball.db")
    else:
        store = PostgresStore(request.getfixturevalue("postgres_dsn"), monotonic=system.monotonic)
    async with serving(store) as api, over_http(api) as http:
        yield http


async def worker_of(http: HttpApi) -> FakeWorker:
    worker = FakeWorker(http.api)
    await worker.hello()
    return worker


async def test_a_listener_gets_every_step_of_a_run(http: HttpApi) -> None:
    worker = await worker_of(http)
    async with http.events() as events:
        created = await http.api.create(name="nightly", tags=["db"])
        assigned = await worker.take()
        await worker.succeed(assigned)
        frames = [await events.next()]
        while frames[-1].type != "timeball.job.completed":
            frames.append(await events.next())
    types = [frame.type.removeprefix("timeball.") for frame in frames]
    # a run that is assigned in the transaction that submits it is never queued
    assert [each for each in types if each != "run.queued"] == [
        "job.created",
        "run.started",
        "run.succeeded",
        "job.completed",
    ]
    started = next(frame for frame in frames if frame.type == "timeball.run.started")
    assert started.event["subject"] == f"runs/{assigned['runId']}"
    assert started.event["id"] == started.id
    assert started.event["specversion"] == "1.0"
    data = started.data
    assert (data["runId"], data["jobId"], data["status"]) == (assigned["runId"], created["jobId"], "running")
    assert (data["jobName"], data["tags"], data["kind"]) == ("nightly", ["db"], "shell")
    assert (data["attempt"], data["workerId"]) == (1, worker.session)
    succeeded = next(frame for frame in frames if frame.type == "timeball.run.succeeded")
    assert succeeded.data["jobName"] == "nightly"
    numbers = [int(frame.id.rpartition("-")[2]) for frame in frames]
    assert numbers == sorted(set(numbers))


async def test_a_listener_resumes_after_the_last_event_that_it_received(http: HttpApi) -> None:
    worker = await worker_of(http)
    async with http.events() as events:
        await http.api.create(name="first")
        last = await events.until("timeball.job.created")
    await worker.succeed(await worker.take())
    await http.api.create(name="second")
    async with http.events(last_id=last.id) as events:
        missed = await events.until("timeball.run.succeeded")
        assert missed.data["jobName"] == "first"
        assert (await events.until("timeball.job.created")).data["name"] == "second"
    async with http.events(f"?lastEventId={last.id}") as events:
        pass


async def test_an_unknown_id_gets_a_reset(http: HttpApi) -> None:
    for unknown in ("none", "0123456789ab-7", "-", "x-99999999999999999999"):
        async with http.events(last_id=unknown) as events:
            frame = await events.next()
            assert (frame.type, frame.event) == ("reset", {})
            assert frame.id


async def test_filters_select_by_job_run_tag_status_and_kind(http: HttpApi) -> None:
    worker = await worker_of(http)
    wanted = await http.api.create(name="wanted", tags=["a", "b"], schedule={"type": "interval", "expression": "1h"})
    other = await http.api.create(name="other", schedule={"type": "interval", "expression": "1h"})
    job = wanted["jobId"]
    async with (
        http.events(f"?jobId={job}") as by_job,
        http.events("?tag=b") as by_tag,
        http.events("?status=succeeded,dead") as by_status,
        http.events("?kind=shell") as by_kind,
        http.events("?kind=http") as by_other_kind,
    ):
        for job_id in (other["jobId"], job):
            assert (await http.api("POST", f"/v1/jobs/{job_id}/run")).status_code == 200
            await worker.succeed(await worker.take())
        for reader in (by_job, by_tag):
            started = await reader.until("timeball.run.started")
            assert started.data["jobId"] == job
            assert (await reader.until("timeball.run.succeeded")).data["jobId"] == job
        run = started.data["runId"]
        ends = await by_status.taken(2)
        assert [(frame.type, frame.data["jobName"]) for frame in ends] == [
            ("timeball.run.succeeded", "other"),
            ("timeball.run.succeeded", "wanted"),
        ]
        assert (await by_kind.until("timeball.run.succeeded")).data["kind"] == "shell"
        async with http.events(f"?runId={run}", last_id=by_job.last_id.rpartition("-")[0] + "-0") as by_run:
            frames = [await by_run.next()]
            while frames[-1].type != "timeball.run.succeeded":
                frames.append(await by_run.next())
            assert {frame.data["runId"] for frame in frames} == {run}
        await http.api.create(name="call", task={"kind": "http", "url": "http://127.0.0.1:9/"})
        assert (await by_other_kind.next()).data["name"] == "call"


async def test_bad_filters_are_refused(http: HttpApi) -> None:
    for query in (
        "?jobId=x",
        "?runId=j_1",
        "?status=nonsense",
        "?kind=nonsense",
        "?what=1",
        f"?lastEventId={'1' * 200}",
    ):
        assert (await http.api("GET", f"/v1/events{query}")).status_code == 422, query
    assert (await http.api("GET", "/v1/events", WORKER)).status_code == 403
    assert (await http.api("GET", "/v1/events", None)).status_code == 401
    assert (await http.api("HEAD", "/v1/events")).status_code == 200
    assert http.api.server.context.events.count == 0


async def test_no_event_of_another_tenant_appears(http: HttpApi) -> None:
    """I24."""
    worker = await worker_of(http)
    async with http.events() as events, http.events(key=OTHER) as others:
        await http.api.create(name="mine")
        await worker.succeed(await worker.take())
        answer = await http.api(
            "POST", "/v1/jobs", OTHER, json={"name": "theirs", "task": {"kind": "shell", "command": "true"}}
        )
        assert answer.status_code == 201
        await worker.succeed(await worker.take())
        await http.api.create(name="last")
        mine = [await events.next()]
        while mine[-1].data.get("name") != "last":
            mine.append(await events.next())
        theirs = [await others.next()]
        while theirs[-1].type != "timeball.job.completed":
            theirs.append(await others.next())
    assert {frame.data.get("jobName", frame.data.get("name")) for frame in mine} == {"mine", "last"}
    assert {frame.data.get("jobName", frame.data.get("name")) for frame in theirs} == {"theirs"}
    assert mine[0].id.partition("-")[0] != theirs[0].id.partition("-")[0]
    assert int(theirs[0].id.partition("-")[2]) == 1, "ids do not count the events of others"


async def test_me_tells_credential_tenant_and_permissions(http: HttpApi) -> None:
    me = await http.api.get("/v1/me")
    assert (me["role"], me["tenant"], me["via"], me["session"]) == ("admin", "default", "key", None)
    assert {"read", "write", "admin"} <= set(me["permissions"])
    assert me["server"]["store"] in ("sqlite", "postgresql")
    theirs = (await http.api("GET", "/v1/me", WORKER)).json()
    assert (theirs["role"], theirs["permissions"]) == ("worker", ["worker"])
    assert (await http.api("GET", "/v1/me", None)).status_code == 401
