"""The overview over the API, on both stores: statistics, the timeline, and lists of jobs with their runs (I24)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import OTHER, Api, FakeWorker, serving
from tests.support.migrated import empty_postgres, sqlite_store
from timeball import system
from timeball.operation.overview import timeline
from timeball.ports.store.store import Store
from timeball.stores.postgres.store import PostgresStore
from timeball.stores.sqlite.store import SqliteStore

MIB = 1 << 20
LATER = {"type": "date", "expression": "2199-01-01T00:00:00Z"}
HOURLY = {"type": "interval", "expression": "1h"}


@pytest.fixture(params=["sqlite", "postgres"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    store: Store
    if request.param == "sqlite":
        store = sqlite_store(tmp_path / "timeball.db")
    else:
        dsn = request.getfixturevalue("migrated_dsn")
        await empty_postgres(dsn)
        store = PostgresStore(dsn, monotonic=system.monotonic, min_connections=1)
    async with serving(store) as opened:
        yield opened


async def until(found: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await found():
            await asyncio.sleep(0.05)


async def worked_off(api: Api, count: int, fail: str = "") -> None:
    """Execute so many runs; those of the job with this name fail."""
    worker = FakeWorker(api)
    await worker.hello()
    for _ in range(count):
        assigned = await worker.take()
        if fail and assigned["spec"].get("name") == fail:
            await worker.fail(assigned)
        else:
            await worker.succeed(assigned)


# --- statistics ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("window", "width", "buckets"), [("5m", 10, 30), ("1h", 60, 60), ("24h", 60, 1_440)])
async def test_statistics_count_what_ended(api: Api, window: str, width: int, buckets: int) -> None:
    for name in ("good", "good", "bad"):
        await api.create(name=name, maxRetries=0)
    await worked_off(api, 3, fail="bad")

    async def counted() -> bool:
        return bool((await api.get(f"/v1/stats?window={window}"))["totals"]["finished"] == 3)

    await until(counted)
    stats = await api.get(f"/v1/stats?window={window}")
    totals = stats["totals"]
    assert (totals["succeeded"], totals["dead"], totals["failed"], totals["cancelled"]) == (2, 1, 0, 0)
    assert totals["successRate"] == pytest.approx(2 / 3)
    assert totals["lateP50Ms"] is not None
    assert totals["lateP50Ms"] <= totals["lateP99Ms"]
    assert totals["runsPerSecond"] > 0
    assert (stats["window"], stats["bucketSeconds"], len(stats["buckets"])) == (window, width, buckets)
    times = [datetime.fromisoformat(bucket["at"]) for bucket in stats["buckets"]]
    assert all(after - before == timedelta(seconds=width) for before, after in pairwise(times))
    assert datetime.fromisoformat(stats["from"]) == times[0]
    assert times[-1] <= datetime.fromisoformat(stats["to"]) < times[-1] + timedelta(seconds=width)
    for name in ("finished", "succeeded", "dead"):
        assert sum(bucket[name] for bucket in stats["buckets"]) == totals[name]


async def test_statistics_survive_a_server_that_stops(tmp_path: Path) -> None:
    async with serving(sqlite_store(tmp_path / "timeball.db")) as first:
        await first.create(name="one")
        await worked_off(first, 1)
    store = SqliteStore(tmp_path / "timeball.db", wall=system.wall, monotonic=system.monotonic)
    await store.open()
    now = store.now()
    found = await store.statistics("default", 60_000_000, now - 3_600_000_000, now + 60_000_000)
    await store.close()
    assert [each.ends for each in found.values()] == [{"succeeded": 1}]


async def test_the_present_what_comes_next_and_what_needs_attention(api: Api) -> None:
    running, dead = await api.create(name="running"), await api.create(name="dead", maxRetries=0)
    soon = await api.create(name="soon", schedule={"type": "interval", "expression": "10m"})
    hourly = await api.create(name="hourly", schedule=HOURLY)
    paused = await api.create(name="paused", schedule=HOURLY)
    await api("POST", f"/v1/jobs/{paused['jobId']}/pause", json={"reason": "the warehouse moves"})
    worker = FakeWorker(api)
    await worker.hello()
    first = await worker.take()
    second = await worker.take(held=(first["token"],))
    await worker.fail(next(each for each in (first, second) if each["jobId"] == dead["jobId"]))
    stats = await api.get("/v1/stats")
    now = stats["now"]
    assert (now["running"], now["queued"], now["deadLetters"], now["jobs"], now["pausedJobs"]) == (1, 0, 1, 2, 1)
    assert (now["oldestQueuedAgeMs"], now["capped"]) == (None, False)
    assert stats["workers"] == {"live": 1, "slots": 4, "busy": 1}
    assert [each["jobId"] for each in stats["upNext"]] == [soon["jobId"], hourly["jobId"]]
    assert stats["upNext"][0] == {"jobId": soon["jobId"], "jobName": "soon", "fireTime": soon["nextFireAt"]}
    found = {each["kind"]: each for each in stats["attention"]}
    assert found.keys() == {"dead", "paused"}
    assert (found["dead"]["jobId"], found["dead"]["count"]) == (dead["jobId"], 1)
    assert found["paused"]["message"] == "Paused: the warehouse moves"
    assert found["paused"]["jobName"] == "paused"
    assert running["jobId"] != dead["jobId"]


async def test_a_closed_calendar_moves_what_comes_next(api: Api) -> None:
    year = (datetime.fromisoformat((await api.get("/v1/stats"))["to"]) + timedelta(days=400)).year
    closed = {"timezone": "UTC", "entries": [{"from": "2020-01-01T00:00", "to": f"{year}-01-01T00:00"}]}
    answer = await api("PUT", "/v1/calendars/freeze", json=closed)
    assert answer.status_code in (200, 201), answer.text
    await api.create(name="frozen", schedule=HOURLY, calendars=["freeze"])
    other = await api.create(name="other", schedule={"type": "interval", "expression": "2h"})
    stats = await api.get("/v1/stats")
    assert [each["jobName"] for each in stats["upNext"]] == ["other", "frozen"]
    assert stats["upNext"][0]["fireTime"] == other["nextFireAt"]
    assert stats["upNext"][1]["fireTime"] >= f"{year}-01-01"


# --- tenants ------------------------------------------------------------------------------------------------------


async def test_another_tenant_sees_none_of_it(api: Api) -> None:
    await api.create(name="secret", schedule=HOURLY, tags=["secret"])
    await api.create(name="secret run", maxRetries=0)
    await worked_off(api, 1, fail="secret run")

    async def counted() -> bool:
        return bool((await api.get("/v1/stats"))["totals"]["finished"])

    await until(counted)
    stats = await api.get("/v1/stats", key=OTHER)
    assert stats["totals"]["finished"] == 0
    assert {name: count for name, count in stats["now"].items() if count} == {}
    assert (stats["upNext"], stats["attention"]) == ([], [])
    for query in ("", "?by=tag", "?by=job", "?q=secret", "?tag=secret"):
        answer = await api("GET", f"/v1/timeline{query}", OTHER)
        assert (answer.status_code, answer.json()["lanes"], answer.json()["hiddenLanes"]) == (200, [], 0)
        assert "secret" not in answer.text
    for query in ("?q=secret", "?kind=shell", "?scheduleType=interval", "?include=recentRuns"):
        assert (await api.get(f"/v1/jobs{query}", key=OTHER))["items"] == []


# --- timeline -----------------------------------------------------------------------------------------------------


async def test_the_timeline_has_runs_and_coming_fires(api: Api) -> None:
    every = await api.create(name="every", schedule={"type": "interval", "expression": "10m"}, tags=["a", "b"])
    once = await api.create(name="once")
    await worked_off(api, 1)
    found = await api.get("/v1/timeline")
    assert (found["by"], found["hiddenLanes"]) == ("job", 0)
    assert found["from"] < found["now"] < found["to"]
    first, second = found["lanes"]
    assert (first["id"], first["name"], first["status"], first["runs"]) == (every["jobId"], "every", "scheduled", [])
    assert first["fires"][0] == every["nextFireAt"]
    assert len(first["fires"]) == 3
    assert (second["id"], second["status"], second["fires"], second["buckets"]) == (
        once["jobId"],
        "completed",
        [],
        None,
    )
    (run,) = second["runs"]
    assert (run["status"], run["verdict"]) == ("succeeded", "on_time")
    assert run["fireTime"] <= run["startedAt"] <= run["endedAt"]
    assert run["lateMs"] >= 0
    tags = await api.get("/v1/timeline?by=tag")
    assert [(lane["id"], lane["name"], lane["status"]) for lane in tags["lanes"]] == [
        ("", "(no tag)", None),
        ("a", "a", None),
        ("b", "b", None),
    ]
    assert tags["lanes"][0]["runs"][0]["jobId"] == once["jobId"]
    assert tags["lanes"][1]["fires"] == first["fires"]


async def test_the_range_of_the_timeline(api: Api) -> None:
    await api.create(name="every", schedule={"type": "interval", "expression": "1h"})
    found = await api.get("/v1/timeline?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z")
    assert (found["from"], found["to"], found["lanes"]) == ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", [])
    now = datetime.fromisoformat(found["now"])
    ahead = await api.get("/v1/timeline", params={"to": (now + timedelta(hours=5)).isoformat()})
    assert [len(lane["fires"]) for lane in ahead["lanes"]] == [5]
    later = {"from": (now + timedelta(hours=2)).isoformat(), "to": (now + timedelta(hours=4, minutes=1)).isoformat()}
    assert [len(lane["fires"]) for lane in (await api.get("/v1/timeline", params=later))["lanes"]] == [2]


@pytest.mark.parametrize(
    "query",
    [
        "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
        "from=2026-01-01T00:00:00Z&to=2027-01-01T00:00:00Z",
        "from=yesterday",
        "by=colour",
        "lanes=0",
        "lanes=201",
        "lanes=x",
        "other=1",
    ],
)
async def test_a_bad_question_about_the_timeline_is_refused(api: Api, query: str) -> None:
    answer = await api("GET", f"/v1/timeline?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


async def test_many_active_jobs_are_shown_by_tag_unless_jobs_are_asked_for(api: Api) -> None:
    jobs = [
        {
            "name": f"job {at:02}",
            "task": {"kind": "shell", "command": "true"},
            "schedule": {"type": "interval", "expression": "10m"},
            "tags": [f"team {at % 3}"],
        }
        for at in range(61)
    ]
    await api("POST", "/v1/jobs:batch", json=jobs[:60])
    assert (await api.get("/v1/timeline"))["by"] == "job"
    await api("POST", "/v1/jobs:batch", json=jobs[60:])
    found = await api.get("/v1/timeline")
    assert (found["by"], [lane["id"] for lane in found["lanes"]]) == ("tag", ["team 0", "team 1", "team 2"])
    assert all(lane["fires"] for lane in found["lanes"])
    some = await api.get("/v1/timeline?by=job&lanes=10")
    assert (len(some["lanes"]), some["hiddenLanes"]) == (10, 51)
    assert [lane["name"] for lane in some["lanes"]] == sorted(lane["name"] for lane in some["lanes"])
    assert [lane["name"] for lane in (await api.get("/v1/timeline?q=JOB 07"))["lanes"]] == ["job 07"]
    assert len((await api.get("/v1/timeline?by=job&tag=team 1"))["lanes"]) == 20


async def test_a_lane_with_many_runs_has_counts(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MAX_RUNS_PER_LANE", 2)
    job = await api.create(name="busy", schedule=LATER, overlap="allow")
    for _ in range(5):
        await api("POST", f"/v1/jobs/{job['jobId']}/run")
    await worked_off(api, 3)
    (lane,) = (await api.get("/v1/timeline"))["lanes"]
    assert lane["runs"] == []
    assert lane["truncated"] is False
    assert len(lane["buckets"]) == timeline.MAX_BUCKETS_PER_LANE
    total = {name: sum(bucket["counts"][name] for bucket in lane["buckets"]) for name in lane["buckets"][0]["counts"]}
    assert {name: count for name, count in total.items() if count} == {"on_time": 3, "waiting": 2}


async def test_the_largest_timeline_is_smaller_than_a_mebibyte(api: Api) -> None:
    jobs = [
        {
            "name": f"a job with a long name {at:03} {'x' * 150}",
            "task": {"kind": "shell", "command": "true"},
            "schedule": {"type": "interval", "expression": "1s"},
            "overlap": "allow",
        }
        for at in range(200)
    ]
    await api("POST", "/v1/jobs:batch", json=jobs)
    await asyncio.sleep(2)
    for by in ("job", "tag"):
        answer = await api("GET", f"/v1/timeline?lanes=200&by={by}")
        assert answer.status_code == 200
        assert len(answer.content) < MIB
    assert len((await api.get("/v1/timeline?lanes=200&by=job"))["lanes"]) == 200


# --- jobs ---------------------------------------------------------------------------------------------------------


async def test_a_list_of_jobs_has_their_newest_runs_if_asked(api: Api) -> None:
    ran, waits = await api.create(name="ran"), await api.create(name="waits", schedule=LATER)
    await worked_off(api, 1)
    items = (await api.get("/v1/jobs?include=recentRuns"))["items"]
    assert [each["jobId"] for each in items] == [waits["jobId"], ran["jobId"]]
    assert items[0]["recentRuns"] == []
    (run,) = items[1]["recentRuns"]
    assert run["status"] == "succeeded"
    assert run["fireTime"] <= run["startedAt"] <= run["endedAt"]
    assert "recentRuns" not in (await api.get("/v1/jobs"))["items"][0]
    assert "recentRuns" not in (await api.get(f"/v1/jobs/{ran['jobId']}"))


async def test_jobs_are_found_by_text_kind_and_schedule(api: Api) -> None:
    await api.create(name="Nightly ETL", schedule={"type": "cron", "expression": "0 2 * * *"})
    await api.create(name="mail", task={"kind": "http", "url": "https://example.org"}, schedule=LATER)

    async def names(**query: Any) -> list[str]:
        return [each["name"] for each in (await api.get("/v1/jobs", params=query))["items"]]

    assert await names(q="etl") == ["Nightly ETL"]
    assert await names(kind="http") == ["mail"]
    assert await names(kind="HTTP", scheduleType="future") == ["mail"]
    assert await names(scheduleType="cron", status="scheduled") == ["Nightly ETL"]
    assert await names(scheduleType="cron", kind="http") == []
    for query in ("kind=htp", "scheduleType=chron", "include=runs"):
        answer = await api("GET", f"/v1/jobs?{query}")
        assert answer.status_code == 422, answer.text
    assert "did you mean" in (await api("GET", "/v1/jobs?scheduleType=chron")).json()["detail"]
