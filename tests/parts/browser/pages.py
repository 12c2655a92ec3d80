"""Every page of the web UI, with an address that shows the data of the demo."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.parts.browser.demo import Demo

ROUTER = Path(__file__).parents[3] / "web/src/router.tsx"

PAGES = {
    "overview": "/",
    "overview-table": "/?view=table",
    "jobs": "/jobs",
    "job-new": "/jobs/new",
    "job": "/jobs/{job_id}",
    "job-ledger": "/jobs/{job_id}?tab=ledger",
    "job-runs": "/jobs/{job_id}?tab=runs",
    "job-versions": "/jobs/{job_id}?tab=versions",
    "job-edit": "/jobs/{job_id}/edit",
    "runs": "/runs",
    "run": "/runs/{run_id}",
    "run-dead": "/runs/{dead_run_id}",
    "workflows": "/workflows",
    "workflow": "/workflows/{workflow_id}",
    "workflow-run": "/workflow-runs/{workflow_run_id}",
    "dead-letters": "/dead-letters",
    "calendars": "/calendars",
    "calendar": "/calendars/{calendar}",
    "calendar-edit": "/calendars/{calendar}/edit",
    "calendar-new": "/new/calendar",
    "backfills": "/backfills",
    "forecast": "/forecast",
    "workers": "/workers",
    "tasks": "/tasks",
    "task": "/tasks/{task}",
    "task-edit": "/tasks/{task}/edit",
    "task-new": "/new/task",
    "keys": "/keys",
    "users": "/users",
    "tenants": "/tenants",
    "audit-log": "/audit-log",
    "usage": "/usage",
}
"""The addresses, by the names of the pictures."""
BUSY = '[aria-busy="true"], main .animate-skeleton:not(.bg-live)'
"""What a page shows before its data."""


def address(demo: Demo, name: str) -> str:
    return demo.api.url + PAGES[name].format_map(vars(demo))


def open_page(page: Any, demo: Demo, name: str) -> None:
    page.goto(address(demo, name))
    await_data(page)


def await_data(page: Any) -> None:
    """Wait until the page shows its data, and nothing that stands for data that is on its way."""
    page.locator("main h1").first.wait_for()
    page.wait_for_function("busy => document.querySelector(busy) === null", arg=BUSY)


def routes_without(paths: Iterable[str]) -> list[str]:
    """Return the routes of the web UI to which none of these addresses leads."""
    routes = re.findall(r"path: '(/[^']*)'", ROUTER.read_text("utf-8"))
    addresses = {"/sign-in", *(path.partition("?")[0] for path in paths)}
    patterns = {route: re.compile(re.sub(r"\\\$\w+", "[^/]+", re.escape(route))) for route in routes}
    return [route for route, known in patterns.items() if not any(map(known.fullmatch, addresses))]
