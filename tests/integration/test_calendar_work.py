"""I28: calendars hold the event loop for a bounded time, whatever they contain, when they are refused, accepted,
planned or counted."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.api import Api, running_api
from tests.support.stalls import MAX_STALL_SECONDS, TRIES, Ticker
from timeball.domain.instant import DAY, render

pytestmark = pytest.mark.asyncio

MINUTELY = {"type": "cron", "expression": "* * * * *"}
Entries = list[dict[str, Any]]


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as running:
        yield running


def around_the_clock(count: int, minutes: int) -> Entries:
    """Windows of so many minutes, one after the other, from midnight on."""
    starts = [at * minutes % 1_440 for at in range(count)]
    return [{"cron": f"{start % 60} {start // 60} * * *", "for": f"{minutes}m"} for start in starts]


def anew(entries: Entries, mark: int) -> Entries:
    """The same windows in a calendar of which nothing is known yet."""
    return [*entries, {"dates": [f"19{70 + mark}-01-01"]}]


async def longest(do: Callable[[int], Awaitable[None]]) -> float:
    """The longest stretch of CPU time without a pause, in the best of several tries."""
    found: list[float] = []
    for mark in range(TRIES):
        with Ticker() as ticker:
            await do(mark)
        found.append(ticker.longest.cpu)
        if found[-1] < MAX_STALL_SECONDS:
            break
    return min(found)


async def put(api: Api, name: str, entries: Entries, status: int = 201, timezone: str = "Europe/Berlin") -> Any:
    answer = await api("PUT", f"/v1/calendars/{name}", json={"timezone": timezone, "entries": entries})
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_calendar_that_is_never_open_is_refused_at_once(api: Api) -> None:
    async def refused(mark: int) -> None:
        problem = await put(api, "never", anew(around_the_clock(90, 16), mark), 422, "UTC")
        assert "never open" in problem["errors"][0]["detail"]

    assert await longest(refused) < MAX_STALL_SECONDS


async def test_the_dry_run_of_a_backfill_leaves_the_loop_to_others(api: Api) -> None:
    """The fires of 60 days of a job that fires every minute, of which 50 windows of a minute close five sixths."""
    now = api.server.context.store.now() // DAY * DAY
    body = {"from": render(now - 60 * DAY), "to": render(now), "dryRun": True}

    async def surveyed(mark: int) -> None:
        await put(api, f"c{mark}", anew([{"cron": f"{at} * * * *", "for": "1m"} for at in range(50)], mark))
        job = await api.create(schedule=MINUTELY, calendars=[f"c{mark}"])
        answer = await api("POST", f"/v1/jobs/{job['jobId']}/backfill", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["total"] == 60 * 24 * 10

    assert await longest(surveyed) < MAX_STALL_SECONDS


async def test_the_largest_calendars_leave_the_loop_to_others(api: Api) -> None:
    """A job with ten calendars of a hundred windows each: submitted, read, listed, explained, foreseen, planned."""
    names = [f"c{at}" for at in range(10)]

    async def used(mark: int) -> None:
        for at, name in enumerate(names):
            windows = [
                {"cron": f"{minute} {(minute * 7 + at) % 60} */2 1-27,28W,29W,L * MON-SAT", "for": f"{61 + at}s"}
                for minute in range(50)
            ]
            weekly = [{"cron": f"{minute} {at} * * {minute % 7}", "for": "2m"} for minute in range(50)]
            await put(api, f"{name}.{mark}", anew(windows + weekly, mark))
        bound = {"calendars": [f"{name}.{mark}" for name in names], "excluded": "next_open"}
        job = await api.create(schedule=MINUTELY, **bound)
        assert job["nextFireAt"]
        for path in ("", "/next?count=100", "/why"):
            await api.get(f"/v1/jobs/{job['jobId']}{path}")
        await api.get("/v1/jobs")
        await api.get("/v1/forecast")
        answer = await api("POST", "/v1/schedules:preview", json={"schedule": MINUTELY, "count": 1_000, **bound})
        assert len(answer.json()["fires"]) == 1_000
        now = api.server.context.store.now()
        past = {"from": render(now - 5 * DAY), "dryRun": True}
        assert (await api("POST", f"/v1/jobs/{job['jobId']}/backfill", json=past)).json()["total"] > 0

    assert await longest(used) < MAX_STALL_SECONDS


async def test_a_schedule_that_is_always_closed_ends_the_search(api: Api) -> None:
    """Open calendars, and a schedule that meets only closures: there is no next fire in sight, and nothing hangs."""
    await put(api, "nights", [{"cron": "0 1 * * *", "for": "2h"}])

    async def created(mark: int) -> None:
        schedule = {"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Berlin"}
        job = await api.create(schedule=schedule, calendars=["nights"])
        assert job["nextFireAt"] is None
        told = await api.get(f"/v1/jobs/{job['jobId']}/why")
        assert "no open fire was found" in told["answer"]

    assert await longest(created) < MAX_STALL_SECONDS


@pytest.mark.parametrize(
    ("entries", "pointer", "detail"),
    [
        (around_the_clock(101, 7), "/entries/100", "at most 100 entries with a cron expression"),
        (
            [
                {"cron": "*/2 * * * *", "for": "1m"},
                {"cron": "1-59/2 * * * *", "for": "61s"},
                {"cron": "0 0 * * *", "for": "1h"},
            ],
            "/entries/2",
            "1,441 times on one day; at most 1,440 are allowed; use fewer or longer windows",
        ),
    ],
)
async def test_a_calendar_over_its_budget_is_refused_with_the_entry(
    api: Api, entries: Entries, pointer: str, detail: str
) -> None:
    [problem] = (await put(api, "much", entries, 422))["errors"]
    assert problem["pointer"] == pointer
    assert detail in problem["detail"]
