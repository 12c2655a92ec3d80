"""I28: messages of a worker are bounded in length and number, and a real worker keeps to these bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import WORKER, Api, running_api

RUN, JOB = f"r_{'0' * 28}", f"j_{'0' * 28}"
NUL = "\0"
HELLO = {"name": "w", "slots": 1}
STARTED = {"runId": RUN, "token": 1, "age": 1}
PROGRESS = {"runId": RUN, "token": 1, "fraction": 0.5}
CHUNK = {"runId": RUN, "attempt": 1, "token": 1, "seq": 0, "stream": "stdout", "text": "x"}
PAUSING = {"runId": RUN, "token": 1, "number": 1, "what": "paused", "age": 1}
ENDED = {"runId": RUN, "jobId": JOB, "attempt": 1, "token": 1, "serial": False, "outcome": {"type": "succeeded"}}
FAILURE = {"kind": "exit", "message": "m"}


def failed(**fields: Any) -> dict[str, Any]:
    return {**ENDED, "outcome": {"type": "failed", "failure": {**FAILURE, **fields}}}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as api:
        yield api


async def session(api: Api) -> str:
    answer = await api("POST", "/v1/worker/hello", WORKER, json=HELLO)
    found: str = answer.json()["session"]
    return found


async def refused(api: Api, path: str, body: dict[str, Any]) -> str:
    """Where the answer says that the mistake is."""
    answer = await api("POST", f"/v1/worker/{path}", WORKER, json=body)
    assert answer.status_code == 422, answer.text[:200]
    assert len(answer.content) < 2_000, "an answer does not repeat what was too long"
    pointer: str = answer.json()["errors"][0]["pointer"]
    return pointer


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"name": "n" * 3_000_000}, "/name"),
        ({"name": ""}, "/name"),
        ({"labels": ["l"] * 200_000}, "/labels"),
        ({"labels": ["l" * 5_000]}, "/labels/0"),
        ({"labels": ["gpu", "a b"]}, "/labels/1"),
        ({"tasks": ["t"] * 200_000}, "/tasks"),
        ({"tasks": ["t" * 5_000]}, "/tasks/0"),
        ({"version": "v" * 5_000}, "/version"),
    ],
    ids=lambda each: str(each)[:30],
)
async def test_a_hello_is_bounded(api: Api, fields: dict[str, Any], pointer: str) -> None:
    assert await refused(api, "hello", {**HELLO, **fields}) == pointer
    assert await api.server.context.store.workers() == []


@pytest.mark.parametrize(
    ("path", "fields", "pointer"),
    [
        ("poll", {"seq": 1, "free": 1, "wait": 0, "held": [1] * 300_000}, "/held"),
        ("poll", {"seq": (1 << 63) - 1, "free": 1, "wait": 0, "held": []}, "/seq"),
        ("poll", {"seq": -1, "free": 1, "wait": 0, "held": []}, "/seq"),
        ("beat", {"held": [1] * 300_000}, "/held"),
    ],
    ids=["held by a poll", "number of a poll", "negative", "held by a beat"],
)
async def test_polls_and_beats_are_bounded(api: Api, path: str, fields: dict[str, Any], pointer: str) -> None:
    assert await refused(api, path, {"session": await session(api), **fields}) == pointer


@pytest.mark.parametrize("path", ["poll", "beat", "report", "goodbye"])
async def test_a_session_is_named_by_what_looks_like_one(api: Api, path: str) -> None:
    body = {"seq": 1, "pollSeq": 1, "free": 1, "wait": 0, "held": []}
    assert await refused(api, path, {**body, "session": "w" * 100_000}) == "/session"


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"started": [{**STARTED, "runId": "r_1"}]}, "/started/0/runId"),
        ({"started": [STARTED] * 20_000}, "/started"),
        ({"progress": [{**PROGRESS, "runId": JOB}]}, "/progress/0/runId"),
        ({"progress": [{**PROGRESS, "note": "n" * 5_000}]}, "/progress/0/note"),
        ({"progress": [PROGRESS] * 20_000}, "/progress"),
        ({"pausing": [{**PAUSING, "runId": "x" * 30}]}, "/pausing/0/runId"),
        ({"pausing": [PAUSING] * 20_000}, "/pausing"),
        ({"logs": [CHUNK, {**CHUNK, "runId": f"{RUN}\n"}]}, "/logs/1/runId"),
        ({"logs": [{**CHUNK, "text": "x" * 70_000}]}, "/logs/0/text"),
        ({"logs": [{**CHUNK, "stream": "s" * 5_000}]}, "/logs/0/stream"),
        ({"logs": [CHUNK] * 25_000}, "/logs"),
        ({"ended": [{**ENDED, "runId": f"{RUN}\n{RUN}"}]}, "/ended/0/runId"),
        ({"ended": [ENDED, {**ENDED, "runId": ""}, {**ENDED, "runId": f"{RUN}\n{RUN}"}]}, "/ended/1/runId"),
        ({"ended": [{**ENDED, "jobId": "j_" + "g" * 28}]}, "/ended/0/jobId"),
        ({"ended": [{**ENDED, "host": "h" * 5_000}]}, "/ended/0/host"),
        ({"ended": [{**ENDED, "turn": ["default", "k" * 5_000]}]}, "/ended/0/turn/1"),
        ({"ended": [ENDED] * 20_000}, "/ended"),
        ({"ended": [failed(message="m" * 20_000)]}, "/ended/0/outcome/failure/message"),
        ({"ended": [failed(kind="k" * 5_000)]}, "/ended/0/outcome/failure/kind"),
        ({"ended": [failed(exceptions=["E"] * 5_000)]}, "/ended/0/outcome/failure/exceptions"),
        ({"ended": [failed(exceptions=["E" * 5_000])]}, "/ended/0/outcome/failure/exceptions/0"),
        ({"ended": [failed(retryAfter=-1)]}, "/ended/0/outcome/failure/retryAfter"),
        (
            {"ended": [{**ENDED, "outcome": {"type": "succeeded", "result": "x" * 2_000_000}}]},
            "/ended/0/outcome/result",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_a_report_is_bounded(api: Api, fields: dict[str, Any], pointer: str) -> None:
    body = {"session": await session(api), "pollSeq": 1, "free": 1, **fields}
    assert await refused(api, "report", body) == pointer
