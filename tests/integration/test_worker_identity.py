"""I31, I8, I6: a message of a worker has an effect only on the session that its own key opened."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import ADMIN, WORKER, Api, FakeWorker, serving
from tests.support.migrated import empty_postgres, sqlite_store
from timeball import system
from timeball.object_stores.bucket import Bucket, open_objects
from timeball.ports.store.registry import Key
from timeball.ports.store.store import Store
from timeball.ports.worker_protocol import RegisterWorker
from timeball.stores.postgres.store import PostgresStore

STRANGER = "key-of-another-worker-0123456789abcdef00"
SUCCEEDED = {"type": "succeeded"}


class Scene:
    """A worker that holds a run, and another that has a key and a session of its own."""

    def __init__(self, api: Api, objects: Bucket) -> None:
        self.api = api
        self.objects = objects
        self.worker = FakeWorker(api)
        self.stranger = FakeWorker(api, STRANGER)
        self.assigned: dict[str, Any] = {}

    @property
    def store(self) -> Store:
        return self.api.server.context.store

    async def begin(self) -> None:
        key_id = f"k_{'5' * 28}"
        digest = hashlib.sha256(STRANGER.encode()).hexdigest()
        await self.store.add_key(
            Key(id=key_id, tenant="default", name="s", role="worker", digest=digest, created_at=self.store.now())
        )
        await self.stranger.hello()
        await self.worker.hello()
        await self.api.create(retry={"maxRetries": 0})
        self.assigned = await self.worker.take()

    def ended(self, outcome: Any) -> dict[str, Any]:
        same = {name: self.assigned[name] for name in ("runId", "jobId", "attempt", "token", "serial")}
        return {**same, "outcome": outcome, "age": 2_000, "took": 1_000}

    def said(self, **more: Any) -> dict[str, Any]:
        return {"runId": self.assigned["runId"], "token": self.assigned["token"], **more}

    async def lease(self) -> int:
        """Until when the rightful worker has one."""
        (found,) = [each for each in await self.store.workers() if each.session == self.worker.session]
        return found.lease_until

    async def still_its(self) -> None:
        """The rightful worker has its run, nobody wrote anything about it, and it goes on."""
        run_id, token = self.assigned["runId"], self.assigned["token"]
        assert list(await self.store.holding(self.worker.session)) == [token]
        run = (await self.store.runs([run_id]))[run_id]
        assert (run.status, run.progress, run.attempt_started_at) == ("running", None, None)
        assert await self.store.logs(run_id, None, -1, 10) == []
        assert await self.worker.send("beat", {"session": self.worker.session, "held": [token]}) == {}
        await self.worker.write(self.assigned, "hello")
        await self.worker.succeed(self.assigned)
        assert (await self.store.runs([run_id]))[run_id].status == "succeeded"


@pytest.fixture(params=["sqlite", "postgres"])
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    store: Store
    if request.param == "sqlite":
        store = sqlite_store(tmp_path / "timeball.db")
    else:
        dsn = request.getfixturevalue("migrated_dsn")
        await empty_postgres(dsn)
        store = PostgresStore(dsn, monotonic=system.monotonic, min_connections=1)
    objects = open_objects(str(tmp_path / "objects"))
    async with serving(store, objects=objects) as api:
        scene = Scene(api, objects)
        await scene.begin()
        yield scene


def message(scene: Scene, name: str, session: str) -> tuple[str, dict[str, Any]]:
    token = scene.assigned["token"]
    return {
        "poll": ("poll", {"session": session, "seq": 99, "free": 1, "held": [], "wait": 0}),
        "beat": ("beat", {"session": session, "held": [token]}),
        "goodbye": ("goodbye", {"session": session}),
        "settle": ("report", {"session": session, "pollSeq": 1, "free": 1, "ended": [scene.ended(SUCCEEDED)]}),
        "log": (
            "report",
            {
                "session": session,
                "pollSeq": 1,
                "free": 1,
                "logs": [scene.said(attempt=1, seq=0, stream="stdout", text="forged")],
            },
        ),
        "progress": ("report", {"session": session, "pollSeq": 1, "free": 1, "progress": [scene.said(fraction=0.5)]}),
        "start": ("report", {"session": session, "pollSeq": 1, "free": 1, "started": [scene.said(age=1)]}),
        "free slots": ("report", {"session": session, "pollSeq": 1, "free": 1}),
    }[name]


MESSAGES = ("poll", "beat", "goodbye", "settle", "log", "progress", "start", "free slots")


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("key", [STRANGER, ADMIN], ids=["another worker's key", "the admin's key"])
async def test_a_message_with_another_key_is_refused_and_changes_nothing(scene: Scene, name: str, key: str) -> None:
    lease = await scene.lease()
    path, body = message(scene, name, scene.worker.session)
    answer = await scene.api("POST", f"/v1/worker/{path}", key, json=body)
    unknown = await scene.api("POST", f"/v1/worker/{path}", key, json={**body, "session": f"w_{'0' * 28}"})
    assert answer.status_code == 409, answer.text
    assert answer.json()["code"] == "session_lost"
    assert answer.content == unknown.content, "it tells nothing of the session"
    assert await scene.lease() == lease
    await scene.still_its()


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("restarted", [False, True], ids=["known", "after a restart"])
async def test_no_key_speaks_for_the_worker_inside_a_server(scene: Scene, name: str, restarted: bool) -> None:
    gateway = scene.api.server.gateway
    session = (await gateway.hello(RegisterWorker(name="inside", slots=1))).session
    if restarted:
        gateway._sessions.clear()
    path, body = message(scene, name, session)
    answer = await scene.api("POST", f"/v1/worker/{path}", STRANGER, json=body)
    assert answer.status_code == 409, answer.text
    assert answer.json()["code"] == "session_lost"
    assert session in {each.session for each in await scene.store.workers()}


@pytest.mark.parametrize("name", MESSAGES)
async def test_a_server_that_does_not_know_a_session_asks_the_store_for_its_key(scene: Scene, name: str) -> None:
    scene.api.server.gateway._sessions.clear()
    lease = await scene.lease()
    path, body = message(scene, name, scene.worker.session)
    assert (await scene.api("POST", f"/v1/worker/{path}", STRANGER, json=body)).status_code == 409
    assert await scene.lease() == lease
    await scene.still_its()


async def test_a_report_of_what_another_session_holds_is_stale(scene: Scene) -> None:
    token = scene.assigned["token"]
    for name in ("settle", "log"):
        _, body = message(scene, name, scene.stranger.session)
        assert await scene.stranger.send("report", body) == {"stale": [token]}
    failed = {"type": "failed", "failure": {"kind": "exit", "message": "forged"}}
    body = {"session": scene.stranger.session, "pollSeq": 1, "free": 1, "ended": [scene.ended(failed)]}
    assert await scene.stranger.send("report", body) == {"stale": [token]}
    await scene.still_its()


async def test_nobody_gives_back_the_runs_of_workflows(scene: Scene) -> None:
    for path, body in (message(scene, "goodbye", "weaver"), message(scene, "poll", "weaver")):
        answer = await scene.api("POST", f"/v1/worker/{path}", STRANGER, json=body)
        assert answer.status_code in (409, 422)


async def test_a_forged_or_stale_report_writes_no_object(scene: Scene) -> None:
    large = {"type": "succeeded", "result": "x" * 400_000}
    body = {"session": scene.stranger.session, "pollSeq": 1, "free": 1, "ended": [scene.ended(large)]}
    await scene.stranger.send("report", body)
    of_another_attempt = {**scene.ended(large), "attempt": 7}
    await scene.worker.report(ended=[of_another_attempt])
    assert await scene.objects.list("results/") == []
    await scene.worker.report(ended=[scene.ended(large)])
    assert len(await scene.objects.list("results/")) == 1
    await scene.worker.report(ended=[scene.ended(large)])
    assert len(await scene.objects.list("results/")) == 1


async def test_forged_output_moves_nobodys_output_to_objects(scene: Scene) -> None:
    await scene.worker.write(scene.assigned, *["y" * 60_000] * 5)
    forged = [scene.said(attempt=1, seq=seq, stream="stdout", text="z" * 60_000) for seq in range(9)]
    body = {"session": scene.stranger.session, "pollSeq": 1, "free": 1, "logs": forged}
    await scene.stranger.send("report", {**body, "ended": [scene.ended(SUCCEEDED)]})
    for task in list(scene.api.server.gateway._background.running):
        await task
    assert await scene.objects.list("logs/") == []


async def test_a_revoked_key_gets_nothing_more_and_keeps_its_lease_no_longer_than_it_lasts(scene: Scene) -> None:
    key_id = f"k_{hashlib.sha256(WORKER.encode()).hexdigest()[:28]}"
    assert (await scene.api("DELETE", f"/v1/api-keys/{key_id}")).status_code == 204
    body = {"session": scene.worker.session, "held": []}
    assert (await scene.api("POST", "/v1/worker/beat", WORKER, json=body)).status_code == 401
    assert await scene.store.lapsed(10) == [], "until its lease is over it may still execute what it holds"
    assert scene.worker.session not in {each.session for each in await scene.store.workers()}
    await scene.api.create()
    again = await scene.stranger.take()
    assert again["runId"] != scene.assigned["runId"]
