"""Hostile content in every place that shows text of jobs and runs stays text, and breaks no page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.parts.browser.chromium import DESKTOP, PHONE, Profile, overflow
from tests.parts.browser.pages import await_data
from tests.support.processes import Api, running_up, until

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

SCRIPT = '<script>window.taken=1</script><img src=x onerror="window.taken=1">'
LINK = "javascript:window.taken=1"
RIGHT_TO_LEFT = "\u202egnp.exe\u2066\u200f"
ESCAPES = "\x1b[31mred\x1b[0m \x1b]8;;javascript:window.taken=1\x07click\x1b]8;;\x07 \x1b[2J\x1b[999C\x07"
NAME = f"{SCRIPT} {LINK} {RIGHT_TO_LEFT}"[:200]
MAX_TAGS = 50
TAGS = [SCRIPT[:100], LINK, RIGHT_TO_LEFT, "w" * 100, *(f"{number:03d}-" + "x" * 96 for number in range(MAX_TAGS - 4))]
LONG_LINE = 1_000_000
TAGGED_JOBS = 200
"""With `MAX_TAGS` tags each: 10,000 different tags."""

PROGRAM = f"""
import sys
print({SCRIPT!r})
print({LINK!r})
print({RIGHT_TO_LEFT!r})
print({ESCAPES!r})
print('x' * {LONG_LINE})
print('the end')
sys.stderr.write('e' * 5000 + chr(10) + {SCRIPT!r} + {RIGHT_TO_LEFT!r} + 'e' * 200)
sys.exit(7)
"""

RESULT_PROGRAM = f"""
import json
deep = {SCRIPT!r}
for _ in range(40):
    deep = [deep]
