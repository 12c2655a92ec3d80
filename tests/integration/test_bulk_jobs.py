"""Bulk actions on jobs over the API, on both stores."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import OTHER, Api, serving
from tests.support.migrated import empty_postgres, sqlite_store
from timeball import system
from timeball.operation.jobs import bulk
from timeball.ports.store.jobs import Amendment
from timeball.ports.store.store import Store
from timeball.stores.postgres.store import PostgresStore

TASK = {"kind": "shell", "command": "true"}
HOURLY = {"type": "cron", "expression": "0 * * * *"}
LATER = {"type": "date", "expression": "2199-01-01T00:00:00Z"}


@pytest.fixture(params=["sqlite", "postgres"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    async with AsyncExitStack() as stack:
        if request.param == "sqlite":
            store: Store = sqlite_store(tmp_path / "timeball.db")
        else:
            dsn = request.getfixturevalue("migrated_dsn")
            await empty_postgres(dsn)
            store = PostgresStore(dsn, monotonic=system.monotonic, min_connections=1)
        yield await stack.enter_async_context(serving(store))


async def create(api: Api, count: int, **fields: Any) -> list[str]:
    jobs = [{"task": TASK, "schedule": HOURLY, "name": f"job {number}", **fields} for number in range(count)]
    answer = await api("POST", "/v1/jobs:batch", json=jobs)
    return [item["jobId"] for item in answer.json()["items"]]


async def act(api: Api, action: str, status: int = 200, **body: Any) -> Any:
    answer = await api("POST", "/v1/jobs:bulk", json={"action": action, **body})
    assert answer.status_code == status, answer.text
    return answer.json()


async def in_pages(api: Api, action: str, **body: Any) -> list[Any]:
    """The answers of all requests, each after the cursor of the last."""
    answers = [await act(api, action, **body)]
    while (cursor := answers[-1]["nextCursor"]) is not None:
        answers.append(await act(api, action, **body, cursor=cursor))
    return answers


async def listed(api: Api, **query: str) -> list[dict[str, Any]]:
    page = await api.get("/v1/jobs", params={"limit": "1000", **query})
    assert page["nextCursor"] is None
    items: list[dict[str, Any]] = page["items"]
    return items


async def runs_of(api: Api, job_id: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await api.get(f"/v1/jobs/{job_id}/runs"))["items"]
    return [run for run in items if run["origin"] == "manual"]


async def test_a_filter_selects_the_jobs_that_a_list_shows(api: Api) -> None:
    await create(api, 2, tags=["etl"], userId="ann")
    await create(api, 3, name="Report of the day", schedule={"type": "interval", "expression": "2h"})
    await create(api, 1, task={"kind": "http", "url": "https://example.org"}, tags=["etl"])
    filters: list[dict[str, Any]] = [
        {"tag": "etl"},
        {"userId": "ann"},
        {"name": "job 1"},
        {"q": "report"},
        {"kind": "http"},
        {"scheduleType": "interval"},
        {"tag": "etl", "kind": "shell"},
        {"status": "scheduled"},
        {"status": ["scheduled", "paused"]},
        {"tag": "unknown"},
    ]
    for where in filters:
        query = {name: value if isinstance(value, str) else ",".join(value) for name, value in where.items()}
        shown = {job["jobId"] for job in await listed(api, **query)}
        counted = await act(api, "pause", filter=where, dryRun=True)
        paused = await act(api, "pause", filter=where, reason="a test")
        assert counted["matched"] == paused["matched"] == paused["changed"] == len(shown), where
        assert {job["jobId"] for job in await listed(api, status="paused")} == shown, where
        resumed = await act(api, "resume", filter={"all": True})
        assert resumed["changed"] == len(shown)
    assert (await act(api, "cancel", filter={"all": True}, dryRun=True))["matched"] == 6


async def test_many_jobs_are_processed_in_several_requests_and_none_twice(api: Api) -> None:
    ids = await create(api, 250, tags=["many"])
    counted = await act(api, "pause", filter={"tag": "many"}, dryRun=True)
    answers = await in_pages(api, "pause", filter={"tag": "many"}, reason="moving", limit=120)
    assert [answer["matched"] for answer in answers] == [120, 120, 10]
    assert sum(answer["changed"] for answer in answers) == counted["matched"] == 250
    paused = await listed(api, status="paused")
    assert {job["jobId"] for job in paused} == set(ids)
    assert {(job["pauseReason"], job["version"]) for job in paused} == {("moving", 2)}


async def test_a_request_ends_after_a_while_and_its_cursor_continues(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "MAX_WORK", 0)
    monkeypatch.setattr(bulk, "STEP", 7)
    await create(api, 20)
    answers = await in_pages(api, "cancel", filter={"all": True})
    assert [answer["matched"] for answer in answers] == [7, 7, 6]
    assert len(await listed(api, status="cancelled")) == 20


async def test_jobs_that_are_created_meanwhile_are_not_changed(api: Api) -> None:
    await create(api, 5)
    first = await act(api, "pause", filter={"all": True}, limit=2)
    await create(api, 5)
    where = {"all": True, "createdBefore": first["createdBefore"]}
    await asyncio.sleep(1.1)  # the answer reaches one second ahead
    [late] = await create(api, 1)
    rest = await in_pages(api, "pause", filter=where, cursor=first["nextCursor"])
    assert sum(answer["changed"] for answer in rest) == 3
    assert (await act(api, "pause", filter=where, dryRun=True))["matched"] == 5
    assert (await api.get(f"/v1/jobs/{late}"))["status"] == "scheduled"


async def test_a_job_that_refuses_does_not_stop_the_others(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that another request cancels between the count and the change, and jobs whose overlap policy skips."""
    ids = await create(api, 5, overlap="skip", schedule=LATER)
    await act(api, "run", filter={"name": "job 2"})
    answer = await act(api, "run", filter={"status": "scheduled"})
    assert (answer["matched"], answer["changed"], answer["skipped"]) == (5, 4, 1)
    [failed] = answer["failed"]
    assert failed["jobId"] == ids[2]
    assert "overlap" in failed["error"]["detail"]

    store = api.server.context.store
    match_jobs = store.match_jobs

    async def match_and_cancel(*options: Any) -> Any:
        page = await match_jobs(*options)
        await api("DELETE", f"/v1/jobs/{ids[1]}")
        return page

    monkeypatch.setattr(store, "match_jobs", match_and_cancel)
    answer = await act(api, "pause", filter={"q": "job"})
    assert (answer["matched"], answer["changed"]) == (5, 4)
    assert [(each["jobId"], each["error"]["status"]) for each in answer["failed"]] == [(ids[1], 409)]
    assert len(await listed(api, status="paused")) == 4


