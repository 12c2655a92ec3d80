"""Quotas and the highest priority of a tenant, over the API."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.support.api import Api, running_api, serving
from timeball.ports.wakeups import Topic
from timeball.stores.postgres.store import PostgresStore
from timeball.system import monotonic

CRON: dict[str, Any] = {"schedule": {"type": "cron", "expression": "0 4 * * *"}}
NOW: dict[str, Any] = {"schedule": {"type": "immediate"}}
SHELL = {"task": {"kind": "shell", "command": "true"}}


class House:
    def __init__(self, api: Api) -> None:
        self.api = api
        self.key = ""

    async def limit(self, **limits: Any) -> None:
        answer = await self.api("PATCH", "/v1/tenants/acme", json={"limits": limits})
        assert answer.status_code == 200, answer.text

    async def __call__(self, method: str, path: str, status: int, **options: Any) -> Any:
        answer: httpx2.Response = await self.api(method, path, self.key, **options)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def submit(self, status: int = 201, **fields: Any) -> Any:
        return await self("POST", "/v1/jobs", status, json={**SHELL, **fields})

    async def used(self) -> Any:
        return (await self("GET", "/v1/tenants/acme", 200))["used"]


@pytest_asyncio.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with running_api(tmp_path) as api:
        house = House(api)
        await api("POST", "/v1/tenants", json={"tenantId": "acme"})
        created = await api("POST", "/v1/tenants/acme/api-keys", json={"role": "admin", "name": "a"})
        house.key = created.json()["key"]
        yield house


async def test_a_priority_above_the_highest_is_refused_at_submit_and_at_update(house: House) -> None:
    await house.limit(maxPriority=5)
    refused = await house.submit(422, **CRON, priority="high")
    assert (refused["code"], refused["errors"][0]["pointer"]) == ("invalid", "/priority")
    job = await house.submit(**CRON, priority=5)
    path = f"/v1/jobs/{job['jobId']}"
    refused = await house("PATCH", path, 422, json={"priority": 6})
    assert refused["errors"][0]["pointer"] == "/priority"
    await house("PATCH", path, 200, json={"priority": 4})
    batch = [{**SHELL, "priority": 9}, {**SHELL, "priority": 1}]
    items = (await house("POST", "/v1/jobs:batch", 200, json=batch))["items"]
    assert ["error" in each for each in items] == [True, False]


async def test_a_job_keeps_the_priority_that_it_had_before_the_limit(house: House) -> None:
    job = await house.submit(**CRON, priority=8)
    await house.limit(maxPriority=3)
    path = f"/v1/jobs/{job['jobId']}"
    assert (await house("PATCH", path, 200, json={"description": "d"}))["priority"] == 8
    await house("PATCH", path, 422, json={"priority": 7})
    refused = await house.submit(422, **CRON)
    assert "has 5" in refused["detail"], "a job without a priority is refused with its default"


async def test_the_tasks_of_a_workflow_keep_to_the_highest_priority(house: House) -> None:
    await house.limit(maxPriority=5)
    tasks = [{"name": "a", **SHELL}, {"name": "b", **SHELL, "priority": 9, "needs": ["a"]}]
    refused = await house("POST", "/v1/workflows", 422, json={"name": "w", "tasks": tasks})
    assert refused["errors"][0]["pointer"].endswith("/tasks/1/priority")


async def test_quotas_are_refused_with_a_code_and_shown_with_what_is_used(house: House) -> None:
    await house.limit(jobs=1, runsPerDay=2, concurrentRuns=9)
    await house.submit(**CRON)
    refused = await house.submit(403, **CRON)
    assert (refused["code"], "1 jobs" in refused["detail"]) == ("quota_exceeded", True)
    await house.submit(**NOW)
    job = await house.submit(**NOW)
    answer = await house.api("POST", "/v1/jobs", house.key, json={**SHELL, **NOW})
    assert (answer.status_code, answer.json()["code"]) == (429, "daily_quota_exceeded")
    assert 0 < int(answer.headers["retry-after"]) <= 86_400
    refused = await house("POST", f"/v1/jobs/{job['jobId']}/run", 429)
    assert refused["code"] == "daily_quota_exceeded"
    assert await house.used() == {"concurrentRuns": 0, "jobs": 1, "runsPerDay": 2, "storedBytes": None}
    await house.limit()
    assert await house.used() == {"concurrentRuns": 0, "jobs": 1, "runsPerDay": None, "storedBytes": None}
    await house.submit(**NOW)
    await house.submit(**CRON)


async def test_a_job_that_has_no_room_does_not_stop_the_others_of_its_batch(house: House) -> None:
    await house.limit(jobs=2)
    batch = [{**SHELL, **CRON} for _ in range(4)]
    items = (await house("POST", "/v1/jobs:batch", 200, json=batch))["items"]
    assert [each.get("error", {}).get("code") for each in items] == [None, None, "quota_exceeded", "quota_exceeded"]


async def test_limits_of_one_tenant_concern_no_other(house: House) -> None:
    await house.limit(jobs=0, runsPerDay=0, maxPriority=0)
    answer = await house.api("POST", "/v1/jobs", json={**SHELL, **CRON, "priority": 9})
    assert answer.status_code == 201


@pytest_asyncio.fixture(params=["sqlite", "postgres"])
async def servers(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[Api]]:
    """The servers of one store: two on PostgreSQL."""
    async with AsyncExitStack() as stack:
        if request.param == "sqlite":
            yield [await stack.enter_async_context(running_api(tmp_path))]
        else:
            dsn = request.getfixturevalue("postgres_dsn")
            stores = [PostgresStore(dsn, monotonic=monotonic) for _ in range(2)]
            yield [await stack.enter_async_context(serving(store)) for store in stores]


@pytest.mark.parametrize(("limits", "fields", "code"), [
    ({"jobs": 23}, CRON, "quota_exceeded"),
    ({"runsPerDay": 23}, NOW, "daily_quota_exceeded"),
])  # fmt: skip
async def test_fifty_clients_at_once_exceed_no_quota(
    servers: list[Api], limits: Any, fields: dict[str, Any], code: str
) -> None:
    """I18, I25: of all servers together."""
    first = servers[0]
    await first("POST", "/v1/tenants", json={"tenantId": "acme", "limits": limits})
    key = (await first("POST", "/v1/tenants/acme/api-keys", json={"role": "editor", "name": "a"})).json()["key"]
    async with asyncio.timeout(60):
        while not all(each.server.context.limits.by_tenant for each in servers):
            await asyncio.sleep(0.01)

    async def client(number: int) -> list[httpx2.Response]:
        api = servers[number % len(servers)]
        return [await api("POST", "/v1/jobs", key, json={**SHELL, **fields}) for _ in range(2)]

    answers = [answer for found in await asyncio.gather(*map(client, range(50))) for answer in found]
    assert sum(answer.status_code == 201 for answer in answers) == 23
    assert {answer.json()["code"] for answer in answers if answer.status_code != 201} == {code}
    assert (await servers[-1].get("/v1/tenants/acme"))["used"][next(iter(limits))] == 23


async def test_maintenance_counts_what_was_stored_before_the_quota_of_stored_bytes(house: House) -> None:
    made = await house.submit(**CRON, parameters={"x": "y" * 5_000})
    assert (await house.used())["storedBytes"] is None
    await house.limit(storedBytes=6_000)
    async with asyncio.timeout(20):
        while (await house.used())["storedBytes"] == 0:
            house.api.server.context.wakeups.wake(Topic.MAINTENANCE)
            await asyncio.sleep(0.02)
    assert 5_000 < (await house.used())["storedBytes"] < 6_000
    refused = await house.submit(403, **CRON, parameters={"x": "y" * 5_000})
    assert refused["code"] == "quota_exceeded"
    await house("PATCH", f"/v1/jobs/{made['jobId']}", 403, json={"parameters": {"x": "z" * 5_000}})
    await house("POST", f"/v1/jobs/{made['jobId']}/pause", 200)