result = {{{SCRIPT!r}: {LINK!r}, "link": {LINK!r}, "mark": {RIGHT_TO_LEFT!r}, "escapes": {ESCAPES!r}}}
print("::result " + json.dumps(result | {{"long": "x" * 100_000, "deep": deep, "many": list(range(5_000))}}))
"""


def test_hostile_names_tags_output_and_errors_are_shown_as_text(profile: Profile, tmp_path: Path) -> None:
    with running_up(tmp_path) as (_, api):
        ids = _hostile(api, tmp_path)
        page = profile.sign_in(api)
        for path in (
            "/",
            "/?view=table",
            "/?by=tag",
            "/jobs",
            f"/jobs/{ids['job']}",
            f"/jobs/{ids['job']}?tab=runs",
            f"/jobs/{ids['job']}?tab=versions",
            f"/jobs/{ids['job']}/edit",
            f"/jobs/new?clone={ids['job']}",
            "/runs",
            "/runs?tag=%3Cscript%3E",
            f"/runs/{ids['run']}",
            "/dead-letters",
            f"/dead-letters?group={ids['fingerprint']}",
            "/workflows",
            f"/workflows/{ids['workflow']}",
            f"/workflow-runs/{ids['workflow_run']}",
            f"/workflow-runs/{ids['workflow_run']}?task=one",
            "/calendars",
            "/calendars/hostile",
            "/tasks",
            "/tasks/hostile",
            "/keys",
            "/users",
            "/audit-log",
            "/usage?by=job",
            "/workers",
            "/forecast",
            "/backfills",
        ):
            page.goto(api.url + path)
            await_data(page)
            _assert_harmless(page, path)
            page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
            _assert_harmless(page, f"{path} on a phone")
            page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})


def test_hostile_errors_and_reasons_are_shown_as_text(profile: Profile, tmp_path: Path) -> None:
    with running_up(tmp_path) as (_, api):
        ids = _hostile(api, tmp_path)
        api.call("POST", f"/v1/jobs/{ids['later']}/pause", json={"reason": SCRIPT + LINK + RIGHT_TO_LEFT})
        page = profile.sign_in(api)
        for path, place in (
            (f"/runs/{ids['run']}", page.locator("section").filter(has=page.get_by_role("heading", name="Error"))),
            (f"/runs/{ids['run']}", page.locator("section").filter(has=page.get_by_role("heading", name="Why"))),
            ("/dead-letters", page.get_by_role("article")),
            (f"/jobs/{ids['later']}", page.locator("main")),
            ("/", page.get_by_role("list", name="Needs attention")),
        ):
            page.goto(api.url + path)
            await_data(page)
            place.get_by_text("onerror=").first.wait_for()
            _assert_harmless(page, path)


def test_hostile_output_can_be_read_searched_and_wrapped(profile: Profile, tmp_path: Path) -> None:
    with running_up(tmp_path) as (_, api):
        ids = _hostile(api, tmp_path)
        page = profile.sign_in(api)
        page.goto(f"{api.url}/runs/{ids['run']}")
        output = page.get_by_role("region", name="Output")
        search = output.get_by_role("searchbox")
        search.fill("the end")
        output.get_by_text("the end", exact=True).wait_for()
        search.fill("onerror")
        output.get_by_text("onerror=").first.wait_for()
        search.fill("")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("w")
        output.get_by_text("red").first.wait_for()
        _assert_harmless(page, "the output with wrapped lines")
        assert output.get_by_role("link", name="click").count() == 0


def test_a_hostile_result_is_shown_as_text(profile: Profile, tmp_path: Path) -> None:
    with running_up(tmp_path) as (_, api):
        program = tmp_path / "result.py"
        program.write_text(RESULT_PROGRAM)
        job_id = api.create({"name": "result", "task": {"kind": "shell", "command": ["python3", str(program)]}})
        run: dict[str, Any] = until(lambda: api.ended_run_of(job_id), "the run")
        assert run["status"] == "succeeded"
        page = profile.sign_in(api)
        for path in (f"/runs/{run['runId']}", f"/jobs/{job_id}", "/runs"):
            page.goto(api.url + path)
            await_data(page)
            _assert_harmless(page, path)
        page.goto(f"{api.url}/runs/{run['runId']}")
        page.locator("main").get_by_text("onerror=").first.wait_for()


def test_ten_thousand_different_tags_break_no_page(profile: Profile, tmp_path: Path) -> None:
    with running_up(tmp_path) as (_, api):
        task = {"kind": "python", "function": "timeball.noop"}
        jobs = [
            {
                "name": f"tagged-{number:03d}",
                "tags": [f"tag-{number:03d}-{tag:02d}" for tag in range(MAX_TAGS)],
                "task": task,
                "schedule": {"type": "interval", "expression": "20m"},
            }
            for number in range(TAGGED_JOBS)
        ]
        api.call("POST", "/v1/jobs:batch", json=jobs)
        page = profile.sign_in(api)
        for path in ("/", "/?by=tag", "/jobs", "/jobs?tag=tag-199-49", "/runs", "/runs?tag=tag-000-00", "/forecast"):
            page.goto(api.url + path)
            await_data(page)
            _assert_harmless(page, path)
        page.goto(f"{api.url}/jobs?tag=tag-199-49")
        page.get_by_role("table", name="Jobs").get_by_text("tagged-199").first.wait_for()


def test_the_palette_and_the_dialogs_show_hostile_names_as_text(profile: Profile, tmp_path: Path) -> None:
    with running_up(tmp_path) as (_, api):
        ids = _hostile(api, tmp_path)
        page = profile.sign_in(api)
        page.keyboard.press("Control+k")
        page.keyboard.type("script")
        page.get_by_role("option").filter(has_text="<script>").first.wait_for()
        _assert_harmless(page, "the palette")
        page.goto(f"{api.url}/runs/{ids['run']}")
        page.get_by_role("button", name="Edit and retry").click()
        page.get_by_role("dialog").get_by_label("Parameters").wait_for()
        _assert_harmless(page, "the dialog")


def _hostile(api: Api, folder: Path) -> dict[str, str]:
    program = folder / "hostile.py"
    program.write_text(PROGRAM)
    parameters = {SCRIPT: LINK, "url": LINK, "mark": RIGHT_TO_LEFT, "long": "y" * 5_000}
    job = {
        "name": NAME,
        "description": SCRIPT + LINK + RIGHT_TO_LEFT,
        "tags": TAGS,
        "userId": SCRIPT[:200],
        "task": {"kind": "shell", "command": ["python3", str(program)]},
        "parameters": parameters,
        "retry": {"maxRetries": 0},
    }
    job_id = api.create(job)
    later = {"type": "interval", "expression": "20m"}
    later_id = api.create({**job, "schedule": later})
    tasks = [{"name": "one", "task": {"kind": "shell", "command": SCRIPT}, "parameters": parameters}]
    workflow = api.call(
        "POST", "/v1/workflows", expect=201, json={"name": NAME, "tags": TAGS, "tasks": tasks, "schedule": later}
    )
    entry = {"from": "2026-12-20T00:00", "to": "2027-01-03T00:00", "reason": (SCRIPT + RIGHT_TO_LEFT)[:100]}
    api.call("PUT", "/v1/calendars/hostile", expect=201, json={"timezone": "UTC", "entries": [entry]})
    api.call("PUT", "/v1/tasks/hostile", expect=201, json={"kind": "shell", "command": SCRIPT + LINK})
    api.call("POST", "/v1/api-keys", expect=201, json={"role": "worker", "name": NAME[:100]})
    api.call("POST", "/v1/users", expect=201, json={"userId": "eve", "role": "viewer", "name": NAME[:100]})
    run: dict[str, Any] = until(lambda: api.ended_run_of(job_id), "the run")
    assert run["status"] == "dead"
    workflow_run = api.call("POST", f"/v1/workflows/{workflow['workflowId']}/run", expect=(200, 201, 202))
    return {
        "job": job_id,
        "later": later_id,
        "run": run["runId"],
        "fingerprint": run["fingerprint"],
        "workflow": workflow["workflowId"],
        "workflow_run": workflow_run["runId"],
    }


def _assert_harmless(page: Any, where: str) -> None:
    assert page.evaluate("typeof window.taken") == "undefined", where
    assert page.locator("img[src='x']").count() == 0, where
    assert page.locator("a[href^='javascript' i]").count() == 0, where
    assert overflow(page) == 0, where
    assert page.evaluate("(main => main.scrollWidth <= main.clientWidth)(document.querySelector('main'))"), where
