"""Executes each call of a Python function in a new interpreter, which ends with it."""

from __future__ import annotations

import os
import sys
from typing import Final

import msgspec

from timeball.domain.run.lifecycle import Failed, Failure, Outcome, Succeeded
from timeball.executors import results
from timeball.executors.process.process import Exit, Processes, outcome_of
from timeball.executors.python.child_protocol import ChildMessage, Order
from timeball.job_user import JobUser
from timeball.ports.executor import ExecutorAttempt
from timeball.tasks import Function

CHILD: Final = "timeball.executors.python.child"
MAX_WORD_LENGTH: Final = 2 * results.LARGEST

_decode = msgspec.json.Decoder(ChildMessage).decode


class FreshProcesses:
    """Implements `ProcessMode`: a new interpreter imports the module of the function and calls it."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def execute(self, attempt: ExecutorAttempt, function: Function) -> Outcome:
        module = function.call.__module__
        listener = _Listener(attempt)
        order = Order(
            module=module,
            function=function.name,
            job_id=attempt.job_id,
            run_id=attempt.run_id,
            attempt=attempt.attempt,
            token=attempt.token,
            fire_time=attempt.fire_time,
            parameters=attempt.spec.parameters,
        )
        ended = await self._processes.run(
            attempt,
            command(CHILD),
            env=variables(),
            stdin=msgspec.json.encode(order),
            words=listener.feed,
        )
        if isinstance(ended, Exit) and listener.outcome is not None:
            return listener.outcome
        return without_return(ended, attempt, function, self._processes.user)


def without_return(ended: Exit | Failed, attempt: ExecutorAttempt, function: Function, user: JobUser | None) -> Outcome:
    """Return the outcome of a function whose process ended, or could not be started, before it returned."""
    if user is not None and isinstance(ended, Exit) and "No module named" in ended.stderr_tail:
        attempt.log(
            "system",
            f"perhaps the job user {user.name} cannot read that module:"
            f" install it, and Timeball, in a folder that {user.name} can read\n",
        )
    outcome = outcome_of(ended, attempt)
    if isinstance(outcome, Succeeded):
        return _failed(f"task {function.name!r} ended its process before it returned")
    return outcome


def command(program: str) -> list[str]:
    """Return the command that starts a module of Timeball as a program, without the current folder in its path."""
    return [sys.executable, "-P", "-m", program]


def variables() -> dict[str, str]:
    """Return the variables with which a child imports what its worker can import."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": "1"}


class _Listener:
    """Reads the messages of the child, which are lines of JSON: passes on progress and text to log, and keeps the
    outcome."""

    def __init__(self, attempt: ExecutorAttempt) -> None:
        self._attempt = attempt
        self._begun = ""
        self.outcome: Outcome | None = None

    def feed(self, text: str) -> None:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            try:
                word = _decode(line)
            except msgspec.MsgspecError:
                continue
            if word.progress is not None:
                self._attempt.progress(*word.progress)
            if word.log is not None:
                self._attempt.log("stdout", word.log)
            if word.outcome is not None:
                self.outcome = word.outcome
        if len(self._begun) > MAX_WORD_LENGTH:
            self._begun = ""


def _failed(message: str) -> Failed:
    return Failed(Failure(kind="worker", message=message))
