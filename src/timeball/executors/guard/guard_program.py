"""The guard: a small process between a worker and its job processes.

It starts the job processes, reports their ends to the worker, and kills all of them when the worker is gone (its socket
closes) or shortly before the worker's lease lapses. It is started as a plain file with an isolated interpreter and
imports few modules, so that a fork is cheap.

    worker → guard   confine, group, spawn (with descriptors), signal, kill, kill_all, deadline, forget
    guard → worker   ready, grouped, started, refused, exited

On Linux, the main process of a job, the guard and its keeper (`guard.keeper`) are subreapers. A process that detaches
itself from its job becomes a child of the job's main process. When that process ends, the guard inherits all its
children, kills them, and reports the end of the job when they are gone, or after `STRAY_SECONDS`.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Any, NamedTuple

# An isolated interpreter does not search the folder of Timeball.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))

from timeball.executors.guard import keeper as guard_keeper
from timeball.executors.guard.confiner import PR_SET_DUMPABLE, Confiner, prctl
from timeball.executors.guard.job_start import become
from timeball.executors.guard.link import Link
from timeball.executors.guard.process_table import LINUX, children, end_children, kill_tree, make_expendable, next_ended
from timeball.executors.sandbox import cgroups
from timeball.executors.sandbox.job_groups import JobGroups

TICK = 0.05
STRAY_SECONDS = 1.0
"""Maximum number of seconds that the end of a job waits for killed processes that it left. A process that waits for a
device may never end.
"""
LEAVE_SECONDS = 10.0
"""Maximum number of seconds that the guard waits for killed processes before it exits."""
JOB_DESCRIPTORS = int(sys.argv[2]) if len(sys.argv) > 2 else None
"""The soft limit of file descriptors for jobs. The worker's own may be too high for programs that use select()."""


class GuardedJob:
    __slots__ = ("folder", "groups", "id", "pid", "signals", "starting")

    def __init__(self, ident: int, pid: int, folder: str | None, starting: int, groups: list[str]) -> None:
        self.id = ident
        self.pid = pid
        self.folder = folder
        self.starting: int | None = starting
        """The pipe that reports an error of the start, or closes when the program was executed. None afterwards."""
        self.signals: list[int] = []
        """Signals that arrived before the program was executed; they are sent afterwards."""
        self.groups = groups
        """The control groups of the job, if it has a memory limit."""


class JobEnd(NamedTuple):
    """A job that has ended and whose end is not reported to the worker yet."""

    job: GuardedJob
    status: int
    until: float
    """Processes that the job left may delay the report until this time."""


