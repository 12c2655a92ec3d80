"""A worker is composed with an executor for every task kind."""

import contextlib
from pathlib import Path

from timeball import tasks
from timeball.bootstrap.worker import executors
from timeball.domain.task.kinds import KINDS
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.process.process import Processes
from timeball.executors.python.executor import PythonExecutor
from timeball.executors.python.process import PythonProcesses


def test_every_kind_has_one_executor(tmp_path: Path) -> None:
    processes = Processes(ProcessGuard())
    python = PythonExecutor(tasks.REGISTRY, slots=1, process_mode=PythonProcesses(processes))
    try:
        found = executors(tmp_path, processes, python, contextlib.AsyncExitStack())
        assert tuple(executor.kind for executor in found) == KINDS
    finally:
        python.close()
