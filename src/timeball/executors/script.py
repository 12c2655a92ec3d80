"""The executor of scripts: files in the worker's scripts folder, looked up when the attempt starts."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from timeball.domain.run.lifecycle import Failed, Failure, Outcome
from timeball.domain.task import script_environment
from timeball.domain.task.task import Script
from timeball.executors.environment import DEFAULT_PATH, encoded_parameters
from timeball.executors.process.process import Processes, outcome_of
from timeball.ports.executor import ExecutorAttempt, OutOfResources
from timeball.resource_shortage import is_shortage


class ScriptExecutor:
    """Executes scripts. The suffix of the file selects the interpreter; a file without a known suffix has to be
    executable."""

    kind = "script"

    def __init__(self, processes: Processes, scripts_dir: Path) -> None:
        self._processes = processes
        self._folder = scripts_dir

    async def execute(self, attempt: ExecutorAttempt) -> Outcome:
        task = attempt.task
        assert isinstance(task, Script)
        if names := script_environment.refused(task.env):  # the job was stored before such names were refused
            return _failed(script_environment.reason(names[0]))
        found = self._find(task)
        if isinstance(found, Failed):
            return found
        argv = [*found, *task.args]
        parameters = encoded_parameters(attempt)
        script = (str(self._folder.resolve()), found[-1])
        return outcome_of(
            await self._processes.run(attempt, argv, env=task.env, stdin=parameters, script=script), attempt
        )

    def _find(self, task: Script) -> list[str] | Failed:
        """Return the command that runs the script. Links are resolved first, so that none points outside of
        the folder.
        """
        folder = self._folder.resolve()
        try:
            path = (folder / task.script).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            if is_shortage(error):
                raise OutOfResources(str(error)) from error
            return _failed(f"script {task.script!r} cannot be found: {error}")
        if not path.is_relative_to(folder):
            return _failed(
                f"script {task.script!r} is a link out of the scripts folder {folder}; put the file itself there"
            )
        if not path.is_file():
            return _failed(f"there is no script {task.script!r} in {folder} on this worker; put it there")
        interpreter = Script.INTERPRETERS.get(path.suffix)
        if path.suffix == ".py":
            return [sys.executable, str(path)]
        if interpreter is not None:
            # Looked up in the worker's PATH, so that no variable of a job selects another program.
            program = shutil.which(interpreter, path=os.environ.get("PATH", DEFAULT_PATH))
            if program is None:
                return _failed(f"cannot run {interpreter!r} on this worker: it is not in its PATH; install it")
            return [program, str(path)]
        if os.access(path, os.X_OK):
            return [str(path)]
        known = " ".join(Script.INTERPRETERS)
        return _failed(f"script {task.script!r} is neither executable nor one of {known}; chmod +x it or rename it")


def _failed(message: str) -> Failed:
    return Failed(Failure(kind="worker", message=message))
