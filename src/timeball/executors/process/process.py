"""Runs one job process until its process group has ended. Shell commands, scripts and Python functions in process mode
use it.

The process runs in a new temporary folder, which is removed afterwards, unless the task names a folder. Its standard
input is what the caller gives, or empty.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw

from timeball.domain.instant import SECOND
from timeball.domain.run.lifecycle import Failed, Failure, Outcome, Succeeded
from timeball.executors import results
from timeball.executors.environment import environment_of, mark_of
from timeball.executors.guard.guard import Child, GuardDied, ProcessGuard, StartRefused
from timeball.executors.process.pipes import OutputLines, Pipe, ReadBudget
from timeball.executors.shortage import beginning
from timeball.executors.threads import in_own_thread
from timeball.job_user import JobUser
from timeball.ports.executor import ExecutorAttempt, OutOfResources
from timeball.resource_shortage import SHORTAGES

DRAIN_TIMEOUT: Final = 1.0
"""Seconds to wait for the end of the output after the process and its group have ended, because another process may
still have the pipe open.
"""
PERMISSION_DENIED: Final = "permission denied"
GUARD_DIED: Final = "the worker's guard process died, and this job was killed with it"
MAX_STDERR_TAIL: Final = 2_000
"""Maximum number of characters of standard error that are kept to explain a failure."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a process."""

    code: int
    """The exit code of the process; 128 + n if signal n killed it."""
    signal: int | None
    stderr_tail: str
    """The end of the standard error of the process."""
    result: str | None = None
    """The result that the process printed, or None."""


class Processes:
    """Runs processes for attempts, through the guard."""

    def __init__(self, guard: ProcessGuard) -> None:
        self._guard = guard
        self._budget = ReadBudget()

    @property
    def guard(self) -> ProcessGuard:
        return self._guard

    @property
    def user(self) -> JobUser | None:
        """The user that the processes run as; None: the worker's own."""
        return self._guard.confinement.user

    async def run(
        self,
        attempt: ExecutorAttempt,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None = None,
        stdin: bytes | None = None,
        words: Callable[[str], None] | None = None,
        script: tuple[str, str] | None = None,
    ) -> Exit | Failed:
        """Run a process until it and its group have ended. Returns `Failed` if it could not be started, or if it is
        unknown how it ended.

        `words` is called with the text that the process writes to descriptor 3. `script`: see `ProcessGuard.spawn`.
        """
        if any("\0" in word for word in (*argv, cwd or "", *env.values())):
            return _failed(f"{argv[0]!r} cannot be started: an argument or an environment variable contains NUL")
        with beginning():
            folder = tempfile.mkdtemp(prefix="timeball-") if cwd is None else None
        watch = _Watch(attempt, self._budget)
        user = self.user
        on_text = [watch.on_stdout, watch.on_stderr] if words is None else [watch.on_stdout, watch.on_stderr, words]
        complete = environment_of(attempt, env, user)
        resources = attempt.spec.resources
        memory_mb = resources.memory_mb if resources is not None else 0
        try:
            with beginning(), _closed_on_error() as descriptors:
                descriptors.append(_readable_file(stdin))
                descriptors += map(watch.pipe, on_text)
                if user is not None:
                    give_access(user, folder, descriptors if stdin is not None else descriptors[1:])
                child = self._guard.spawn(
                    argv,
                    env=complete,
                    cwd=cwd or folder or "/",
                    mark=mark_of(complete),
                    descriptors=descriptors,
                    folder=folder,
                    memory_mb=memory_mb,
                    script=script if user is not None else None,
                )
            watch.watch(child)
            status = await child.exited
            await watch.drain_pipes()
        except StartRefused as error:
            return refused(argv[0], cwd, error, user)
        except GuardDied:
            return _failed(GUARD_DIED)
        finally:
            watch.close()
            if folder is not None:
                await remove_folder(folder, self._guard)
        ended = watch.exit(status)
        if child.ran_out_of_memory:
            attempt.log("system", f"out of memory: the job used more than the {memory_mb} MiB of its resources\n")
        if ended.code or words:
            self.explain_closed_folders(attempt, ended.stderr_tail)
        return ended

    def explain_closed_folders(self, attempt: ExecutorAttempt, stderr_tail: str) -> None:
        """If a job could not access a file, log which folders its confinement closes."""
        if PERMISSION_DENIED not in stderr_tail.lower():
            return
        closed = self._guard.confinement.closed_folders()
        if closed:
            attempt.log(
                "system",
                "permission denied: if the path is directly in one of the folders"
                f" {', '.join(closed)}: jobs cannot create, remove or rename entries there, because these folders"
                " contain files of Timeball; subfolders are not affected. A --data-dir elsewhere changes that\n",
            )


