"""A preempted job gives its slots to a run of a higher priority, continues where it was, and is never starved."""

import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.processes import Api, is_alive, running_server, running_up, start_worker, until
from tests.support.thorough import THOROUGH

COUNT = 'i=0; while [ $i -lt {to} ]; do i=$((i+1)); echo "$i $$" >> {file}; sleep 0.05; done'

pytestmark = pytest.mark.timeout(300)


def counting(file: Path, to: int, **more: Any) -> dict[str, Any]:
    """Counts in a file; a process that began anew would count from 1 again."""
    task = {"kind": "shell", "command": COUNT.format(to=to, file=file)}
    return {"name": "count", "task": task, "priority": "low", "preemptible": True, **more}


def urgent(file: Path, number: int, length: float = 0.3) -> dict[str, Any]:
    return {"task": {"kind": "shell", "command": f"echo {number} >> {file}; sleep {length}"}, "priority": "high"}


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def is_stopped(pid: int) -> bool:
    return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)


def read(api: Api, run: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = api.call("GET", f"/v1/runs/{run['runId']}")
    return found


def test_a_preempted_shell_job_continues_where_it_was_and_is_never_starved(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    counted, done = tmp_path / "counted", tmp_path / "urgent"
    with running_up(tmp_path, None, "--slots", "1") as (_, api):
        api.await_workers(1)
        # It would fail after 8 s if the time that it stands still counted.
        low = api.create(counting(counted, 60, timeout="8s", retry={"maxRetries": 0}))
        until(lambda: len(lines(counted)) > 3, "the low one to count")
        first = api.create(urgent(done, 0, 4))
        run = until(lambda: api.run_of(low), "its run")
        shown = until(lambda: (found := read(api, run)).get("preemptedBy") and found, "the low one to make room")
        pid = int(lines(counted)[0].split()[1])
        until(lambda: lines(done), "the high one to run in its place")
        assert is_stopped(pid)
        stopped_at = len(lines(counted))
        [urgent_run] = api.call("GET", f"/v1/jobs/{first}/runs")["items"]
        assert shown["preemptedBy"] == urgent_run["runId"]
        paused = until(lambda: read(api, run)["preemptions"][0]["pausedAt"], "the pause to be known")
        assert paused
        reasons = [each["code"] for each in api.call("GET", f"/v1/runs/{run['runId']}/why")["reasons"]]
        assert "preempted" in reasons
        assert len(lines(counted)) <= stopped_at + 1, "it stands still"
        for number in range(1, 12):  # a stream of high ones
            api.create(urgent(done, number))
        ended = until(lambda: api.ended_run_of(low), "the low one to end", 60)
        assert (ended["status"], ended["attempt"]) == ("succeeded", 1), ended
        assert lines(counted) == [f"{number} {pid}" for number in range(1, 61)], "one process counted, from 1 to 60"
        preemptions = read(api, run)["preemptions"]
        assert 1 <= len(preemptions) <= 3
        assert all(each["pausedAt"] and each["resumedAt"] for each in preemptions)
        assert len(lines(done)) < 12, "the stream had not ended when it did"
        until(lambda: len(lines(done)) == 12, "all high ones to have run")


@pytest.mark.skipif(not THOROUGH, reason="TIMEBALL_THOROUGH is not set")
def test_what_stands_still_is_cancelled_and_dies_with_its_worker(tmp_path: Path, postgres_dsn: str) -> None:
    tmp_path.chmod(0o755)
    with running_server(tmp_path, postgres_dsn) as (_, api):  # noqa: SIM117
        with start_worker(tmp_path, api, name="one", slots=1) as worker:
            api.await_workers(1)
            for name in ("cancelled", "orphaned"):
                file = tmp_path / name
                low = api.create(counting(file, 10_000))
                until(lambda file=file: len(lines(file)) > 3, "the low one to count")
                pid = int(lines(file)[0].split()[1])
                blocking = api.create(urgent(tmp_path / "urgent", 0, 60))
                until(lambda pid=pid: is_stopped(pid), "it to stand still")
                if name == "cancelled":
                    run = api.run_of(low)
                    assert run is not None
                    api.call("POST", f"/v1/runs/{run['runId']}/cancel")
                    until(lambda low=low: api.ended_run_of(low), "the cancel")
                    assert not is_alive(pid)
                    api.call("DELETE", f"/v1/jobs/{blocking}")
                else:
                    worker.signal(signal.SIGKILL)
                    until(lambda pid=pid: not is_alive(pid), "it to die with its worker")
