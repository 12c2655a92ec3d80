"""I28: calendars hold the event loop for a bounded time, whatever is in them: refused, accepted, planned or counted."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.api import Api, running_api
from tests.support.stretches import measured
from timeball.domain.instant import DAY, render

pytestmark = pytest.mark.asyncio

STRETCH = 0.05
"""Seconds of CPU time that the event loop's thread may spend without a pause."""

TASK = {"kind": "shell", "command": "true"}
MINUTELY = {"type": "cron", "expression": "* * * * *"}


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as running:
        yield running


def around_the_clock(count: int, minutes: int) -> list[dict[str, str]]:
    """Windows of so many minutes, one after the other, from midnight on."""
    starts = [at * minutes % 1_440 for at in range(count)]
    return [{"cron": f"{start % 60} {start // 60} * * *", "for": f"{minutes}m"} for start in starts]


async def longest(do: Callable[[], Awaitable[Any]]) -> float:
    async with measured() as found:
        await do()
    return found.longest


@pytest.mark.xfail(strict=True, reason="item 1: a refused calendar of 250 windows takes 7 s on the loop")
async def test_a_calendar_that_is_never_open_is_refused_at_once(api: Api) -> None:
    body = {"entries": [*around_the_clock(90, 16), {"dates": ["2037-12-25"]}]}
    answers: list[Any] = []

    async def put() -> None:
        answers.append(await api("PUT", "/v1/calendars/never", json=body))

    assert await longest(put) < STRETCH
    [answer] = answers
    assert answer.status_code == 422, answer.text
    assert "never open" in answer.json()["errors"][0]["detail"]


@pytest.mark.xfail(strict=True, reason="item 1: one job with 89 windows takes seconds on the loop")
async def test_a_job_with_many_windows_leaves_the_loop_to_others(api: Api) -> None:
    answer = await api("PUT", "/v1/calendars/dense", json={"entries": around_the_clock(89, 16)})
    assert answer.status_code == 201, answer.text
    created: list[dict[str, Any]] = []

    async def use() -> None:
        created.append(await api.create(schedule=MINUTELY, calendars=["dense"]))
        [job] = created
        for path in ("", "/next?count=100", "/why"):
            await api.get(f"/v1/jobs/{job['jobId']}{path}")
        await api.get("/v1/jobs")
        await api.get("/v1/forecast")
        await api("POST", "/v1/schedules:preview", json={"schedule": MINUTELY, "calendars": ["dense"], "count": 1_000})

    assert await longest(use) < STRETCH
    assert created[0]["nextFireAt"]


@pytest.mark.xfail(strict=True, reason="item 1: a dry run over two months with 50 windows takes 54 s on the loop")
async def test_the_dry_run_of_a_backfill_leaves_the_loop_to_others(api: Api) -> None:
    windows = [{"cron": f"{at} * * * *", "for": "1m"} for at in range(50)]
    answer = await api("PUT", "/v1/calendars/minutes", json={"entries": windows})
    assert answer.status_code == 201, answer.text
    job = await api.create(schedule=MINUTELY, calendars=["minutes"])
    now = api.server.context.store.now() // DAY * DAY
    body = {"from": render(now - 60 * DAY), "to": render(now), "dryRun": True}
    found: list[Any] = []

    async def survey() -> None:
        answer = await api("POST", f"/v1/jobs/{job['jobId']}/backfill", json=body)
        assert answer.status_code == 200, answer.text
        found.append(answer.json())

    assert await longest(survey) < STRETCH
    assert found[0]["total"] == 60 * 24 * 10
