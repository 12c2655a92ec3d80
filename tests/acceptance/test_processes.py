"""Several worker processes of one command: what each gets, what a death costs, and how they stop."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.processes import Api, Process, is_alive, running_server, running_up, start_worker, until
from timeball.bootstrap.process import SAME_ORDER_SECONDS

pytestmark = pytest.mark.timeout(300)

TASKS = """
import os, pathlib, time, timeball

@timeball.task("processes.hold")
def hold(path: str, seconds: float) -> str:
    with open(path, "a") as file:
        file.write(f"{os.getpid()} {os.environ.get('TIMEBALL_TOKEN')}\\n")
    time.sleep(seconds)
    return "held"
"""


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "held.py").write_text(TASKS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "held"


def hold(api: Api, file: Path, seconds: float, **more: Any) -> str:
    task = {"kind": "python", "function": "processes.hold"}
    return api.create({"task": task, "parameters": {"path": str(file), "seconds": seconds}, **more})


def pids(file: Path) -> list[int]:
    return [int(line.split()[0]) for line in file.read_text().splitlines()] if file.exists() else []


def workers(api: Api) -> dict[str, Any]:
    return {worker["name"]: worker for worker in api.call("GET", "/v1/workers")["items"] if worker["endedAt"] is None}


def members(process: Process) -> list[int]:
    """The processes that the supervisor has started."""
    return [child.pid for child in psutil.Process(process.pid).children()]


def test_worker_processes_share_their_slots_and_die_alone(tmp_path: Path, tasks: str) -> None:
    file = tmp_path / "witness"
    store = f"sqlite:///{tmp_path}/store.db"
    flags = ("--processes", "3", "--memory", "3G", "--cpu", "6", "--log-format", "json")
    with (
        running_server(tmp_path, store) as (_, api),
        start_worker(tmp_path, api, name="many", slots=4, tasks=tasks, flags=flags) as command,
    ):
        found = until(lambda: len(found := workers(api)) == 3 and found, "three workers")
        assert {name: (each["slots"], each["cpu"], each["memoryMb"]) for name, each in found.items()} == {
            "many-1": (2, 2, 1024),
            "many-2": (1, 2, 1024),
            "many-3": (1, 2, 1024),
        }
        jobs = [hold(api, file, 3600, retry={"maxRetries": 3, "backoff": ["0s"]}) for _ in range(4)]
        until(lambda: len(pids(file)) == 4, "all slots to be used")
        running = pids(file)
        assert set(running) == set(members(command))

        # the death of one process costs only what it executed, and another one takes its place
        victim = next(pid for pid in set(running) if running.count(pid) == 1)
        os.kill(victim, signal.SIGKILL)
        until(lambda: len(pids(file)) == 5, "the run of the dead process to start again")
        assert pids(file)[4] not in running
        assert len(members(command)) == 3
        assert sorted(run["attempt"] for job in jobs if (run := api.run_of(job))) == [1, 1, 1, 2]
        assert '"process": "many-2"' in command.output or '"process": "many-3"' in command.output
        assert "signal 9" in command.output

        # the second signal does not wait for functions in threads
        children = members(command)
        command.signal(signal.SIGTERM)
        until(lambda: command.output.count("stopping") == 3, "all processes to drain")
        time.sleep(2 * SAME_ORDER_SECONDS)
        command.signal(signal.SIGTERM)
        command.popen.wait(60)
        assert not any(map(is_alive, children))


def test_a_drain_reaches_all_processes_and_waits_for_their_runs(tmp_path: Path, tasks: str) -> None:
    file = tmp_path / "witness"
    store = f"sqlite:///{tmp_path}/store.db"
    with (
        running_server(tmp_path, store) as (_, api),
        start_worker(tmp_path, api, name="two", slots=2, tasks=tasks, flags=("--processes", "2")) as command,
    ):
        until(lambda: len(workers(api)) == 2, "two workers")
        jobs = [hold(api, file, 3) for _ in range(2)]
        until(lambda: len(pids(file)) == 2, "both to start")
        children = members(command)
        # The signal reaches the supervisor alone, as from a service manager, or from the terminal.
        command.signal(signal.SIGINT)
        assert command.popen.wait(60) == 0, command.output
        assert [api.ended_run_of(job)["status"] for job in jobs] == ["succeeded"] * 2  # type: ignore[index]
        assert not any(map(is_alive, children))
        assert command.output.count("stopping") == 2


def test_processes_that_cannot_start_end_the_command_and_no_process_outlives_its_supervisor(
    tmp_path: Path, tasks: str
) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    flags = ("--processes", "2")
    with running_server(tmp_path, store) as (_, api):
        with start_worker(tmp_path, api, name="bad", tasks="no_such_module", flags=flags) as command:
            assert command.popen.wait(60) == 1, command.output
            assert "no_such_module" in command.output
        refused = {"TIMEBALL_TOKEN": "tb_" + "x" * 43}
        with start_worker(tmp_path, api, name="refused", flags=flags, environment=refused) as command:
            assert command.popen.wait(60) != 0, command.output
        with start_worker(tmp_path, api, name="orphan", tasks=tasks, flags=flags) as command:
            until(lambda: len(workers(api)) == 2, "two workers")
            children = members(command)
            command.kill()
            until(lambda: not any(map(is_alive, children)), "the processes to end with their supervisor")


def test_up_with_several_workers_has_a_server_of_its_own(tmp_path: Path, tasks: str) -> None:
    file = tmp_path / "witness"
    flags = ("--processes", "2", "--slots", "2", "--name", "up", "--tasks", tasks)
    with running_up(tmp_path, None, *flags) as (command, api):
        found = until(lambda: len(found := workers(api)) == 2 and found, "two workers")
        assert set(found) == {"up-1", "up-2"}
        jobs = [hold(api, file, 2) for _ in range(2)]
        until(lambda: len(pids(file)) == 2, "both to start")
        (server,) = set(members(command)) - set(pids(file))
        assert len(set(pids(file))) == 2
        # the death of the server costs no run: its workers report to the next one
        os.kill(server, signal.SIGKILL)
        until(lambda: all((run := api.ended_run_of(job)) and run["status"] == "succeeded" for job in jobs), "the runs")
        assert len(pids(file)) == 2
        last = hold(api, file, 2)
        until(lambda: len(pids(file)) == 3, "another run to start")
        children = members(command)
        assert command.stop() == 0, command.output
        assert not any(map(is_alive, children))
    with running_up(tmp_path, None, "--slots", "1") as (_, api):
        assert api.ended_run_of(last)["status"] == "succeeded"  # type: ignore[index]
