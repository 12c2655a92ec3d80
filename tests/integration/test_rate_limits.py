"""The limits of the rate of requests over real HTTP: on the fast path, on the slow one, and for streams."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest_asyncio
from msgspec.structs import replace

from tests.support.api import ADMIN, FakeWorker, running_api
from tests.support.event_streams import HttpApi, over_http, until
from timeball.domain.dispatch.fair_share import TenantShare
from timeball.domain.tenant import TenantLimits

JOB = {"task": {"kind": "shell", "command": "true"}, "schedule": {"type": "interval", "expression": "1h"}}
SLOW = 0.01
"""A request in 100 seconds: no token is added during a test."""


class House:
    def __init__(self, http: HttpApi) -> None:
        self.http = http
        self.key = ""

    async def ask(self, method: str, path: str, key: str | None = None, **options: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return await self.http.client.request(method, f"{self.http.url}{path}", headers=headers, **options)

    async def limit(self, **limits: Any) -> None:
        answer = await self.ask("PATCH", "/v1/tenants/acme", ADMIN, json={"limits": limits})
        assert answer.status_code == 200, answer.text

    async def new_key(self, role: str = "admin") -> str:
        answer = await self.ask("POST", "/v1/tenants/acme/api-keys", ADMIN, json={"role": role, "name": role})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["key"])


@pytest_asyncio.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with running_api(tmp_path) as api, over_http(api) as http:
        house = House(http)
        await house.ask("POST", "/v1/tenants", ADMIN, json={"tenantId": "acme"})
        house.key = await house.new_key()
        yield house


def rates(answer: httpx2.Response) -> tuple[int, str | None, str | None]:
    return answer.status_code, answer.headers.get("ratelimit"), answer.headers.get("ratelimit-policy")


async def test_without_a_limit_answers_have_no_headers(house: House) -> None:
    for _ in range(3):
        assert rates(await house.ask("POST", "/v1/jobs", json=JOB)) == (201, None, None)
    await house.limit(jobs=100)
    assert rates(await house.ask("POST", "/v1/jobs", json=JOB)) == (201, None, None)


async def test_a_job_is_refused_beyond_the_rate_on_both_paths(house: House) -> None:
    """The limit of a tenant counts all ways to send a request, and concerns no other tenant."""
    await house.limit(requestsPerSecond=SLOW, requestBurst=3)
    policy = '"tenant";q=3;w=300'
    assert rates(await house.ask("POST", "/v1/jobs", json=JOB)) == (201, '"tenant";r=2;t=100', policy)

    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"task": {"kind": "shell", '
        yield b'"command": "true"}}'

    assert (await house.ask("POST", "/v1/jobs", content=chunks())).status_code == 201
    wrong = await house.ask("POST", "/v1/jobs", json={"task": 1})
    assert rates(wrong) == (422, '"tenant";r=0;t=300', policy)
    for options in ({"json": JOB}, {"content": chunks()}):
        refused = await house.ask("POST", "/v1/jobs", **options)
        assert rates(refused) == (429, '"tenant";r=0;t=300', policy)
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["code"] == "rate_limited"
        assert 99 <= int(refused.headers["retry-after"]) <= 100
    assert len((await house.ask("GET", "/v1/jobs", ADMIN)).json()["items"]) == 0
    await house.limit()
    assert len((await house.ask("GET", "/v1/jobs")).json()["items"]) == 2


async def test_a_stream_is_a_request(house: House) -> None:
    await house.limit(requestsPerSecond=SLOW, requestBurst=1)
    async with house.http.events(key=house.key):
        refused = await house.ask("GET", "/v1/events")
        assert rates(refused)[:2] == (429, '"tenant";r=0;t=100')


async def test_one_key_does_not_use_up_the_rate_of_the_others(house: House) -> None:
    await house.limit(requestsPerSecondPerKey=SLOW, requestBurstPerKey=1)
    other = await house.new_key("viewer")
    assert [(await house.ask("GET", "/v1/me")).status_code for _ in range(2)] == [200, 429]
    assert [(await house.ask("GET", "/v1/me", other)).status_code for _ in range(2)] == [200, 429]


async def test_workers_and_operators_of_the_installation_are_never_refused(house: House) -> None:
    await house.limit(requestsPerSecond=SLOW, requestBurst=1)
    worker = FakeWorker(house.http.api, await house.new_key("worker"))
    await worker.hello()
    for _ in range(3):
        assert await worker.poll() == []
    limits = {"requestsPerSecond": SLOW}
    for _ in range(3):
        change = await house.ask("PATCH", "/v1/tenants/default", ADMIN, json={"limits": limits})
        assert rates(change) == (200, None, None)
    assert [(await house.ask("GET", "/v1/me", ADMIN)).status_code for _ in range(2)] == [200, 429]


async def test_a_request_without_a_valid_key_is_not_counted(house: House) -> None:
    await house.limit(requestsPerSecond=SLOW, requestBurst=1)
    for _ in range(3):
        assert rates(await house.ask("GET", "/v1/me", "wrong")) == (401, None, None)
    viewer = await house.new_key("viewer")
    assert rates(await house.ask("POST", "/v1/jobs", viewer, json=JOB)) == (403, None, None)
    assert (await house.ask("GET", "/v1/me")).status_code == 200


async def test_a_server_reads_the_limits_that_another_one_stored(house: House) -> None:
    """And its claims follow them."""
    server = house.http.api.server
    store = server.context.store
    found = await store.tenant("acme")
    assert found is not None
    limits = TenantLimits(weight=2, concurrent_runs=3, requests_per_second=SLOW)
    changed = await store.update_tenant(replace(found, limits=limits))
    await until(lambda: server.context.limits.by_tenant == {"acme": limits})
    assert rates(await house.ask("GET", "/v1/me"))[1] == '"tenant";r=0;t=100'
    assert shares_of(store) == {"acme": TenantShare(2, 3)}
    await store.update_tenant(replace(changed, limits=TenantLimits(jobs=5)))
    await until(lambda: server.context.limits.of("acme").jobs == 5)
    assert shares_of(store) == {}


def shares_of(store: Any) -> Any:
    return store._sharing.shares
