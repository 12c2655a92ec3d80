"""The executor of shell commands: a list of arguments is executed as it is, a string through `sh -c`."""

from __future__ import annotations

from timeball.domain.run.lifecycle import Outcome
from timeball.domain.task.task import Shell
from timeball.executors.process.process import Processes, outcome_of
from timeball.ports.executor import ExecutorAttempt


class ShellExecutor:
    kind = "shell"

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def execute(self, attempt: ExecutorAttempt) -> Outcome:
        task = attempt.task
        assert isinstance(task, Shell)
        argv = ["sh", "-c", task.command] if isinstance(task.command, str) else task.command
        return outcome_of(await self._processes.run(attempt, argv, env=task.env, cwd=task.cwd), attempt)
