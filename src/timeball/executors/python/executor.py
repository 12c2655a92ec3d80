"""The executor of Python functions: in the event loop, in a thread, or in a process of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from io import StringIO
from typing import Any, Final, Protocol, TypeVar

from timeball.domain import instant
from timeball.domain.run.lifecycle import Failed, Failure, Outcome
from timeball.domain.task.task import Python, Task
from timeball.executors.python.outcomes import line, raised, returned, step
from timeball.executors.python.streams import CURRENT_REPORTS
from timeball.executors.threads import Threads
from timeball.ports.executor import ExecutorAttempt
from timeball.tasks import Context, Function, Registry

MAX_BUFFERED_LENGTH: Final = 1024 * 1024
"""Maximum number of characters that a thread may log before the event loop processes them; more is dropped."""
MAX_BUFFERED_PIECES: Final = 5_000
"""Maximum number of pieces of output, each of one stream, that wait for the event loop; each costs one call there."""

MAX_NAMED: Final = 10
"""Maximum number of functions that the message about a missing function lists."""

A = TypeVar("A", bound=ExecutorAttempt)


class ProcessMode(Protocol):
    """Executes a function in a child process."""

    async def execute(self, attempt: ExecutorAttempt, function: Function) -> Outcome: ...


class PythonExecutor:
    """Executes registered functions. Parameters become keyword arguments."""

    kind = "python"

    def __init__(self, registry: Registry, *, slots: int, process_mode: ProcessMode | None = None) -> None:
        self._registry = registry
        self._threads = Threads(slots)
        self._process_mode = process_mode

    def close(self) -> None:
        self._threads.close()

    def runs_in_thread(self, attempt: ExecutorAttempt) -> bool:
        """True if the attempt runs in a thread, so that only the end of this process can end it."""
        function = self._registry.get(attempt.task.function) if isinstance(attempt.task, Python) else None
        return function is not None and function.mode == "thread"

    def in_background(self, task: Task) -> bool:
        function = self._registry.get(task.function) if isinstance(task, Python) else None
        return function is not None and function.mode == "thread"

    def start(self, attempt: A, ended: Callable[[A, Outcome], None]) -> None:
        assert isinstance(attempt.task, Python)
        function = self._registry.get(attempt.task.function)
        assert function is not None
        self._start_in_thread(attempt, function, ended)

    def execute(self, attempt: ExecutorAttempt) -> Coroutine[Any, Any, Outcome]:
        task = attempt.task
        assert isinstance(task, Python)
        function = self._registry.get(task.function)
        if function is None:
            return _fail(_unknown(task.function, self._registry.names))
        if function.mode == "async":
            return self._in_loop(attempt, function)
        if function.mode == "thread":
            return self._in_thread(attempt, function)
        if self._process_mode is None:
            return _fail(f"task {function.name!r} needs a process of its own, and this worker starts none")
        return self._process_mode.execute(attempt, function)

    async def _in_loop(self, attempt: ExecutorAttempt, function: Function) -> Outcome:
        reports = LoopReports(attempt, asyncio.get_running_loop())
        arguments = attempt.spec.parameters
        if function.wants_context:
            arguments = {**arguments, "ctx": context_of(attempt, reports)}
        before = CURRENT_REPORTS.set(reports)
        try:
            result = await function.call(**arguments)
        except GeneratorExit:  # The event loop is gone; this is another context.
            raise
        except asyncio.CancelledError:
            CURRENT_REPORTS.reset(before)
            raise
        except BaseException as error:
            CURRENT_REPORTS.reset(before)
            return raised(error, attempt.log)
        CURRENT_REPORTS.reset(before)
        return returned(function.name, result, attempt.log)

    async def _in_thread(self, attempt: ExecutorAttempt, function: Function) -> Outcome:
        # A thread cannot be interrupted: the function is informed through `ctx.cancelled`, and the executor waits for
        # it.
        attempt.on_cancel(lambda: None)
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def ended(_: ExecutorAttempt, found: Outcome) -> None:
            if not outcome.done():
                outcome.set_result(found)

        self._start_in_thread(attempt, function, ended)
        return await outcome

    def _start_in_thread(self, attempt: A, function: Function, ended: Callable[[A, Outcome], None]) -> None:
        reports = ThreadReports(attempt, asyncio.get_running_loop())
        arguments = attempt.spec.parameters
        if function.wants_context:
            arguments = {**arguments, "ctx": context_of(attempt, reports)}

        def call() -> Outcome:
            before = CURRENT_REPORTS.set(reports)
            try:
                result = function.call(**arguments)
            except BaseException as error:
                return raised(error, reports.write)
            finally:
                CURRENT_REPORTS.reset(before)
            return returned(function.name, result, reports.write)

        def deliver(outcome: Outcome) -> None:
            reports.pass_on()
            ended(attempt, outcome)

        self._threads.start(call, deliver)


class WorkerReports(Protocol):
    def log(self, text: str) -> None: ...

    def progress(self, fraction: float, note: str) -> None: ...


class LoopReports:
    """Passes on the output and progress of a function in the event loop, and of threads that it starts."""

    __slots__ = ("_attempt", "_loop", "_thread_reports")

    def __init__(self, attempt: ExecutorAttempt, loop: asyncio.AbstractEventLoop) -> None:
        self._attempt = attempt
        self._loop = loop
        self._thread_reports: ThreadReports | None = None

    def write(self, stream: str, text: str) -> None:
        if self._is_here():
            self._attempt.log(stream, text)
        else:
            self._in_thread().write(stream, text)

    def log(self, text: str) -> None:
        self.write("stdout", line(text))

    def progress(self, fraction: float, note: str) -> None:
        if self._is_here():
            if (report := step(fraction, note)) is not None:
                self._attempt.progress(*report)
        else:
            self._in_thread().progress(fraction, note)

    def _is_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _in_thread(self) -> ThreadReports:
        if self._thread_reports is None:
            self._thread_reports = ThreadReports(self._attempt, self._loop)
        return self._thread_reports


class ThreadReports:
    """Collects the output and progress of a function in a thread, and passes them on in the event loop."""

    __slots__ = ("_attempt", "_called", "_dropped", "_lock", "_loop", "_progress", "_size", "_written")

    def __init__(self, attempt: ExecutorAttempt, loop: asyncio.AbstractEventLoop) -> None:
        self._attempt = attempt
        self._loop = loop
        self._lock = threading.Lock()
        self._written: list[tuple[str, StringIO]] = []
        self._size = 0
        self._dropped = 0
        self._progress: tuple[float, str] | None = None
        self._called = False
        """True if there is something to pass on, and the event loop was asked to."""

    def write(self, stream: str, text: str) -> None:
        with self._lock:
            if not self._written or self._written[-1][0] != stream:
                if len(self._written) < MAX_BUFFERED_PIECES:
                    self._written.append((stream, StringIO()))
                else:
                    self._dropped += len(text)
                    return
            if self._size + len(text) > MAX_BUFFERED_LENGTH:
                self._dropped += len(text)
            else:
                self._written[-1][1].write(text)
                self._size += len(text)
            self._call()

    def log(self, text: str) -> None:
        self.write("stdout", line(text))

    def progress(self, fraction: float, note: str) -> None:
        if (report := step(fraction, note)) is not None:
            with self._lock:
                self._progress = report
                self._call()

    def _call(self) -> None:
        if not self._called and not self._loop.is_closed():
            self._called = True
            self._loop.call_soon_threadsafe(self.pass_on)

    def pass_on(self) -> None:
        if not self._called:
            return
        with self._lock:
            written, dropped, progress = self._written, self._dropped, self._progress
            self._written, self._size, self._dropped, self._progress, self._called = [], 0, 0, None, False
        for stream, text in written:
            self._attempt.log(stream, text.getvalue())
        if dropped:
            self._attempt.log("system", f"[{dropped} characters were logged too fast and dropped]\n")
        if progress is not None:
            self._attempt.progress(*progress)


def context_of(attempt: ExecutorAttempt, reports: WorkerReports) -> Context:
    return Context(
        job_id=attempt.job_id,
        run_id=attempt.run_id,
        attempt=attempt.attempt,
        fencing_token=attempt.token,
        fire_time=instant.to_datetime(attempt.fire_time),
        parameters=dict(attempt.spec.parameters),
        say_progress=reports.progress,
        say_log=reports.log,
        ask_cancelled=lambda: attempt.cancelled,
    )


def _unknown(name: str, known: Sequence[str]) -> str:
    offer = ", ".join(known[:MAX_NAMED]) or "none"
    if len(known) > MAX_NAMED:
        offer += f" and {len(known) - MAX_NAMED} more"
    return (
        f"no task named {name!r} on this worker, which has {offer}; start it with --tasks and the module that registers"
        f" {name!r}, or select workers that have it with the job's runsOn"
    )


def _failed(message: str) -> Failed:
    return Failed(Failure(kind="worker", message=message))


async def _fail(message: str) -> Failed:
    return _failed(message)
