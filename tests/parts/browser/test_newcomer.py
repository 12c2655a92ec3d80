"""The first steps of a new user in Chromium: from the one-time link to a run that fails, is corrected and succeeds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.parts.browser.chromium import Profile, is_live
from tests.support.processes import running_up, until

NEEDS_PAPER = 'case "$TIMEBALL_PARAMETERS" in *A4*) echo there is paper;; *) echo out of paper >&2; exit 3;; esac'


def test_the_web_ui_opens_in_chromium_with_a_link_and_shows_a_job(profile: Profile, tmp_path: Path) -> None:
    with running_up(tmp_path) as (_, api):
        api.create({"name": "hello", "task": {"kind": "shell", "command": "echo hello"}})
        page = profile.sign_in(api)
        page.get_by_role("link", name="Jobs", exact=True).click()
        page.get_by_role("table", name="Jobs").get_by_text("hello", exact=True).wait_for()
        assert "token" not in page.url


@pytest.mark.parts
def test_a_newcomer_creates_a_job_watches_it_fail_and_mends_it(profile: Profile, tmp_path: Path) -> None:
    with running_up(tmp_path) as (_, api):
        page = profile.sign_in(api)
        _create_job(page, "greeter", "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.5; done")
        job_id = page.url.split("/jobs/")[1]

        page.get_by_role("link", name="Overview", exact=True).click()
        is_live(page)
        page.get_by_role("list", name="Lanes").get_by_role("link", name="greeter").wait_for()
        page.get_by_role("button", name="Show as table").click()
        row = page.get_by_role("region", name="The now line as a table").get_by_role("row").filter(has_text="greeter")
        row.get_by_role("link", name=re.compile("Running")).click()  # it fires while the page is open

        output = page.get_by_role("region", name="Output")
        output.get_by_text("line 1", exact=True).wait_for()
        assert page.get_by_role("button", name="Cancel", exact=True).is_visible(), "the output is read while it runs"
        output.get_by_text("line 6", exact=True).wait_for()
        page.get_by_role("button", name="Replay").wait_for()

        _make_it_fail(page, job_id)
        page.get_by_role("link", name="Dead letters", exact=True).click()
        page.get_by_role("article").filter(has_text="out of paper").wait_for()
        _edit_and_retry(page)
        mended = until(lambda: _retried(api, job_id), "the run that was mended")
        page.goto(f"{api.url}/runs/{mended['runId']}")
        page.get_by_role("region", name="Output").get_by_text("there is paper").wait_for()


def _create_job(page: Any, name: str, command: str) -> None:
    page.get_by_role("link", name="Jobs", exact=True).click()
    page.get_by_role("button", name="New job").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("group", name="Kind of task").get_by_text("Shell", exact=True).click()
    page.get_by_label("Command", exact=True).fill(command)
    builder = page.get_by_role("group", name="Cron builder")
    page.get_by_role("group", name="Fires every").get_by_text("Minutes", exact=True).click()
    page.get_by_label("Every", exact=True).select_option("1")
    assert page.get_by_label("Expression").input_value() == "* * * * *"
    builder.get_by_text("Fields", exact=True).click()
    page.get_by_label("Fire at a second of the minute").check()
    page.get_by_label("Second", exact=True).fill("*/10")
    assert page.get_by_label("Expression").input_value() == "*/10 * * * * *"
    page.get_by_role("button", name="Create job").click()
    page.wait_for_url(re.compile(r"/jobs/j_\w+$"))
    page.get_by_role("heading", name=name).wait_for()


def _make_it_fail(page: Any, job_id: str) -> None:
    page.get_by_role("link", name="greeter").first.click()
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Command", exact=True).fill(NEEDS_PAPER)
    page.get_by_label(re.compile("Retries")).first.fill("0")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(re.compile(rf"/jobs/{job_id}$"))


def _edit_and_retry(page: Any) -> None:
    """The error is in its parameters: the command expects one that the job does not have."""
    page.get_by_role("article").filter(has_text="out of paper").get_by_role("button", expanded=False).first.click()
    runs = page.get_by_role("list", name="Dead letters of this group")
    runs.get_by_role("button", name=re.compile("More for")).first.click()
    page.get_by_role("menuitem", name="Edit and retry").click()
    dialog = page.get_by_role("dialog")
    text = dialog.get_by_label("What it executes")
    text.fill(text.input_value().replace('"parameters": {}', '"parameters": {"tray": "A4"}'))
    dialog.get_by_role("button", name="Retry", exact=True).click()
    dialog.wait_for(state="detached")


def _retried(api: Any, job_id: str) -> dict[str, Any] | None:
    runs = api.call("GET", f"/v1/jobs/{job_id}/runs", params={"limit": 50})["items"]
    return next((run for run in runs if run["origin"] == "retry" and run["status"] == "succeeded"), None)
