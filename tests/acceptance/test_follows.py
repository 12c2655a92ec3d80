"""Jobs that follow other jobs, under kill -9: each run that succeeded causes one fire (I2, I5)."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import Api, free_port, running_up, until
from tests.support.thorough import THOROUGH

FIRES = 120
WINDOW = {"from": "2026-02-01T00:00:00Z", "to": "2026-02-01T02:00:00Z", "parallelism": 4}

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not THOROUGH, reason="TIMEBALL_THOROUGH is not set"),
]


def runs_of(api: Api, job_id: str) -> list[dict[str, Any]]:
    return list(api.call("GET", f"/v1/jobs/{job_id}/runs?limit=1000")["items"])


def test_kill_9_of_all_that_there_is_loses_and_doubles_no_end(tmp_path: Path) -> None:
    shell = {"kind": "shell", "command": "true"}
    tmp_path.chmod(0o755)
    port = free_port()
    with running_up(tmp_path, port) as (process, api):
        api.await_workers(1)
        load = api.create({"task": shell, "schedule": {"type": "cron", "expression": "* * * * *"}})
        report = api.create({"task": shell, "followJob": load, "overlap": "allow", "catchUpWindow": "1d"})
        api.call("POST", f"/v1/jobs/{load}/backfill", expect=201, json=WINDOW)
        until(lambda: len(runs_of(api, report)) > FIRES // 3, "a third of the ends")
        process.kill()
    with running_up(tmp_path, port) as (_, api):

        def followed() -> list[dict[str, Any]] | None:
            loaded = [run for run in runs_of(api, load) if run["origin"] == "backfill" and run["status"] == "succeeded"]
            found = [run for run in runs_of(api, report) if run["status"] == "succeeded"]
            named = {run["followedRunId"] for run in found}
            return found if len(loaded) == FIRES and named >= {run["runId"] for run in loaded} else None

        reports = until(followed, "all ends to be followed", 120)
        ends = {run["runId"] for run in runs_of(api, load) if run["status"] == "succeeded"}
    counted = Counter(run["followedRunId"] for run in reports)
    assert set(counted.values()) == {1}
    assert set(counted) <= ends
