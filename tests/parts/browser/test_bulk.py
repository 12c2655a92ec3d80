"""Five thousand dead runs are retried with one button, and only those that the filter selects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.parts.browser.chromium import Profile
from tests.parts.browser.pages import await_data
from tests.support.processes import Api, free_port, running_up, until

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

DEAD_RUNS = 5_000
BATCH = 500
OTHERS = 7


def test_all_dead_runs_of_a_filter_are_retried(profile: Profile, tmp_path: Path) -> None:
    with running_up(tmp_path) as (_, api):
        _create_dead_runs(api, "import", DEAD_RUNS)
        _create_dead_runs(api, "other", OTHERS)
        until(lambda: _count(api, "retry", {"status": ["dead"]}) == DEAD_RUNS + OTHERS, "dead runs", patience=300)
        page = profile.sign_in(api)
        page.goto(f"{api.url}/dead-letters")
        await_data(page)
        page.get_by_role("button", name="Tag", exact=True).click()
        page.get_by_role("dialog").get_by_label("Tag").fill("import")
        page.get_by_role("button", name="Apply").click()
        page.wait_for_url("**/dead-letters?tag=import")
        page.get_by_role("button", name="Retry all that match").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Retry 5,000").click()
        page.wait_for_function(
            "() => document.querySelector('[role=\"dialog\"]').textContent.includes('5,000 retried.')", timeout=300_000
        )
        dialog.get_by_role("button", name="Close").last.click()
        # A run can be replayed when it has ended.
        again = {"origin": ["retry"], "tag": "import"}
        until(lambda: _count(api, "replay", again) == DEAD_RUNS, "the end of the new runs", patience=300)
        assert _count(api, "replay", {"origin": ["retry"], "tag": "other"}) == 0


def _create_dead_runs(api: Api, tag: str, count: int) -> None:
    """A request to a port at which no program listens fails at once, without a process."""
    task = {"kind": "http", "url": f"http://127.0.0.1:{free_port()}/", "breaker": False}
    job = {"name": f"{tag}-row", "tags": [tag], "task": task, "retry": {"maxRetries": 0}}
    for begin in range(0, count, BATCH):
        made = api.call("POST", "/v1/jobs:batch", json=[job] * min(BATCH, count - begin))
        assert all("jobId" in item for item in made["items"])


def _count(api: Api, action: str, where: dict[str, Any]) -> int:
    body = {"action": action, "filter": where, "dryRun": True}
    return int(api.call("POST", "/v1/runs:bulk", json=body)["matched"])
