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
import gc
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

# An isolated interpreter does not search the folder of Timeball.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))

from timeball.executors.guard import keeper as guard_keeper
from timeball.executors.guard.confiner import PR_SET_DUMPABLE, Confiner, prctl
from timeball.executors.guard.guarded_job import GuardedJob, JobEnd, Vforking
from timeball.executors.guard.job_start import fork
from timeball.executors.guard.link import Link
from timeball.executors.guard.polling import Poller
from timeball.executors.guard.process_table import LINUX, children, end_children, kill_tree, make_expendable, next_ended
from timeball.executors.guard.turns import TurnLost, Turns
from timeball.executors.guard.vfork_start import make_starter
from timeball.executors.sandbox import cgroups
from timeball.executors.sandbox.job_groups import JobGroups

TICK = 0.05
STRAY_SECONDS = 1.0
"""Maximum number of seconds for which the guard delays the report of an ended job, until the processes that outlived
the job and were killed have ended. A process that waits for a device may never end.
"""
LEAVE_SECONDS = 10.0
"""Maximum number of seconds that the guard waits for killed processes before it exits."""
MAX_MESSAGES_PER_TURN = 8
"""Maximum number of messages of the worker between two checks for ended jobs, because each may start a process."""
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)
JOB_DESCRIPTORS = int(sys.argv[2]) if len(sys.argv) > 2 else None
"""The soft limit of file descriptors for jobs. The worker's own may be too high for programs that use select()."""


