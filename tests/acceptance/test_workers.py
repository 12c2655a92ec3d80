"""Placement of runs on workers, and runs that are delivered at most once, with real processes."""

import signal
from pathlib import Path

import pytest

from tests.support.processes import Api, Process, is_alive, running_server, start_worker, until

pytestmark = pytest.mark.timeout(300)


def started_by(api: Api, job_id: str) -> str | None:
    run = api.run_of(job_id)
    return run["executorId"] if run is not None and run["status"] == "succeeded" else None


def test_a_run_goes_to_a_worker_that_has_what_it_asks_for(tmp_path: Path, postgres_dsn: str) -> None:
    tmp_path.chmod(0o755)
    hello = {"task": {"kind": "shell", "command": "echo hello"}}
    small, special = ["--cpu", "1", "--memory", "64"], ["--cpu", "4", "--label", "gpu", "--dedicated"]
    with running_server(tmp_path, postgres_dsn) as (_, api), start_worker(tmp_path, api, name="small", flags=small):
        api.await_workers(1)
        waiting = [
            api.create({**hello, "runsOn": ["gpu"]}),
            api.create({**hello, "runsOn": ["gpu"], "resources": {"cpu": 2.5, "memoryMb": 16, "slots": 2}}),
        ]
        plain = api.create(hello)
        assert until(lambda: started_by(api, plain), "the plain run") == "small"
        assert [(run := api.run_of(job)) is not None and run["status"] for job in waiting] == ["queued", "queued"]
        with start_worker(tmp_path, api, name="special", flags=special):
            assert [until(lambda job=job: started_by(api, job), "its run") for job in waiting] == ["special"] * 2
            plain = [api.create(hello) for _ in range(20)]
            assert {until(lambda job=job: started_by(api, job), "a plain run") for job in plain} == {"small"}


@pytest.mark.parametrize("how", ["kill -9", "stopped at once"])
def test_what_is_delivered_at_most_once_is_not_repeated(tmp_path: Path, postgres_dsn: str, how: str) -> None:
    tmp_path.chmod(0o755)

    def job(delivery: str) -> dict[str, object]:
        command = f"echo $$ >> {tmp_path / delivery}; sleep 3600"
        return {"task": {"kind": "shell", "command": command}, "delivery": delivery}

    with running_server(tmp_path, postgres_dsn) as (_, api), start_worker(tmp_path, api, name="first") as first:
        api.await_workers(1)
        once, again = (api.create(job(delivery)) for delivery in ("at_most_once", "at_least_once"))
        [pid] = until(lambda: (tmp_path / "at_most_once").read_text().split(), "the job to start")
        until(lambda: (tmp_path / "at_least_once").read_text().split(), "the other to start")
        with start_worker(tmp_path, api, name="second"):
            api.await_workers(2)
            leave(first, how)
            until(lambda: len((tmp_path / "at_least_once").read_text().split()) == 2, "another worker to run the other")
            ended = until(lambda: api.ended_run_of(once), "the run to end")
            assert (ended["status"], ended["attempt"]) == ("failed", 1)
            assert "may or may not have done its work" in ended["error"]["message"]
            assert (tmp_path / "at_most_once").read_text().split() == [pid]
            assert not is_alive(int(pid))
            api.call("DELETE", f"/v1/jobs/{again}")


def leave(worker: Process, how: str) -> None:
    if how == "kill -9":
        worker.kill()
        return
    for _ in range(2):
        worker.signal(signal.SIGTERM)
        until(lambda: "stopping" in worker.output, "the worker to hear it")
    worker.popen.wait()
