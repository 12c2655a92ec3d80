"""A server is killed and started again: open pages connect again, and keep their filter, scroll position and marked
row."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.parts.browser.chromium import Profile, is_live
from tests.parts.browser.demo import SECOND, insert_runs, past_run
from tests.support.processes import data_dir, running_up

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

DEAD_RUNS = 300
FAILING = {"task": {"kind": "shell", "command": "exit 3"}, "retry": {"maxRetries": 0}}
SCROLLER = "document.querySelector('[role=\"table\"]')"


def test_a_list_keeps_its_filter_place_and_mark_when_its_server_is_killed(profile: Profile, tmp_path: Path) -> None:
    with running_up(tmp_path) as (process, api):
        port = urlsplit(api.url).port
        job_id = api.create({"name": "old", **FAILING, "schedule": {"type": "interval", "expression": "1h"}})
        process.stop()
    _write_dead_runs(tmp_path, job_id)
    with running_up(tmp_path, port) as (process, api):
        page = profile.sign_in(api)
        page.goto(f"{api.url}/runs?status=dead")
        is_live(page)
        rows = page.get_by_role("table", name="Runs").get_by_role("row")
        rows.nth(5).wait_for()
        for _ in range(60):
            page.keyboard.press("j")
        page.locator('[aria-current="true"][aria-rowindex="61"]').wait_for()
        marked = page.locator('[aria-current="true"]').inner_text()
        place = page.evaluate(f"{SCROLLER}.scrollTop")
        assert place > 0
        process.kill()
        page.get_by_role("status").filter(has_text="Offline").or_(
            page.get_by_role("status").filter(has_text="Connecting")
        ).first.wait_for()
        assert rows.count() > 5, "the page shows what it had"
    with running_up(tmp_path, port) as (_, api):
        is_live(page)
        api.create({"name": "new", **FAILING})
        page.get_by_role("button", name="1 new run").wait_for()
        assert page.url.endswith("/runs?status=dead")
        assert page.evaluate(f"{SCROLLER}.scrollTop") == place
        assert page.locator('[aria-current="true"]').inner_text() == marked
        page.get_by_role("button", name="1 new run").click()
        rows.filter(has_text="new").first.wait_for()


def test_output_is_complete_when_the_server_was_killed_while_it_was_read(profile: Profile, tmp_path: Path) -> None:
    """The run itself ends with its server and worker, which are one process; the page shows what became of it."""
    with running_up(tmp_path) as (process, api):
        port = urlsplit(api.url).port
        command = "echo before; sleep 1000"
        retry = {"maxRetries": 0}
        job_id = api.create({"name": "killed", "task": {"kind": "shell", "command": command}, "retry": retry})
        page = profile.sign_in(api)
        page.goto(f"{api.url}/jobs/{job_id}?tab=runs")
        page.get_by_role("row").filter(has_text="Running").first.click()
        page.get_by_role("region", name="Output").get_by_text("before").wait_for()
        process.kill()
    with running_up(tmp_path, port):
        page.get_by_role("status").filter(has_text="Live").first.wait_for(state="attached")
        page.get_by_role("button", name="Retry", exact=True).wait_for()
        page.get_by_role("region", name="Output").get_by_text("before").wait_for()


def _write_dead_runs(folder: Path, job_id: str) -> None:
    now = int(time.time()) * SECOND
    rows = [past_run(job_id, now - number * 60 * SECOND, error="broken") for number in range(1, DEAD_RUNS + 1)]
    with contextlib.closing(sqlite3.connect(data_dir(folder) / "timeball.db")) as database, database:
        insert_runs(database, rows)
