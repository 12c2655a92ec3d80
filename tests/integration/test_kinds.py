"""Workers that accept only some task kinds, as real processes (I31): they get no other kind."""

from pathlib import Path
from typing import Any

from tests.support.processes import Process, running_up, start_worker, until

SHELL = {"name": "shell", "task": {"kind": "shell", "command": "echo ran"}, "retry": {"maxRetries": 0}}
PYTHON = {"name": "python", "task": {"kind": "python", "function": "timeball.noop"}}


def worker_of(run: dict[str, Any] | None) -> str | None:
    return None if run is None or run["status"] != "succeeded" else str(run["executorId"])


def test_a_worker_gets_no_run_of_a_kind_that_it_does_not_take(tmp_path: Path) -> None:
    with running_up(tmp_path, None, "--kinds", "python,http", "--name", "limited") as (_, api):
        shells = [api.create(SHELL) for _ in range(3)]
        for _ in range(3):
            job = api.create(PYTHON)
            assert until(lambda job=job: worker_of(api.run_of(job)), "a Python job to run") == "limited"
        for job in shells:
            run = api.call("GET", f"/v1/jobs/{job}/runs")["items"][0]
            assert run["attempt"] == 0
            reasons = api.call("GET", f"/v1/runs/{run['runId']}/why")["reasons"]
            assert "No worker accepts shell jobs" in " ".join(reason["text"] for reason in reasons)
        with start_worker(tmp_path, api, name="any"):
            for job in shells:
                assert until(lambda job=job: worker_of(api.run_of(job)), "the shell job to run") == "any"
                assert api.call("GET", f"/v1/jobs/{job}/runs")["items"][0]["attempt"] == 1


def test_a_kind_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with Process(tmp_path, ["worker", "--token", "k", "--kinds", "shell,perl"]) as process:
        assert process.popen.wait(60) == 2
        assert "'perl' is not a kind; write some of http, shell, script, python" in process.output
