"""`GET /v1/events` over real HTTP, on both stores: isolation of tenants (I24), and bounded work and memory for
listeners (I28)."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.api import ADMIN, OTHER, WORKER, FakeWorker, serving
from tests.support.event_streams import HttpApi, over_http, until
from tests.support.migrated import sqlite_store
from timeball import system
from timeball.api.auth import REMEMBER
from timeball.api.event_streams import CHECK_INTERVAL, MAX_UNCHECKED_TIME
from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND
from timeball.domain.run.status import Status
from timeball.operation.events import hub
from timeball.operation.events.listener import MAX_BACKLOG_BYTES
from timeball.ports.store.changes import ChangeBatch, RunChange
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
    created = await http.api("POST", "/v1/api-keys", json={"role": "worker", "tenants": ["default", "other"]})
    worker = FakeWorker(http.api, created.json()["key"])
    await worker.hello()
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
    assert (me["role"], me["tenant"], me["via"], me["session"]) == ("system", "default", "key", None)
    assert {"read", "run", "edit", "admin", "system"} <= set(me["permissions"])
    assert me["server"]["store"] in ("sqlite", "postgresql")
    theirs = (await http.api("GET", "/v1/me", WORKER)).json()
    assert (theirs["role"], theirs["permissions"]) == ("worker", ["worker"])
    assert (await http.api("GET", "/v1/me", None)).status_code == 401


async def test_the_stream_of_a_revoked_key_ends(http: HttpApi) -> None:
    made = (await http.api("POST", "/v1/api-keys", json={"role": "admin", "name": "page"})).json()
    async with http.events(key=made["key"]) as events, http.events() as others:
        await http.api.create(name="before")
        assert (await events.until("timeball.job.created")).data["name"] == "before"
        assert (await http.api("DELETE", f"/v1/api-keys/{made['keyId']}")).status_code == 204
        assert await events.ended()
        assert (await http.api("GET", "/v1/events", made["key"])).status_code == 401
        await http.api.create(name="after")
        await others.until("timeball.job.created", lambda data: data["name"] == "after")


async def test_a_key_that_another_server_revoked_ends_the_stream_as_well(http: HttpApi) -> None:
    """The server of the stream learns it from the store: it must not believe its cache for longer."""
    made = (await http.api("POST", "/v1/api-keys", json={"role": "admin", "name": "page"})).json()
    async with http.events(key=made["key"]) as events:
        assert await http.api.server.context.store.revoke_key(made["keyId"])
        assert await events.ended()


def test_a_revoked_key_is_noticed_within_five_seconds() -> None:
    """The cache of keys, and then the next check."""
    assert REMEMBER + CHECK_INTERVAL < 5 * SECOND
    assert MAX_UNCHECKED_TIME <= 5 * SECOND


async def test_a_stream_whose_key_cannot_be_checked_ends(http: HttpApi, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise Unavailable("the store does not answer")

    async with http.events() as events:
        monkeypatch.setattr(http.api.server.context.store, "key_by_digest", away)
        assert await events.ended()


async def test_a_client_that_never_reads_is_dropped_and_others_are_not(
    http: HttpApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I28: what waits for it in the server is bounded, and so is the time that its connection lasts."""
    monkeypatch.setattr(hub, "WINDOW", 0)
    events_hub = http.api.server.context.events
    with socket.create_connection(("127.0.0.1", http.port)) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.sendall(f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n\r\n".encode())
        await until(lambda: events_hub.count == 1)
        (listener,) = next(iter(events_hub._feeds.values())).listeners()
        async with http.events() as events:
            number = largest = 0
            while not listener.is_closed:
                number += 1
                changes = [
                    RunChange(f"r_{number}_{each}", "j_" + "x" * 500, "default", Status.QUEUED, 0) for each in range(90)
                ]
                events_hub.collect([ChangeBatch(90, lambda changes=changes: changes)])  # type: ignore[misc]
                await events.until("timeball.run.queued", lambda data, last=f"r_{number}_89": data["runId"] == last)
                largest = max(largest, *(peer.transport.get_write_buffer_size() for peer in http.http.peers))
                assert number < 5_000
            assert largest <= MAX_BACKLOG_BYTES + 2 * len(changes) * 1_000
            assert (listener._size, listener._chunks) == (0, [])
            await until(lambda: events_hub.count == 1)
            await http.api.create(name="still here")
            await events.until("timeball.job.created", lambda data: data["name"] == "still here")


async def test_streams_are_bounded(http: HttpApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """I28: refused before the answer begins."""
    monkeypatch.setattr(hub, "MAX_LISTENERS_PER_KEY", 1)
    async with http.events():
        refused = await http.api("GET", "/v1/events")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        monkeypatch.setattr(hub, "MAX_LISTENERS", 1)
        refused = await http.api("GET", "/v1/events", OTHER)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    await until(lambda: http.api.server.context.events.count == 0)
    async with http.events():
        pass


async def test_a_stopping_server_ends_its_streams(http: HttpApi) -> None:
    async with http.events() as events:
        http.api.server.context.events.close()
        assert await events.ended()


async def test_a_client_that_leaves_leaves_nothing_behind(http: HttpApi) -> None:
    for _ in range(5):
        async with http.events():
            assert http.api.server.context.events.count == 1
        await until(lambda: http.api.server.context.events.count == 0)


async def test_runs_that_began_before_the_listener_came_are_named(http: HttpApi) -> None:
    worker = await worker_of(http)
    job = await http.api.create(name="long", tags=["night"], schedule={"type": "interval", "expression": "1h"})
    await http.api("POST", f"/v1/jobs/{job['jobId']}/run")
    assigned = await worker.take()
    once = await http.api.create(name="once", tags=["night"])
    single = await worker.take((assigned["token"],))
    async with http.events("?tag=night") as events, http.events(key=OTHER) as others:
        step = {"runId": assigned["runId"], "token": assigned["token"], "fraction": 0.5, "note": "half"}
        await worker.report(progress=[step])
        progress = await events.until("timeball.run.progress")
        assert (progress.data["runId"], progress.data["jobName"]) == (assigned["runId"], "long")
        assert (progress.data["progress"], progress.data["note"]) == (0.5, "half")
        await worker.succeed(single)
        ended = await events.until("timeball.run.succeeded")
        assert (ended.data["jobId"], ended.data["jobName"], ended.data["tags"]) == (once["jobId"], "once", ["night"])
        await worker.succeed(assigned)
        ended = await events.until("timeball.run.succeeded")
        assert (ended.data["runId"], ended.data["jobName"]) == (assigned["runId"], "long")
        answer = await http.api(
            "POST", "/v1/jobs", OTHER, json={"name": "theirs", "task": {"kind": "shell", "command": "true"}}
        )
        assert answer.status_code == 201
        assert (await others.next()).data["name"] == "theirs", "nothing of the others before it"


async def test_what_people_do_with_jobs_and_runs_is_told(http: HttpApi) -> None:
    worker = await worker_of(http)
    async with http.events() as events:
        job = (await http.api.create(name="j", schedule={"type": "interval", "expression": "1h"}))["jobId"]
        await http.api("PATCH", f"/v1/jobs/{job}", json={"description": "new"})
        await http.api("POST", f"/v1/jobs/{job}/pause")
        await http.api("POST", f"/v1/jobs/{job}/resume")
        for kind in ("created", "updated", "paused", "resumed"):
            assert (await events.until(f"timeball.job.{kind}")).data == {"jobId": job, "name": "j"}
        await http.api("POST", f"/v1/jobs/{job}/run")
        first = await worker.take()
        await http.api("POST", f"/v1/jobs/{job}/run")
        blocked = await events.until("timeball.run.queued", lambda data: data["status"] == "blocked")
        await worker.succeed(first)
        await events.until("timeball.run.succeeded")
        second = await worker.take()
        assert second["runId"] == blocked.data["runId"]
        await worker.succeed(second)
        once = await http.api.create(name="once", retry={"maxRetries": 0})
        await worker.fail(await worker.take())
        dead = await events.until("timeball.run.dead")
        assert dead.data["jobId"] == once["jobId"]
        retried = (await http.api("POST", f"/v1/runs/{dead.data['runId']}/retry")).json()
        again = await events.until("timeball.run.queued", lambda data: data["jobId"] == once["jobId"])
        assert again.data["runId"] == retried["runId"]
        await http.api("POST", f"/v1/runs/{again.data['runId']}/cancel")
        assert (await events.until("timeball.run.cancelled")).data["runId"] == again.data["runId"]
        await http.api("DELETE", f"/v1/jobs/{job}")
        assert (await events.until("timeball.job.cancelled")).data["jobId"] == job
        await worker.send("goodbye", {"session": worker.session}, status=204)
        assert (await events.until("timeball.worker.left")).data["workerId"] == worker.session
