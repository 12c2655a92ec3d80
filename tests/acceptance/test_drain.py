"""`timeball workers drain` with real processes: running jobs finish, nothing new starts, and the worker leaves."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import KEY, Api, Process, free_port, running_server, running_up, start_worker, until

pytestmark = pytest.mark.timeout(300)


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"task": {"kind": "shell", "command": command}, **more}


def running(api: Api, job_id: str) -> bool:
    run = api.run_of(job_id)
    return run is not None and run["status"] == "running" and run["startTime"] is not None


def worker_id(api: Api, name: str) -> str:
    return next(each["workerId"] for each in api.call("GET", "/v1/workers")["items"] if each["name"] == name)


def drained(folder: Path, api: Api, *arguments: str) -> Process:
    return Process(folder, ["workers", "drain", *arguments, "--url", api.url], {"TIMEBALL_TOKEN": KEY})


def test_a_worker_drained_through_another_server_finishes_its_run_and_exits_with_0(
    tmp_path: Path, postgres_dsn: str
) -> None:
    tmp_path.chmod(0o755)
    gate = tmp_path / "gate"
    patient = shell(f"while [ ! -e {gate} ]; do sleep 0.05; done; echo finished", runsOn=["old"])
    with (
        running_server(tmp_path, postgres_dsn) as (_, one),
        running_server(tmp_path, postgres_dsn) as (_, other),
        start_worker(tmp_path, one, name="old", flags=["--label", "old"]) as old,
        start_worker(tmp_path, other, name="new", flags=["--label", "old"]) as new,
    ):
        one.await_workers(2)
        jobs = [one.create(patient) for _ in range(8)]  # as many as both have slots
        until(lambda: all(running(one, job) for job in jobs), "all to run")
        ran_by_old = [job for job in jobs if (one.run_of(job) or {})["executorId"] == "old"]
        assert ran_by_old
        leaving = worker_id(one, "old")
        answer = other.call("POST", f"/v1/workers/{leaving}/drain", expect=202)
        assert answer == {"workerId": leaving, "status": "draining"}
        statuses = {each["name"]: each["status"] for each in one.call("GET", "/v1/workers")["items"]}
        assert statuses == {"old": "draining", "new": "live"}
        until(lambda: "ordered this worker to drain" in old.output, "the order to arrive")
        later = [one.create(shell("echo later", runsOn=["old"])) for _ in range(4)]
        gate.touch()
        assert old.popen.wait(30) == 0, old.output
        assert "has drained, by order of a server" in old.output
        for job in later:
            run = until(lambda job=job: one.ended_run_of(job), "a later run")
            assert (run["status"], run["executorId"], run["attempt"]) == ("succeeded", "new", 1)
        for job in jobs:
            run = until(lambda job=job: one.ended_run_of(job), "a run")
            assert (run["status"], run["attempt"]) == ("succeeded", 1)
            assert (run["executorId"] == "old") is (job in ran_by_old)
        assert [each["name"] for each in one.call("GET", "/v1/workers")["items"]] == ["new"]
        assert new.stop() == 0


def test_the_server_of_up_stays_without_a_worker_until_it_is_started_again(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    port = free_port()
    with running_up(tmp_path, port) as (process, api):
        api.await_workers(1)
        job = api.create(shell("sleep 1"))
        until(lambda: running(api, job), "the run")
        [name] = [each["name"] for each in api.call("GET", "/v1/workers")["items"]]
        with drained(tmp_path, api, name, "--wait") as command:
            assert command.popen.wait(30) == 0, command.output
        assert api.call("GET", "/v1/workers")["items"] == []
        run = api.ended_run_of(job)
        assert run is not None
        assert (run["status"], run["attempt"]) == ("succeeded", 1)
        waiting = api.create(shell("echo later"))
        [reason] = api.call("GET", f"/v1/jobs/{waiting}/why")["run"]["reasons"]
        assert reason["code"] == "no_worker"
        assert process.stop() == 0, process.output
    with running_up(tmp_path, port) as (_, api):
        run = until(lambda: api.ended_run_of(waiting), "the run that waited")
        assert (run["status"], run["attempt"]) == ("succeeded", 1)
