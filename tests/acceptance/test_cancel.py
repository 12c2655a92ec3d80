"""I10: a cancel wins, also over processes that ignore SIGTERM."""

import time
from pathlib import Path

from tests.support.processes import Api, is_alive, until

STUBBORN = """
trap '' TERM
sh -c 'trap "" TERM; echo $$ >> {pids}; while :; do sleep 0.1; done' &
echo $$ >> {pids}
while :; do sleep 0.1; done
"""


def test_a_process_group_that_ignores_sigterm_is_gone_after_its_grace(api: Api, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    pids = tmp_path / "pids"
    job_id = api.create(
        {"task": {"kind": "shell", "command": STUBBORN.format(pids=pids)}, "grace": "1s", "retry": {"maxRetries": 3}}
    )
    members = until(lambda: (found := pids.read_text().split()) and len(found) == 2 and found, "both processes")
    run = until(lambda: api.run_of(job_id), "the run")

    cancelled_at = time.monotonic()
    answer = api.call("POST", f"/v1/runs/{run['runId']}/cancel")
    assert answer["status"] in ("running", "cancelled")
    until(lambda: not any(is_alive(int(pid)) for pid in members), "the group to be gone")
    print(f"gone after {time.monotonic() - cancelled_at:.2f} s with a grace of 1 s")

    ended = until(lambda: api.ended_run_of(job_id), "the run to end")
    assert ended["status"] == "cancelled"
    time.sleep(1)
    assert api.call("GET", f"/v1/runs/{run['runId']}")["status"] == "cancelled", "and stays so"
    assert api.call("GET", f"/v1/jobs/{job_id}/ledger")["counts"] == {"cancelled": 1}


def test_a_run_that_has_to_make_way_at_once_gets_no_grace(api: Api, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    pids = tmp_path / "pids"
    job_id = api.create(
        {
            "task": {"kind": "shell", "command": STUBBORN.format(pids=pids)},
            "schedule": {"type": "interval", "expression": "1d"},
            "overlap": "terminate_previous",
            "grace": "1h",
        }
    )
    first = api.call("POST", f"/v1/jobs/{job_id}/run", expect=(200, 202))["runId"]
    members = until(lambda: (found := pids.read_text().split()) and len(found) == 2 and found, "both processes")
    second = api.call("POST", f"/v1/jobs/{job_id}/run", expect=(200, 202))["runId"]
    until(lambda: not any(is_alive(int(pid)) for pid in members), "the group to be gone")
    until(lambda: len(pids.read_text().split()) == 4, "the next run to start")
    assert api.call("GET", f"/v1/runs/{first}")["status"] == "cancelled"
    assert api.call("GET", f"/v1/runs/{second}")["status"] == "running"
    api.call("DELETE", f"/v1/jobs/{job_id}")


def test_deleting_a_job_ends_its_runs_and_keeps_its_history(api: Api) -> None:
    job_id = api.create(
        {"task": {"kind": "shell", "command": "sleep 60"}, "schedule": {"type": "interval", "expression": "1s"}}
    )
    until(lambda: api.run_of(job_id), "a run")
    for _ in range(2):
        assert api.call("DELETE", f"/v1/jobs/{job_id}") == {"jobId": job_id, "status": "cancelled"}
    until(
        lambda: all(run["status"] == "cancelled" for run in api.call("GET", f"/v1/jobs/{job_id}/runs")["items"]), "all"
    )
    ledger = api.call("GET", f"/v1/jobs/{job_id}/ledger")
    assert ledger["due"] == sum(ledger["counts"].values())
    assert api.call("GET", f"/v1/jobs/{job_id}")["status"] == "cancelled"