async def test_jobs_of_another_tenant_are_neither_counted_nor_changed(api: Api) -> None:
    [job_id] = await create(api, 1, tags=["shared"])
    for action in ("pause", "run", "cancel"):
        for where in ({"tag": "shared"}, {"all": True}, {"q": job_id}):
            for extra in ({"dryRun": True}, {"cursor": "j_" + "f" * 28}, {}):
                body = {"action": action, "filter": where, **extra}
                answer = await api("POST", "/v1/jobs:bulk", key=OTHER, json=body)
                assert answer.json()["matched"] == 0
    found = await api.get(f"/v1/jobs/{job_id}")
    assert (found["status"], found["version"]) == ("scheduled", 1)
    assert await runs_of(api, job_id) == []


async def test_a_request_that_is_repeated_after_a_lost_answer_does_no_harm(api: Api) -> None:
    ids = await create(api, 3, schedule=LATER, overlap="allow")
    counted = await act(api, "run", filter={"all": True}, dryRun=True)
    where = {"all": True, "createdBefore": counted["createdBefore"]}
    for _ in range(3):
        answer = await act(api, "run", filter=where)
        assert answer["changed"] == 3
    for job_id in ids:
        assert len(await runs_of(api, job_id)) == 1
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert (await act(api, "pause", filter=where, reason="why", until=until))["changed"] == 3
    again = await act(api, "pause", filter={"status": "paused"}, reason="why", until=until)
    assert again["changed"] == 3
    assert {job["version"] for job in await listed(api)} == {2}
    assert (await act(api, "cancel", filter=where))["changed"] == 3
    assert (await act(api, "cancel", filter=where))["matched"] == 0
    for job_id in ids:
        assert [run["status"] for run in await runs_of(api, job_id)] == ["cancelled"]


async def test_jobs_with_many_runs_are_changed_too(api: Api) -> None:
    """More live runs than a common transaction reads."""
    [busy, idle] = await create(api, 2, schedule=LATER, overlap="queue")
    for _ in range(15):
        await api("POST", f"/v1/jobs/{busy}/run")
    assert (await act(api, "pause", filter={"all": True}))["changed"] == 2
    assert (await act(api, "run", filter={"status": "paused"}))["changed"] == 2
    assert (await act(api, "cancel", filter={"all": True}))["changed"] == 2
    for job_id, runs in ((busy, 16), (idle, 1)):
        assert [run["status"] for run in await runs_of(api, job_id)] == ["cancelled"] * runs


async def test_a_change_by_another_request_is_not_lost(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the read and the write of a step a job gets another version: it is changed by itself, after that."""
    ids = await create(api, 3)
    store = api.server.context.store
    amend = store.amend

    async def outrun(amendments: list[Amendment]) -> Any:
        monkeypatch.setattr(store, "amend", amend)
        answer = await api("PATCH", f"/v1/jobs/{ids[1]}", json={"description": "new"})
        assert answer.status_code == 200, answer.text
        return await amend(amendments)

    monkeypatch.setattr(store, "amend", outrun)
    assert (await act(api, "pause", filter={"all": True}))["changed"] == 3
    found = await api.get(f"/v1/jobs/{ids[1]}")
    assert (found["status"], found["description"], found["version"]) == ("paused", "new", 3)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"action": "pause", "filter": {}}, "/filter"),
        ({"action": "pause", "filter": {"all": True, "tag": "x"}}, "/filter/all"),
        ({"action": "pause", "filter": {"status": "cancelled"}}, "/filter/status"),
        ({"action": "resume", "filter": {"status": "scheduled"}}, "/filter/status"),
        ({"action": "run", "filter": {"status": "unknown"}}, "/filter/status"),
        ({"action": "run", "filter": {"kind": "unknown"}}, "/filter/kind"),
        ({"action": "run", "filter": {"all": True, "createdBefore": "2020-01-01T00:00:00Z"}}, "/filter/createdBefore"),
        ({"action": "run", "filter": {"all": True}, "reason": "x"}, "/reason"),
        ({"action": "cancel", "filter": {"all": True}, "until": "2199-01-01T00:00:00Z"}, "/until"),
        ({"action": "pause", "filter": {"all": True}, "until": "2020-01-01T00:00:00Z"}, "/until"),
        ({"action": "pause", "filter": {"all": True}, "cursor": "x"}, "/cursor"),
        ({"action": "pause", "filter": {"all": True}, "limit": 0}, "/limit"),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused(tmp_path: Path, body: dict[str, Any], pointer: str) -> None:
    async with serving(sqlite_store(tmp_path / "timeball.db")) as api:
        answer = await api("POST", "/v1/jobs:bulk", json=body)
        assert answer.status_code == 422
        assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]
