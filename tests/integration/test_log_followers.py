"""Followers of a log that wait cost the runs of others nothing: I4, I28."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Api, FakeWorker, running_api

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


@pytest.mark.xfail(strict=True, reason="item 10: idle followers of logs read the store at every end of any run")
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
