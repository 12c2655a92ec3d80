"""Requests that follow a log and wait for output do not slow down other runs: I4, I28."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Api, FakeWorker, running_api
from timeball.operation import run_events

FOLLOWERS = 20
OTHERS = 30


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as api:
        yield api


class Reads:
    """Counts the reads of runs and of output."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("runs", "logs"):
            monkeypatch.setattr(api.server.context.store, name, self._counted(name, api))

    def _counted(self, name: str, api: Api) -> Any:
        original = getattr(api.server.context.store, name)

        async def counted(*arguments: Any, **more: Any) -> Any:
            self.count += 1
            return await original(*arguments, **more)

        return counted


async def test_a_follower_that_waits_reads_nothing_when_other_runs_end(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = FakeWorker(api)
    await worker.hello()
    await api.create()
    assigned = await worker.take()
    path = f"/v1/runs/{assigned['runId']}/logs?follow=1"
    followers = [asyncio.create_task(api("GET", path)) for _ in range(FOLLOWERS)]
    await asyncio.sleep(1)  # each has begun to wait
    reads = Reads(api, monkeypatch)
    for _ in range(OTHERS):
        await api.create()
        await worker.succeed(await worker.take((assigned["token"],)))
    assert reads.count <= FOLLOWERS, "at most one look each, for one poll that all of them share"
    await worker.write(assigned, "one\n", "two\n")
    await worker.succeed(assigned)
    assert [answer.text for answer in await asyncio.gather(*followers)] == ["one\ntwo\n"] * FOLLOWERS


async def test_a_follower_sees_what_another_server_wrote(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reports of a run may go to another server: one read for all followed runs notices it."""
    worker = FakeWorker(api)
    await worker.hello()
    await api.create()
    assigned = await worker.take()
    following = asyncio.create_task(api("GET", f"/v1/runs/{assigned['runId']}/logs?follow=1"))
    await until_followed(api, 1)
    for unaware in (api.server.gateway, api.server.gateway._settle):
        monkeypatch.setattr(unaware, "_run_events", run_events.RunEvents())
    await worker.write(assigned, "one\n")
    await worker.succeed(assigned)
    async with asyncio.timeout(60):
        assert (await following).text == "one\n"


async def test_followers_are_bounded_per_key_and_per_server(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """I28: refused before the answer begins; another key, and room that was given back, are welcome."""
    worker = FakeWorker(api)
    await worker.hello()
    await api.create()
    assigned = await worker.take()
    path = f"/v1/runs/{assigned['runId']}/logs?follow=1"
    monkeypatch.setattr(run_events, "MAX_FOLLOWERS_PER_KEY", 2)
    following = [asyncio.create_task(api("GET", path)) for _ in range(2)]
    await until_followed(api, 2)
    refused = await api("GET", path)
    assert refused.status_code == 429
    assert "follows 2 logs" in refused.json()["detail"]
    monkeypatch.setattr(run_events, "MAX_FOLLOWERS_PER_KEY", 10)
    monkeypatch.setattr(run_events, "MAX_FOLLOWERS", 2)
    assert (await api("GET", path)).status_code == 503
    following[0].cancel()
    await asyncio.wait(following[:1])
    await until_followed(api, 1)
    following[0] = asyncio.create_task(api("GET", path))
    await until_followed(api, 2)
    await worker.succeed(assigned)
    assert [answer.status_code for answer in await asyncio.gather(*following)] == [200, 200]
    assert api.server.context.run_events.run_ids == []
    assert (await api("GET", path)).status_code == 200, "nothing waits for a run that has ended"


async def until_followed(api: Api, count: int) -> None:
    async with asyncio.timeout(60):
        while api.server.context.run_events.count != count:
            await asyncio.sleep(0.005)