class GuardProgram:
    def __init__(self, worker: socket.socket, keeper: int) -> None:
        """`keeper` is the process id of the parent. The guard exits if its parent changes."""
        self.link = Link(worker)
        self.keeper = keeper
        self.confiner = Confiner()
        self.jobs: dict[int, GuardedJob] = {}
        self.by_pid: dict[int, GuardedJob] = {}
        self.forked: dict[int, GuardedJob] = {}
        """Jobs that start after a fork, by the pipe to watch. A folder or a program on a dead file server may keep a
        job here for long.
        """
        self.vforked: dict[int, GuardedJob] = {}
        """Jobs that start with vfork, by their id. A thread waits for each of them."""
        self.groups: JobGroups | None = None
        self.ended: list[JobEnd] = []
        self.strays: dict[int, float] = {}
        """Processes that outlived their job and were killed, by process id. The value is the time until which the
        process delays the reports of ended jobs, in seconds of the monotonic clock."""
        self.folders: set[str] = set()
        """Folders that the guard removes when it exits, unless the worker did so before."""
        self.deadline: int | None = None
        """The time at which all job processes must have ended, shortly before the worker's lease lapses, in
        microseconds of the monotonic clock, which all processes of a machine share."""
        self.pid = os.getpid()
        self.poller = Poller()
        self.turns = Turns(self.work, self.poller.wake_up)
        self.vfork = make_starter(guard=self.pid, handled=HANDLED, max_descriptors=JOB_DESCRIPTORS)

    def work(self) -> NoReturn:
        """Serve the worker until the worker or the keeper is gone. Then end all jobs, and exit."""
        status = 1
        try:
            self.run()
            status = 0
        except TurnLost:
            raise
        except BaseException:
            sys.excepthook(*sys.exc_info())
        self.leave()
        os._exit(status)

    def run(self) -> None:
        while self.link.is_open and os.getppid() == self.keeper:
            while self.turns.late:
                self.turns.late.popleft()()
            self.reap()
            self.check_deadline()
            worker = self.link.fileno()
            ready = self.wait()
            # After a long stop (SIGSTOP) the deadline is checked first, so that no waiting job starts.
            self.check_deadline()
            if self.confiner.made.fileno() in ready:
                self.confiner.receive()
            for descriptor in ready:
                if descriptor in self.forked:
                    self.see_start(self.forked[descriptor])
            if ready.get(worker, 0) & select.POLLOUT:
                self.link.flush()
            if ready.get(worker, 0) & ~select.POLLOUT:
                self.link.receive()
            for _ in range(min(len(self.link.inbox), MAX_MESSAGES_PER_TURN)):
                self.obey(*self.link.inbox.popleft())

    def wait(self) -> dict[int, int]:
        """Wait for events. Return the descriptors that have some."""
        worker = self.link.fileno()
        readable = (worker, self.confiner.made.fileno(), *self.forked)
        return self.poller.wait(readable, worker if self.link.has_unsent else None, self.poll_timeout())

    def poll_timeout(self) -> float | None:
        if self.link.inbox:
            return 0.0
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
            if job.is_starting:
                job.signals.append(message["number"])
                return
            with contextlib.suppress(OSError):
                os.killpg(job.pid, message["number"])

    # --- processes -------------------------------------------------------------------------------------------

    def spawn(self, message: dict[str, Any], descriptors: list[int], *, may_vfork: bool = True) -> None:
        if self.expired:
            close_all(descriptors)
            self.link.send(did="refused", id=message["id"], step="lease", error=0)
            return
        self.confiner.prepare()
        groups: list[str] = []
        if message["memory"] and self.groups is not None:
            groups = self.groups.make_limited(message["id"], message["memory"])
        job = GuardedJob(message["id"], message["folder"], groups)
        if may_vfork and not groups and self.start_with_vfork(job, message, descriptors):
            return
        try:
            job.pid, job.pipe = fork(
                message, descriptors, groups=groups, confiner=self.confiner, max_descriptors=JOB_DESCRIPTORS
            )
        except OSError as error:
            self.close_groups(groups)
            self.link.send(did="refused", id=job.id, step="fork", error=error.errno)
            return
        finally:
            close_all(descriptors)
        self.jobs[job.id] = self.by_pid[job.pid] = self.forked[job.pipe] = job
        if job.folder is not None:
            self.folders.add(job.folder)

    def start_with_vfork(self, job: GuardedJob, message: dict[str, Any], descriptors: list[int]) -> bool:
        """Start a job with vfork. Return False if that is not possible, and the job has to be started with a fork."""
        if self.vfork is None or len(descriptors) < message["descriptors"] or not self.turns.has_watch():
            return False
        start = self.vfork.prepare(message, descriptors, self.confiner)
        if start is None:
            return False
        job.vfork = Vforking(start, message, descriptors)
        self.jobs[job.id] = self.vforked[job.id] = job
        if job.folder is not None:
            self.folders.add(job.folder)

        def has_returned() -> None:
            self.has_vforked(job)

        self.turns.call(start.run, has_returned)
        has_returned()
        return True

    def has_vforked(self, job: GuardedJob) -> None:
        """Called when the start of a job with vfork has returned: report the job as started. If the start failed, start
        the job once more with a fork, which finds out which step fails."""
        if job.vfork is None:
            return
        start, message, descriptors = job.vfork
        self.see_pids()
        job.vfork = None
        del self.vforked[job.id]
        if self.confiner.changes_user:
            prctl(PR_SET_DUMPABLE, 0)  # the kernel resets it with the user of a process that shares this memory
        if start.has_failed:
            del self.jobs[job.id]
            self.by_pid.pop(job.pid, None)
            self.spawn(message, descriptors, may_vfork=False)
            return
        close_all(descriptors)
        self.has_started(job)

    def see_pids(self) -> bool:
        """Register the process ids of jobs that start with vfork. Return False if one is not known yet."""
        for job in self.vforked.values():
            if job.pid == 0 and job.vfork is not None and (pid := job.vfork.start.pid):
                job.pid = pid
                self.by_pid[pid] = job
        return all(job.pid for job in self.vforked.values())

    def see_start(self, job: GuardedJob) -> None:
        """Check whether the program of a forked job was executed. Data in the pipe means that it could not be."""
        assert job.pipe is not None
        problem = os.read(job.pipe, 100)
        os.close(job.pipe)
        del self.forked[job.pipe]
        job.pipe = None
        if problem:
            del self.jobs[job.id], self.by_pid[job.pid]
            self.close_groups(job.groups)
            if job.folder is not None:
                self.folders.discard(job.folder)
            step, number = problem.decode().split()
            self.link.send(did="refused", id=job.id, step=step, error=int(number))
            return
        self.has_started(job)

    def has_started(self, job: GuardedJob) -> None:
        make_expendable(job.pid)
        self.link.send(did="started", id=job.id, pid=job.pid)
        for early in job.signals:
            with contextlib.suppress(OSError):
                os.killpg(job.pid, early)

    def reap(self) -> None:
        """Handle ended processes. When a job ends, its process group and all detached processes of it are killed."""
        any_ended = False
        self.see_pids()
        while (ended := next_ended()) is not None:
            any_ended = True
            pid, status = ended
            job = self.by_pid.get(pid)
            if job is not None and job.pipe is not None:
                self.see_start(job)
            elif job is not None and job.vfork is not None:
                self.has_vforked(job)
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

    def close_groups(self, groups: Sequence[str]) -> bool:
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
        """Kill the children of the guard that are not the main process of a running job. They outlived their jobs."""
        until = time.monotonic() + STRAY_SECONDS
        found = children(self.pid)
        if not self.see_pids():  # a child whose id is not known yet may be a job that starts
            return
        strays = [pid for pid in found if pid not in self.by_pid]
        for pid in strays:
            kill_tree(pid)
        self.strays = {pid: self.strays.get(pid, until) for pid in strays}

    def kill(self, job: GuardedJob) -> None:
        self.see_pids()
        if job.pid == 0:
            job.signals.append(signal.SIGKILL)
            return
        for group in job.groups:
            cgroups.kill(group)
        kill_tree(job.pid)
        with contextlib.suppress(OSError):
            os.killpg(job.pid, signal.SIGKILL)

    def kill_all(self) -> None:
        for pid in self.by_pid:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        for pid in children(self.pid):
            kill_tree(pid)

    def leave(self) -> None:
        """Kill all processes, wait for their end, and remove their folders."""
        end_children(LEAVE_SECONDS)
        if self.folders:
            import shutil

            for folder in self.folders:
                with contextlib.suppress(RecursionError):
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
    for number in HANDLED:
        signal.signal(number, lambda *_: None)
    # Jobs inherit these settings.
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.disable()
    gc.freeze()
    keeper = guard_keeper.split(worker.fileno()) if LINUX else os.getppid()
    guard = GuardProgram(worker, keeper)
    guard.link.send(did="ready", pid=guard.pid)
    guard.turns.serve()


if __name__ == "__main__":
    main()