class GuardProgram:
    def __init__(self, worker: socket.socket, keeper: int) -> None:
        """`keeper` is the process id of the parent. The guard exits if its parent changes."""
        self.link = Link(worker)
        self.keeper = keeper
        self.confiner = Confiner()
        self.jobs: dict[int, GuardedJob] = {}
        self.by_pid: dict[int, GuardedJob] = {}
        self.starting: dict[int, GuardedJob] = {}
        """Starting jobs by the descriptor to watch. A folder or a program on a dead file server may keep a job here for
        long.
        """
        self.groups: JobGroups | None = None
        self.ended: list[JobEnd] = []
        self.strays: dict[int, float] = {}
        """By process id: killed processes that ended jobs left, and until when they delay reports."""
        self.folders: set[str] = set()
        """Folders that the guard removes when it exits, unless the worker did so before."""
        self.deadline: int | None = None
        """When all job processes have to be gone, shortly before the worker's lease lapses, in microseconds of the
        monotonic clock, which all processes of a machine share.
        """
        self.pid = os.getpid()
        self.wake, wake_w = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_w, False)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)

    def run(self) -> None:
        """Serve the worker until the worker or the keeper is gone."""
        self.link.send(did="ready", pid=self.pid)
        while self.link.is_open and os.getppid() == self.keeper:
            self.reap()
            self.check_deadline()
            worker = self.link.fileno()
            ready = self.wait()
            # After a long stop (SIGSTOP) the deadline is checked first, so that no waiting job starts.
            self.check_deadline()
            if self.wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.wake, 4096)
            if self.confiner.made.fileno() in ready:
                self.confiner.receive()
            for descriptor in ready:
                if descriptor in self.starting:
                    self.see_start(self.starting[descriptor])
            if ready.get(worker, 0) & select.POLLOUT:
                self.link.flush()
            if ready.get(worker, 0) & ~select.POLLOUT:
                for message, descriptors in self.link.receive():
                    self.obey(message, descriptors)

    def wait(self) -> dict[int, int]:
        """Wait for events. Return the descriptors that have some."""
        poll = select.poll()
        poll.register(self.link.fileno(), select.POLLIN | (select.POLLOUT if self.link.has_unsent else 0))
        for descriptor in (self.wake, self.confiner.made.fileno(), *self.starting):
            poll.register(descriptor, select.POLLIN)
        poll_timeout = self.poll_timeout()
        return dict(poll.poll(None if poll_timeout is None else min(poll_timeout, 60.0) * 1e3))

    def poll_timeout(self) -> float | None:
        if self.ended:
            return TICK
        if self.deadline is None or not self.jobs:
            return None
        return max(TICK, (self.deadline - monotonic()) / 1e6)

    @property
    def expired(self) -> bool:
        return self.deadline is not None and monotonic() >= self.deadline

    def check_deadline(self) -> None:
        if self.jobs and self.expired:
            self.kill_all()

    # --- the worker ------------------------------------------------------------------------------------------

    def obey(self, message: dict[str, Any], descriptors: list[int]) -> None:
        what = message["do"]
        job = self.jobs.get(message.get("id", -1))
        if what == "spawn":
            self.spawn(message, descriptors)
        elif what == "confine":
            self.confiner.close()
            self.confiner = Confiner(**message["how"])
            self.confiner.confine_guard()
        elif what == "group":
            self.groups = JobGroups(message["worker"], [self.keeper, self.pid])
            self.link.send(did="grouped", folders=self.groups.folders, problem=self.groups.problem)
        elif what == "deadline":
            self.deadline = message["at"]
        elif what == "kill_all":
            self.kill_all()
        elif what == "forget":
            self.folders.discard(message["folder"])
        elif what == "kill" and job is not None:
            self.kill(job)
        elif what == "signal" and job is not None:
            if job.starting is not None:
                job.signals.append(message["number"])
                return
            with contextlib.suppress(OSError):
                os.killpg(job.pid, message["number"])

    # --- processes -------------------------------------------------------------------------------------------

    def spawn(self, message: dict[str, Any], descriptors: list[int]) -> None:
        ident = message["id"]
        if self.expired:
            close_all(descriptors)
            self.link.send(did="refused", id=ident, step="lease", error=0)
            return
        ends: tuple[int, ...] = ()
        groups: list[str] = []
        if message["memory"] and self.groups is not None:
            groups = self.groups.make_limited(ident, message["memory"])
        try:
            self.confiner.prepare()
            if len(descriptors) < message["descriptors"]:
                raise OSError(errno.EMFILE, "descriptors were lost on their way")
            ends = os.pipe()
            pid = os.fork()
        except OSError as error:
            close_all([*descriptors, *ends])
            self.close_groups(groups)
            self.link.send(did="refused", id=ident, step="fork", error=error.errno)
            return
        errors, errors_w = ends
        if pid == 0:
            become(
                message,
                descriptors,
                errors_w,
                guard=self.pid,
                groups=groups,
                confiner=self.confiner,
                max_descriptors=JOB_DESCRIPTORS,
            )
        close_all([*descriptors, errors_w])
        job = GuardedJob(ident, pid, message["folder"], errors, groups)
        self.jobs[ident] = self.by_pid[pid] = self.starting[errors] = job
        if job.folder is not None:
            self.folders.add(job.folder)

    def see_start(self, job: GuardedJob) -> None:
        """Check whether the program of a job was executed. Data in the pipe means that it could not be."""
        assert job.starting is not None
        problem = os.read(job.starting, 100)
        os.close(job.starting)
        del self.starting[job.starting]
        job.starting = None
        if problem:
            del self.jobs[job.id], self.by_pid[job.pid]
            self.close_groups(job.groups)
            if job.folder is not None:
                self.folders.discard(job.folder)
            step, number = problem.decode().split()
            self.link.send(did="refused", id=job.id, step=step, error=int(number))
            return
        make_expendable(job.pid)
        self.link.send(did="started", id=job.id, pid=job.pid)
        for early in job.signals:
            with contextlib.suppress(OSError):
                os.killpg(job.pid, early)

    def reap(self) -> None:
        """Handle ended processes. When a job ends, its process group and all detached processes of it are killed."""
        any_ended = False
        while (ended := next_ended()) is not None:
            any_ended = True
            pid, status = ended
            job = self.by_pid.get(pid)
            if job is not None and job.starting is not None:
                self.see_start(job)
            job = self.by_pid.pop(pid, None)
            if job is not None:
                del self.jobs[job.id]
                with contextlib.suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)
                for group in job.groups:
                    cgroups.kill(group)
                self.tidy(job)
                self.ended.append(JobEnd(job, status, time.monotonic() + STRAY_SECONDS))
            with contextlib.suppress(OSError):
                os.waitpid(pid, 0)
        if any_ended or self.ended:
            self.kill_strays()
            self.report_ends()

    def report_ends(self) -> None:
        """Report the ends of jobs once no process of ended jobs is left, or after `STRAY_SECONDS`."""
        now = time.monotonic()
        has_strays = any(until > now for until in self.strays.values())
        waiting = [each for each in self.ended if has_strays and each.until > now]
        for job, status, _ in self.ended[: len(self.ended) - len(waiting)]:
            if self.close_groups(job.groups):
                self.link.send(did="exited", id=job.id, status=status, ran_out=True)
            else:
                self.link.send(did="exited", id=job.id, status=status)
        self.ended = waiting

    def close_groups(self, groups: list[str]) -> bool:
        """Remove the groups of an ended job. Return True if it exceeded its memory limit."""
        return bool(groups) and self.groups is not None and self.groups.close(groups)

    def tidy(self, job: GuardedJob) -> None:
        """Remove the folder of an ended job if it is empty, which is the usual case. The worker removes folders that
        are not empty."""
        if job.folder is not None:
            with contextlib.suppress(OSError):
                os.rmdir(job.folder)
                self.folders.discard(job.folder)

    def kill_strays(self) -> None:
        """Kill children that are not the main process of a running job: ended jobs left them."""
        until = time.monotonic() + STRAY_SECONDS
        strays = [pid for pid in children(self.pid) if pid not in self.by_pid]
        for pid in strays:
            kill_tree(pid)
        self.strays = {pid: self.strays.get(pid, until) for pid in strays}

    def kill(self, job: GuardedJob) -> None:
        for group in job.groups:
            cgroups.kill(group)
        kill_tree(job.pid)
        with contextlib.suppress(OSError):
            os.killpg(job.pid, signal.SIGKILL)

    def kill_all(self) -> None:
        for job in self.jobs.values():
            with contextlib.suppress(OSError):
                os.killpg(job.pid, signal.SIGKILL)
        for pid in children(self.pid):
            kill_tree(pid)

    def leave(self) -> None:
        """Kill all processes, wait for their end, and remove their folders."""
        end_children(LEAVE_SECONDS)
        if self.folders:
            import shutil

            for folder in self.folders:
                shutil.rmtree(folder, ignore_errors=True)


def close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def monotonic() -> int:
    return time.monotonic_ns() // 1_000


def main() -> None:
    # The exec of the guard reset the setting "not dumpable", so it is set again. Without it, processes of the same user
    # could read the guard's memory, environment and descriptors; with it, only processes of root can.
    prctl(PR_SET_DUMPABLE, 0)
    worker = socket.socket(fileno=int(sys.argv[1]))
    worker.setblocking(False)
    os.set_inheritable(worker.fileno(), False)
    # The guard does not react to these signals: the worker decides what happens to the jobs. They are handled instead
    # of ignored, because jobs would inherit ignored signals.
    ignored = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)
    for number in ignored:
        signal.signal(number, lambda *_: None)
    # Jobs inherit these settings.
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.disable()
    gc.freeze()
    keeper = guard_keeper.split(worker.fileno()) if LINUX else os.getppid()
    guard = GuardProgram(worker, keeper)
    try:
        guard.run()
    finally:
        guard.leave()


if __name__ == "__main__":
    main()
