"""A worker is composed with an executor for every task kind, and divided among processes."""

import contextlib
from pathlib import Path

import pytest

from timeball import config, tasks
from timeball.bootstrap.worker import executors
from timeball.bootstrap.worker_processes import server_ready, share_of, worker_of
from timeball.domain.task.kinds import KINDS
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.process.process import Processes
from timeball.executors.python.executor import PythonExecutor
from timeball.executors.python.warm.processes import PythonProcesses


def test_every_kind_has_one_executor(tmp_path: Path) -> None:
    processes = Processes(ProcessGuard())
    python = PythonExecutor(tasks.REGISTRY, slots=1, process_mode=PythonProcesses(processes, max_children=4))
    try:
        found = executors(tmp_path, processes, python, contextlib.AsyncExitStack())
        assert tuple(executor.kind for executor in found) == KINDS
    finally:
        python.close()


@pytest.mark.parametrize("count", [1, 3, 8])
def test_processes_share_what_the_worker_offers(count: int) -> None:
    whole = config.worker({"token": "k", "name": "w", "slots": "8", "cpu": "6", "memory": "8G", "processes": count}, {})
    shares = [share_of(whole, number) for number in range(1, count + 1)]
    assert [share.name for share in shares] == [f"w-{number}" for number in range(1, count + 1)]
    assert sum(share.slots for share in shares) == 8
    assert max(share.slots for share in shares) - min(share.slots for share in shares) <= 1
    assert sum(share.cpu for share in shares) == pytest.approx(6)
    assert sum(share.memory_mb or 0 for share in shares) in range(8 * 1024 - count + 1, 8 * 1024 + 1)


@pytest.mark.parametrize(("host", "address"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("10.0.0.1", "10.0.0.1")])
def test_workers_of_up_reach_its_server_wherever_it_listens(host: str, address: str) -> None:
    up = config.up({"host": host, "processes": "2", "tasks": ("m",), "scripts_dir": "/s"}, {})
    found = worker_of(up, server_ready(f"http://{host}:1300", host, "key"))
    assert (found.servers, found.token, found.tasks, found.processes) == ((f"http://{address}:1300",), "key", ("m",), 2)
    assert found.scripts_dir == up.scripts_dir
    assert found.protected == up.protected
