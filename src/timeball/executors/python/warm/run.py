"""A run of a function that waits for a warm child, or executes in one."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from typing import Final

import msgspec

from timeball.domain.instant import SECOND, Micros
from timeball.domain.run.lifecycle import Failed, Failure, Outcome
from timeball.executors.environment import attempt_variables, mark_of
from timeball.executors.guard.guard import Child, GuardDied
from timeball.executors.process.pipes import OutputLines
from timeball.executors.process.process import GUARD_DIED, MAX_STDERR_TAIL, Exit, exit_of
from timeball.executors.python.child_protocol import ChildMessage, Order
from timeball.ports.executor import ExecutorAttempt
from timeball.tasks import Function

_encode: Final = msgspec.json.Encoder().encode


class WarmRun:
    def __init__(self, attempt: ExecutorAttempt, function: Function) -> None:
        self.attempt = attempt
        self.function = function
        loop = asyncio.get_running_loop()
        self.since = loop.time()
        """The time at which the run began to wait for a child."""
        self.ended: asyncio.Future[Outcome | Exit] = loop.create_future()
        """An `Exit`, if the process ended before the function."""
        self.outcome: Outcome | None = None
        """The outcome that the child reported, if the run ends with its process."""
        self.refusals = 0
        """Number of children that did not begin the run."""
        self.was_signalled = False
        """True if a signal was sent. It may arrive late, so the process must not execute another run."""
        self.is_suspended = False
        self.mark = ""
        self._lines = OutputLines(attempt)
        self.stderr_tail = ""
        self._process: Child | None = None
        self._force: asyncio.TimerHandle | None = None

    def order(self, deadline: Micros | None) -> bytes:
        attempt = self.attempt
        variables = attempt_variables(attempt)
        self.mark = mark_of(variables)
        order = Order(
            module=self.function.call.__module__,
            function=self.function.name,
            job_id=attempt.job_id,
            run_id=attempt.run_id,
            attempt=attempt.attempt,
            token=attempt.token,
            fire_time=attempt.fire_time,
            parameters=attempt.spec.parameters,
            environment=variables,
            deadline=deadline,
        )
        return _encode(order) + b"\n"

    def begin(self, process: Child) -> None:
        """Register the functions by which the attempt stops, suspends and resumes the process."""
        self._process = process
        self.attempt.on_cancel(self._stop)
        self.attempt.on_pause(partial(self._suspend, True), partial(self._suspend, False))

    def wait_again(self) -> bool:
        """Called when the child did not begin the run: prepare the run to wait for another child. Return False if the
        attempt is to stop, or the run has ended; it then does not wait."""
        self._process = None
        self.was_signalled = self.is_suspended = False
        if self._force is not None:
            self._force.cancel()
            self._force = None
        if self.attempt.cancelled:
            self.ended.cancel()
        return not self.ended.done()

    def see(self, message: ChildMessage) -> None:
        if message.progress is not None:
            self.attempt.progress(*message.progress)
        if message.log is not None:
            self.attempt.log("stdout", message.log)

    def on_stdout(self, text: str) -> None:
        self._lines.feed(text)
        self.attempt.log("stdout", text)

    def on_stderr(self, text: str) -> None:
        self.stderr_tail = (self.stderr_tail + text[-MAX_STDERR_TAIL:])[-MAX_STDERR_TAIL:]
        self.attempt.log("stderr", text)

    def kill(self) -> None:
        """Kill the process that executes the run, if one does."""
        if self._process is not None:
            self.was_signalled = True
            self._process.kill()

    def fail(self, error: Exception) -> None:
        """End a run that has not begun: its attempt ends with this error."""
        if not self.ended.done():
            self.ended.set_exception(error)

    def end_with_process(self, exited: asyncio.Future[int]) -> None:
        """End the run after its process has ended: with the outcome that the process reported, or else with the exit
        status of the process."""
        if isinstance(exited.exception(), GuardDied):
            self.end(failed(GUARD_DIED))
        elif self.outcome is not None:
            self.end(self.outcome)
        else:
            self.end(exit_of(exited.result(), self.stderr_tail))

    def end(self, result: Outcome | Exit) -> None:
        self._lines.end()
        self._process = None
        if self._force is not None:
            self._force.cancel()
        if not self.ended.done():
            self.ended.set_result(result)

    def _stop(self) -> None:
        """Send SIGTERM, and kill the process after the grace; kill it at once if there is no grace. A run that waits
        for another child ends at once."""
        process = self._process
        if process is None:
            self.ended.cancel()
            return
        self.was_signalled = True
        grace = self.attempt.grace
        if grace <= 0:
            process.kill()
        elif self._force is None:
            process.signal(signal.SIGTERM)
            # A stopped process handles the signal only after it continues.
            process.signal(signal.SIGCONT)
            self._force = asyncio.get_running_loop().call_later(grace / SECOND, process.kill)

    def _suspend(self, suspended: bool) -> None:
        """Suspend the process, or let it continue."""
        if self._process is not None:
            self.was_signalled = True
            self.is_suspended = suspended
            self._process.signal(signal.SIGSTOP if suspended else signal.SIGCONT)


def failed(message: str) -> Failed:
    return Failed(Failure(kind="worker", message=message))
