"""Long lists and many events: pages stay smooth, and their memory does not grow.

`TIMEBALL_THOROUGH=1` uses 100,000 runs, 5,000 jobs, about 500 events per second, and five minutes for each page.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.parts.browser.chromium import Profile, is_live
from tests.parts.browser.demo import SECOND, insert_runs, past_run
from tests.parts.browser.pages import await_data
from tests.parts.browser.trace import heap_size, tracing
from tests.support.processes import Api, data_dir, running_up
from tests.support.thorough import THOROUGH

pytestmark = [pytest.mark.parts, pytest.mark.timeout(2_400 if THOROUGH else 600)]

RUNS = 100_000 if THOROUGH else 10_000
JOBS = 5_000 if THOROUGH else 500
JOBS_PER_SECOND = 170 if THOROUGH else 20
"""Each job is created, runs and succeeds: about three events."""
MIN_RATE = 0.9 if THOROUGH else 0.0
"""The share of `JOBS_PER_SECOND` that must be reached, so that a thorough run is one of about 500 events per second."""
SECONDS = 300 if THOROUGH else 8
"""How long each page is used."""
TRACED_SECONDS = 20
BATCH = 500
MAX_TASK_MS = 100
MAX_HEAP_GROWTH = 1.3
HEAP_SLACK = 8_000_000
NOOP = {"kind": "python", "function": "timeball.noop"}


class Load:
    """Creates jobs at a steady rate, in a thread. It catches up if a request took long."""

    def __init__(self, api: Api, rate: int) -> None:
        self._api = Api(api.url)
        self._rate = rate
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.created = 0

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._api.http.close()

    def _work(self) -> None:
        began = time.monotonic()
        while not self._stopping.wait(0.5):
            missing = int((time.monotonic() - began) * self._rate) - self.created
            jobs = [{"name": "burst", "task": NOOP}] * min(BATCH, max(1, missing))
            self._api.call("POST", "/v1/jobs:batch", json=jobs)
            self.created += len(jobs)


@contextlib.contextmanager
def running_full(folder: Path) -> Iterator[Api]:
    """A server with many jobs and runs."""
    with running_up(folder) as (process, api):
        hourly = {"type": "interval", "expression": "1h"}
        jobs = [{"name": f"job-{number:05d}", "task": NOOP, "schedule": hourly} for number in range(JOBS)]
        ids = []
        for begin in range(0, JOBS, BATCH):
            made = api.call("POST", "/v1/jobs:batch", json=jobs[begin : begin + BATCH])
            ids += [item["jobId"] for item in made["items"]]
        process.stop()
    now = int(time.time()) * SECOND
    rows = [past_run(ids[number % JOBS], now - number * SECOND // 2) for number in range(1, RUNS + 1)]
    with contextlib.closing(sqlite3.connect(data_dir(folder) / "timeball.db")) as database, database:
        insert_runs(database, rows)
    with running_up(folder) as (_, api):
        yield api


def test_pages_stay_smooth_and_small_under_load(profile: Profile, tmp_path: Path) -> None:
    with running_full(tmp_path) as api:
        page = profile.sign_in(api)
        found = {
            "scrolling through runs": _measure(profile, page, api, "/runs", _scroll),
            "typing a name": _measure(profile, page, api, "/jobs", _type),
            "the now line": _measure(profile, page, api, "/", _look),
        }
    print("\n".join(f"{name}: {figures}" for name, figures in found.items()))
    for name, figures in found.items():
        assert figures["longest task in ms"] < MAX_TASK_MS, name
        assert figures["jobs per second"] >= MIN_RATE * JOBS_PER_SECOND, name
        assert figures["heap at the end"] < figures["heap at the begin"] * MAX_HEAP_GROWTH + HEAP_SLACK, name


def _measure(profile: Profile, page: Any, api: Api, path: str, use: Any) -> dict[str, float]:
    page.goto(api.url + path)
    await_data(page)
    is_live(page)
    with Load(api, JOBS_PER_SECOND) as load:
        use(page, SECONDS / 5)  # lists and caches have their size after this
        begin = heap_size(profile.context, page)
        created = load.created
        began = time.monotonic()
        with tracing(profile.context, page) as trace:
            use(page, min(SECONDS, TRACED_SECONDS))
        while (left := SECONDS - (time.monotonic() - began)) > 0:
            use(page, left)
        end = heap_size(profile.context, page)
        rate = (load.created - created) / (time.monotonic() - began)
    return {
        "longest task in ms": trace.longest,
        "heap at the begin": begin,
        "heap at the end": end,
        "jobs per second": round(rate, 1),
    }


def _scroll(page: Any, seconds: float) -> None:
    page.get_by_role("table", name="Runs").hover()
    end = time.monotonic() + seconds
    down = True
    while time.monotonic() < end:
        for _ in range(20):
            page.mouse.wheel(0, 400 if down else -400)
        down = not down


def _type(page: Any, seconds: float) -> None:
    field = page.get_by_label("Search jobs")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        field.press_sequentially("job-00", delay=30)
        field.fill("")


def _look(page: Any, seconds: float) -> None:
    page.get_by_role("list", name="Lanes").wait_for()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        page.mouse.move(700 + int(end * 1000) % 300, 400)
        page.wait_for_timeout(200)
