"""The work to accept jobs, counted: many requests at the same time share one commit and one wakeup."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.support.api import Api, running_api
from timeball.jobspec import job_reader, json_input
from timeball.ports.store.jobs import Submission, Submitted
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.wakeups import Topic

JOB = {"task": {"kind": "python", "function": "noop"}}
CLIENTS = 64


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as api:
        yield api


class Watched:
    """Counts what is asked of the store and of those who wait; commits can be held back."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        context = api.server.context
        self._submit = context.store.submit_and_claim
        self._give = context.wakeups.wake
        self.commits: list[int] = []
        self.wakeups: Counter[Topic] = Counter()
        self.open = asyncio.Event()
        self.open.set()
        monkeypatch.setattr(context.store, "submit_and_claim", self.submit)
        monkeypatch.setattr(context.wakeups, "wake", self.wake)

    async def submit(
        self, submissions: Sequence[Submission], wants: Sequence[SlotRequest]
    ) -> tuple[list[Submitted], list[Claim]]:
        self.commits.append(len(submissions))
        await self.open.wait()
        return await self._submit(submissions, wants)

    def wake(self, topic: Topic) -> None:
        self.wakeups[topic] += 1
        self._give(topic)


async def test_a_batch_of_a_thousand_is_one_commit_and_one_hint(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(api, monkeypatch)
    answer = await api("POST", "/v1/jobs:batch", json=[JOB] * 1_000)
    assert answer.status_code == 200
    assert watched.commits == [1_000]
    assert (watched.wakeups[Topic.READY], watched.wakeups[Topic.PLAN]) == (1, 0)


@pytest.mark.parametrize("lines", [False, True])
async def test_a_batch_in_the_canonical_shape_is_decoded_as_a_whole(
    api: Api, monkeypatch: pytest.MonkeyPatch, lines: bool
) -> None:
    monkeypatch.delattr(job_reader, "read_job")
    for jobs in ([JOB] * 3, [{**JOB, "idempotencyKey": key} for key in ("a", "b", "a")]):
        texts = [json.dumps(job) for job in jobs]
        answer = await api("POST", "/v1/jobs:batch", content="\n".join(texts) if lines else f"[{','.join(texts)}]")
        assert answer.status_code == 200
        created = [item["jobId"] for item in answer.json()["items"]]
        assert len(set(created)) == len({job.get("idempotencyKey", at) for at, job in enumerate(jobs)})


async def test_a_job_in_the_canonical_shape_is_decoded_at_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(json_input, "parse")
    for job in (JOB, {**JOB, "idempotencyKey": "a"}, {**JOB, "idempotencyKey": "a"}):
        assert (await api("POST", "/v1/jobs", json=job)).status_code == 201


async def test_who_comes_during_a_commit_shares_the_next_one(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(api, monkeypatch)
    watched.open.clear()
    posts = [asyncio.create_task(api("POST", "/v1/jobs", json=JOB)) for _ in range(CLIENTS)]
    _, early = await asyncio.wait(posts, timeout=0.5)
    assert len(early) == CLIENTS, "nobody is answered before the commit"
    watched.open.set()
    assert [answer.status_code for answer in await asyncio.gather(*posts)] == [201] * CLIENTS
    assert sum(watched.commits) == CLIENTS
    assert len(watched.commits) <= CLIENTS // 8
    assert watched.wakeups[Topic.READY] == len(watched.commits)
