"""The addresses that HTTP jobs of a tenant may call, from the limits of the tenant to the connection of a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.api import ADMIN, Api, FakeWorker, running_api
from tests.support.raw_target import RawRequest, listening, response
from timeball import system
from timeball.executors.http.executor import HttpExecutor
from timeball.ports.worker_protocol import RegisterWorker
from timeball.worker.worker import Worker


class Scene:
    def __init__(self, api: Api, key: str, url: str, paths: list[str]) -> None:
        self.api = api
        self.keys = {"acme": key, "default": ADMIN}
        self.url = url
        self.paths = paths
        """The paths of the requests that the target got."""

    async def limit(self, tenant: str, status: int = 200, **limits: Any) -> Any:
        answer = await self.api("PATCH", f"/v1/tenants/{tenant}", json={"limits": limits})
        assert answer.status_code == status, answer.text
        return answer.json()

    async def submit(self, tenant: str) -> str:
        job = {"task": {"kind": "http", "url": f"{self.url}{tenant}", "method": "GET"}}
        answer = await self.api("POST", "/v1/jobs", self.keys[tenant], json=job)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["jobId"])

    async def run(self, tenant: str) -> Any:
        """Return the run of a new job, when it has ended."""
        job_id = await self.submit(tenant)
        async with asyncio.timeout(20):
            while True:
                listed = await self.api("GET", f"/v1/runs?jobId={job_id}", self.keys[tenant])
                for run in listed.json()["items"]:
                    if run["status"] in ("succeeded", "failed", "dead"):
                        return (await self.api("GET", f"/v1/runs/{run['runId']}", self.keys[tenant])).json()
                await asyncio.sleep(0.01)


@pytest_asyncio.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    paths: list[str] = []

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        paths.append(request.path)
        writer.write(response(b""))

    async with running_api(tmp_path) as api, listening(respond) as url:
        await api("POST", "/v1/tenants", json={"tenantId": "acme"})
        created = await api("POST", "/v1/tenants/acme/api-keys", json={"role": "admin", "name": "a"})
        yield Scene(api, created.json()["key"], url, paths)


@pytest_asyncio.fixture
async def worker(scene: Scene) -> AsyncIterator[Worker]:
    executor = HttpExecutor()
    hello = RegisterWorker(name="w", slots=10)
    worker = Worker(scene.api.server.gateway, {"http": executor}, system.SystemClock(), hello, rng=system.rng())
    await worker.start()
    yield worker
    await worker.stop()
    await executor.close()


@pytest.mark.usefixtures("worker")
async def test_a_tenant_calls_its_allowed_addresses_only_and_the_default_tenant_all(scene: Scene) -> None:
    refused = await scene.run("acme")
    message = f"GET {scene.url}acme: the address 127.0.0.1 is refused: loopback (127.0.0.0/8)"
    assert (refused["status"], refused["attempt"]) == ("failed", 1)
    assert refused["error"]["message"] == message
    why = (await scene.api("GET", f"/v1/runs/{refused['runId']}/why", scene.keys["acme"])).json()
    assert why["reasons"][0]["text"] == f"The run failed, and a retry would not help: {message}."
    assert (await scene.run("default"))["status"] == "succeeded"
    assert scene.paths == ["/default"]

    await scene.limit("acme", allowAddresses=["127.0.0.0/8"])
    assert (await scene.run("acme"))["status"] == "succeeded"
    await scene.limit("acme", allowAddresses=["127.0.0.0/8"], denyAddresses=["127.0.0.1"])
    assert "the deny list of the tenant (127.0.0.1)" in (await scene.run("acme"))["error"]["message"]
    await scene.limit("default", denyAddresses=["127.0.0.0/8"])
    assert (await scene.run("default"))["error"]["message"].endswith("the deny list of the tenant (127.0.0.0/8)")
    await scene.limit("acme")
    await scene.limit("default")
    assert (await scene.run("acme"))["status"] == "failed"
    assert (await scene.run("default"))["status"] == "succeeded"
    assert scene.paths == ["/default", "/acme", "/default"]


async def test_an_answer_to_a_worker_has_the_lists_of_its_tenants_only(scene: Scene) -> None:
    worker = FakeWorker(scene.api)
    await worker.hello()

    async def assigned(tenant: str) -> Any:
        await scene.submit(tenant)
        while True:
            worker._seq += 1
            poll = {"session": worker.session, "seq": worker._seq, "free": 1, "held": [], "wait": 5_000_000}
            answer = await worker.send("poll", poll)
            if answer.get("assignments"):
                return answer

    assert "addresses" not in await assigned("default")
    await scene.limit("acme", denyAddresses=["1.0.0.0/8"])
    assert "addresses" not in await assigned("default")
    await scene.limit("default", allowAddresses=["10.0.0.0/8"], denyAddresses=["1.1.1.1"])
    assert (await assigned("default"))["addresses"] == {"default": {"allow": ["10.0.0.0/8"], "deny": ["1.1.1.1"]}}


async def test_a_range_that_cannot_be_read_is_refused(scene: Scene) -> None:
    wrong = await scene.limit("acme", 422, allowAddresses=["10.0.0.0/8", "10.0.0.1/8"])
    assert wrong["errors"][0]["pointer"] == "/limits/allowAddresses/1"
    assert "10.0.0.1/8 has host bits set" in wrong["errors"][0]["detail"]
    assert (await scene.limit("acme", 422, denyAddresses=["1.1.1.1"] * 101))["code"] == "invalid"
