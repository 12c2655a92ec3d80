"""Usage and cost over the API: groups, filters, pages, CSV, and what each tenant sees."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.api import ADMIN, OTHER, Api, FakeWorker, running_api
from timeball.domain.instant import DAY, SECOND, render

PAST = {"type": "date", "expression": "2026-01-01T00:00:00Z"}
PRICES = {"run": "0.5", "attemptSecond": "0.000001", "cpuSecond": "0.25"}


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as api:
        answer = await api("PATCH", "/v1/tenants/default", json={"limits": {"prices": PRICES}})
        assert answer.status_code == 200, answer.text
        yield api


@pytest_asyncio.fixture
async def worker(api: Api) -> FakeWorker:
    worker = FakeWorker(api)
    await worker.hello()
    return worker


async def execute(api: Api, worker: FakeWorker, took: int, **fields: Any) -> str:
    """Execute a job whose attempt takes this many microseconds. Return its id."""
    made = await api.create(schedule=PAST, **fields)
    await end(worker, took)
    return str(made["jobId"])


async def end(worker: FakeWorker, took: int) -> None:
    assigned = await worker.take()
    same = {name: assigned[name] for name in ("runId", "jobId", "attempt", "token", "serial")}
    await worker.report(ended=[{**same, "outcome": {"type": "succeeded"}, "age": 100 * SECOND, "took": took}])


async def items(api: Api, query: str = "", key: str = ADMIN) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.get(f"/v1/usage?{query}", key=key))["items"]
    return found


async def test_known_seconds_cost_what_they_cost(api: Api, worker: FakeWorker) -> None:
    job = await execute(api, worker, 90 * SECOND + 1, name="etl", userId="anna", resources={"cpu": 2})
    await execute(api, worker, 7, name="other", userId="anna")
    (whole,) = await items(api, "groupBy=tenant")
    assert whole == {
        "tenantId": "default",
        "runs": 2,
        "attempts": 2,
        "attemptSeconds": "90.000008",
        "cpuSeconds": "180.000002",
        "memoryGibSeconds": "0",
        "outputBytes": 0,
        "cost": "46.000090500008",
    }
    today = render(api.server.context.store.now())[:10]
    (of_job,) = await items(api, f"groupBy=day,job,user&jobId={job}")
    assert list(of_job)[:4] == ["userId", "jobId", "jobName", "day"]
    assert (of_job["userId"], of_job["jobId"], of_job["jobName"], of_job["day"]) == ("anna", job, "etl", today)
    assert (of_job["runs"], of_job["attemptSeconds"]) == (1, "90.000001")
    answer = await api.get("/v1/usage")
    assert (answer["groupBy"], answer["nextCursor"]) == (["tenant", "day"], None)
    assert answer["to"] == render(api.server.context.store.now() // DAY * DAY + DAY)
    assert await items(api, f"to={today}") == []
    assert len(await items(api, f"from={today}")) == 1


async def test_a_worker_that_reports_more_time_than_has_passed_is_not_believed(api: Api, worker: FakeWorker) -> None:
    await execute(api, worker, 10**14)
    (whole,) = await items(api, "groupBy=tenant")
    assert 100 <= Decimal(whole["attemptSeconds"]) < 130


async def test_a_tenant_sees_its_own_usage_and_the_system_sees_all(api: Api, worker: FakeWorker) -> None:
    """I24."""
    await execute(api, worker, SECOND)
    assert await items(api, key=OTHER) == []
    await api("POST", "/v1/jobs", OTHER, json={"task": {"kind": "shell", "command": "true"}, "schedule": PAST})
    made = await api("POST", "/v1/tenants/other/api-keys", json={"role": "worker"})
    theirs = FakeWorker(api, made.json()["key"])
    await theirs.hello()
    await end(theirs, 3 * SECOND)
    assert [each["tenantId"] for each in await items(api, "groupBy=tenant")] == ["default", "other"]
    (other,) = await items(api, "groupBy=tenant", OTHER)
    assert (other["tenantId"], other["attemptSeconds"], other["cost"]) == ("other", "3", "0")
    assert await items(api, "groupBy=tenant&tenantId=other", OTHER) == [other]
    assert await items(api, "groupBy=tenant&tenantId=other") == [other]
    for key, tenant in ((OTHER, "default"), (OTHER, "nowhere"), (ADMIN, "nowhere")):
        assert (await api("GET", f"/v1/usage?tenantId={tenant}", key)).status_code == 404


async def test_pages_and_csv_have_the_same_items(api: Api, worker: FakeWorker) -> None:
    names = ["=1+1", "+49", "-", "@x", "  =cmd|' /C calc'!A0", "a,b\n=c", 'say "hi"', "plain"]
    for at, name in enumerate(names):
        await execute(api, worker, at + 1, name=name, userId=f"u{at}" if at else "=2")
    whole = await items(api, "groupBy=user,job")
    paged, cursor = [], ""
    while True:
        page = await api.get(f"/v1/usage?groupBy=user,job&limit=3&cursor={cursor}")
        paged += page["items"]
        if page["nextCursor"] is None:
            break
        cursor = page["nextCursor"]
    assert paged == whole
    assert [each["jobName"] for each in whole] == names
    for answer in (
        await api("GET", "/v1/usage?groupBy=user,job&format=csv"),
        await api("GET", "/v1/usage?groupBy=user,job", headers={"Accept": "text/csv"}),
    ):
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
        assert [row["jobId"] for row in rows] == [each["jobId"] for each in whole]
        assert [row["cost"] for row in rows] == [each["cost"] for each in whole]
        assert [row["jobName"] for row in rows] == [
            "'=1+1", "'+49", "'-", "'@x", "'  =cmd|' /C calc'!A0", "a,b\n=c", 'say "hi"', "plain"
        ]  # fmt: skip
        assert rows[0]["userId"] == "'=2"
        assert list(rows[0])[:3] == ["userId", "jobId", "jobName"]
    as_json = await api("GET", "/v1/usage?format=json", headers={"Accept": "text/csv"})
    assert as_json.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("groupBy=week", "/query/groupBy"),
        ("groupBy=", "/query/groupBy"),
        ("groupBy=day,day", "/query/groupBy"),
        ("from=yesterday", "/query/from"),
        ("from=2026-02-30", "/query/from"),
        ("from=2026-02-02&to=2026-02-02", "/query/from"),
        ("from=2026-02-02&to=2026-02-01", "/query/from"),
        ("from=2020-01-01&to=2026-01-01", "/query/from"),
        ("to=99999999999999999", "/query/to"),
        ("cursor=x", "/query/cursor"),
        ("cursor=WyJhIl0", "/query/cursor"),
        ("cursor=WzFlNDAwLDFd", "/query/cursor"),
        ("format=csv&cursor=WyJhIiwxXQ", "/query/cursor"),
        ("format=xml", "/query/format"),
        ("limit=0", "/query/limit"),
        ("days=3", "/query/days"),
    ],
)
async def test_a_bad_request_is_refused_with_the_place_of_the_error(api: Api, query: str, pointer: str) -> None:
    answer = await api("GET", f"/v1/usage?{query}")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer), answer.text


@pytest.mark.parametrize(
    "query",
    [
        "from=1970-01-01&to=1970-12-01",
        "to=9999-12-31",
        "to=9999-12-31T23:59:59Z",
        "from=2026-01-01T05:00:00%2B05:00&to=2026-01-02T01:00:00Z",
        "cursor=WyJhIiw5OTk5OTk5OTk5OTk5OTk5OTk5XQ",
        "cursor=WyJhIiwtNV0",
        "userId=&jobId=x%00y",
    ],
)
async def test_odd_requests_get_an_answer(api: Api, query: str) -> None:
    assert (await api("GET", f"/v1/usage?{query}")).status_code in (200, 422)