class _Watch:
    """Reads the output of a process, and stops the process when its attempt is to stop."""

    def __init__(self, attempt: ExecutorAttempt, budget: ReadBudget) -> None:
        self._attempt = attempt
        self._budget = budget
        self._lines = OutputLines(attempt)
        self._stderr_tail = ""
        self._pipes: list[Pipe] = []
        self._child: Child | None = None
        self._force: asyncio.TimerHandle | None = None

    def pipe(self, on_text: Callable[[str], None]) -> int:
        """Return the write end of a new pipe for the process."""
        reading_end, theirs = os.pipe()
        try:
            self._pipes.append(Pipe(reading_end, on_text, self._budget))
        except BaseException:
            os.close(reading_end)
            os.close(theirs)
            raise
        return theirs

    def watch(self, child: Child) -> None:
        self._child = child
        self._attempt.on_cancel(self._stop)
        self._attempt.on_pause(partial(child.signal, signal.SIGSTOP), partial(child.signal, signal.SIGCONT))

    async def drain_pipes(self) -> None:
        open_pipes = [pipe.ended for pipe in self._pipes if not pipe.ended.done()]
        if open_pipes:
            await asyncio.wait(open_pipes, timeout=DRAIN_TIMEOUT)

    def close(self) -> None:
        """Close the pipes and kill the process, if it still runs because the wait for it was interrupted."""
        for pipe in self._pipes:
            pipe.close()
        self._lines.end()
        if self._force is not None:
            self._force.cancel()
        if self._child is not None:
            self._child.kill()

    def exit(self, status: int) -> Exit:
        return exit_of(status, self._stderr_tail, self._lines.result)

    def on_stdout(self, text: str) -> None:
        self._lines.feed(text)
        self._attempt.log("stdout", text)

    def on_stderr(self, text: str) -> None:
        self._stderr_tail = (self._stderr_tail + text[-MAX_STDERR_TAIL:])[-MAX_STDERR_TAIL:]
        self._attempt.log("stderr", text)

    def _stop(self) -> None:
        """Send SIGTERM, and kill the process after the grace; kill it at once if there is no grace."""
        child = self._child
        assert child is not None
        grace = self._attempt.grace
        if grace <= 0:
            child.kill()
        elif self._force is None:
            child.signal(signal.SIGTERM)
            # A stopped process handles the signal only after it continues.
            child.signal(signal.SIGCONT)
            self._force = asyncio.get_running_loop().call_later(grace / SECOND, child.kill)


async def remove_folder(folder: str, guard: ProcessGuard) -> None:
    """Remove the folder of a job. The guard has already removed an empty one."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return
    except OSError:
        try:
            await asyncio.shield(in_own_thread(partial(shutil.rmtree, folder, ignore_errors=True)))
        except RuntimeError:  # no thread is available: the guard removes the folder when it exits
            return
    guard.forget(folder)


def exit_of(status: int, stderr_tail: str, result: str | None = None) -> Exit:
    """Return how a process with this wait status ended."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    code = os.WEXITSTATUS(status) if number is None else 128 + number
    return Exit(code, number, stderr_tail.rstrip(), result)


def outcome_of(ended: Exit | Failed, attempt: ExecutorAttempt) -> Outcome:
    """Return the outcome of a process: exit code 0 is a success, with the result that it printed."""
    if isinstance(ended, Failed):
        return ended
    if ended.code == 0:
        return Succeeded() if ended.result is None else _with_result(ended.result.encode("utf-8", "replace"), attempt)
    what = f"exit code {ended.code}"
    if ended.signal is not None:
        with contextlib.suppress(ValueError):
            what = f"killed by {signal.Signals(ended.signal).name} ({what})"
    last_lines = "\n".join(ended.stderr_tail.splitlines()[-3:])
    message = f"{what}: {last_lines}" if last_lines else what
    return Failed(Failure(kind="exit", message=message, exit_code=ended.code))


def _with_result(encoded: bytes, attempt: ExecutorAttempt) -> Succeeded:
    try:
        if len(encoded) > results.LARGEST:
            reason = f"its ::result has at least {len(encoded)} bytes of JSON; at most {results.LARGEST} are kept"
        elif results.is_too_deep(encoded):
            reason = f"its ::result is nested more than {results.DEEPEST} levels deep"
        elif msgspec.json.decode(encoded) is None:
            return Succeeded()
        else:
            return Succeeded(Raw(encoded))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = f"its ::result is not JSON: {error}"
    attempt.log("system", f"{reason}\n")
    return Succeeded(results.not_kept(reason))


@contextlib.contextmanager
def _closed_on_error() -> Iterator[list[int]]:
    """Yield a list for descriptors, which are closed here if an error occurs before the guard has them."""
    descriptors: list[int] = []
    try:
        yield descriptors
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def give_access(user: JobUser, folder: str | None, descriptors: Sequence[int]) -> None:
    """Give the user of the job access to its folder, and to /dev/stdin, /dev/stdout and /dev/stderr."""
    if folder is not None:
        os.chown(folder, user.uid, user.gid)
    for descriptor in descriptors:
        os.fchown(descriptor, user.uid, user.gid)


def _readable_file(content: bytes | None) -> int:
    """Return a descriptor from which this content can be read. It is a file, because a pipe could block."""
    if content is None:
        return os.open(os.devnull, os.O_RDONLY)
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return os.dup(file.fileno())


def refused(program: str, cwd: str | None, error: StartRefused, user: JobUser | None) -> Failed:
    """Return the failure of a process that could not be started. Raises `OutOfResources` if the machine lacks a
    resource: the process has not started."""
    if error.number in SHORTAGES:
        raise OutOfResources(str(error)) from error
    return _failed(_refusal(program, cwd, error, user))


def _refusal(program: str, cwd: str | None, error: StartRefused, user: JobUser | None) -> str:
    why = os.strerror(error.number).lower() if error.number else ""
    if user is not None and error.number == errno.EACCES:
        why += f" for the job user {user.name}"
    match error.step:
        case "program":
            return f"cannot run {program!r} on this worker: {why}"
        case "folder":
            return f"cannot use the folder {cwd!r} on this worker: {why}"
        case "script" if user is not None:
            return (
                f"the job user {user.name} cannot read the script or a folder on the way to it:"
                f" chgrp {user.gid} and chmod g+r the file, and g+rx the folders below and including the scripts folder"
            )
        case "lease":
            return "not started: the worker's lease had lapsed"
        case _:
            return f"this worker cannot start a process for {program!r} ({error.step}): {why}"


def _failed(message: str) -> Failed:
    return Failed(Failure(kind="worker", message=message))
