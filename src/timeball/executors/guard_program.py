"""The guard: a small process between a worker and its job processes.

It starts them, tells the worker how they ended, and kills them all when the worker is gone (their socket closes) or
when the moment passes until which the worker holds the right to run them. It is started as a plain file with an
isolated interpreter and imports next to nothing, so that a fork costs little.

    worker → guard   confine, spawn (with descriptors), signal, kill, kill_all, deadline
    guard → worker   started, refused, exited

Every message is JSON behind its length in four bytes. On Linux the guard is a subreaper: whoever detaches itself from
its job becomes a child of the guard, is recognised by the mark in its environment, and dies with the job. Such a
process that has also wiped its environment is killed when the next process of any job ends.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from typing import Any, NoReturn

# An isolated interpreter does not know the folder that Timeball is in.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from timeball.executors.guard_confiner import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, Confiner, prctl
from timeball.executors.guard_processes import children, find, kill_tree, make_expendable, next_ended

PR_SET_CHILD_SUBREAPER = 36
MOST_DESCRIPTORS = 64
SCRIPTS_FOLDER = 100
"""The descriptor of the scripts folder in a job whose user cannot reach it by its path."""
TICK = 0.05
FAREWELL = 10.0
"""Seconds to wait for killed processes to be gone before leaving."""
JOB_DESCRIPTORS = int(sys.argv[2]) if len(sys.argv) > 2 else None
"""The soft limit of descriptors for jobs: the worker's own may be higher than programs that use select() can bear."""


class Job:
    __slots__ = ("folder", "id", "mark", "pid", "signals", "starting")

    def __init__(self, ident: int, pid: int, mark: bytes, folder: str | None, starting: int) -> None:
        self.id = ident
        self.pid = pid
        self.mark = mark
        self.folder = folder
        self.starting: int | None = starting
        """Says what went wrong, or ends when the program has begun. None from then on."""
        self.signals: list[int] = []
        """Those that came too early for the program to see them."""


class Guard:
    def __init__(self, worker: socket.socket) -> None:
        self.worker = worker
        self.confiner = Confiner()
        self.jobs: dict[int, Job] = {}
        self.by_pid: dict[int, Job] = {}
        self.starting: dict[int, Job] = {}
        """By the descriptor to watch. A folder or a program on a dead file server may keep them there for long."""
        self.folders: set[str] = set()
        """To be removed by the guard, unless the worker lives to do so."""
        self.deadline: int | None = None
        """Microseconds of the monotonic clock, which all processes of a machine share."""
        self.incoming = bytearray()
        self.descriptors: list[list[int]] = []
        """Those of each message that came with some."""
        self.outgoing = bytearray()
        self.pid = os.getpid()
        self.wake, wake_w = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_w, False)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)

    def run(self) -> None:
        """Until the worker is gone."""
        while True:
            self.reap()
            self.check_deadline()
            worker = self.worker.fileno()
            ready = self.wait()
            # After a long stop (SIGSTOP) the deadline comes first: nothing that waited may start any more.
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
                self.flush()
            if ready.get(worker, 0) & ~select.POLLOUT and not self.listen():
                return

    def wait(self) -> dict[int, int]:
        """For something to happen; which descriptors it happened to."""
        poll = select.poll()
        poll.register(self.worker.fileno(), select.POLLIN | (select.POLLOUT if self.outgoing else 0))
        for descriptor in (self.wake, self.confiner.made.fileno(), *self.starting):
            poll.register(descriptor, select.POLLIN)
        patience = self.patience()
        return dict(poll.poll(None if patience is None else min(patience, 60.0) * 1e3))

    def patience(self) -> float | None:
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

    def listen(self) -> bool:
        """Do what the worker says; whether it is still there."""
        room = socket.CMSG_SPACE(MOST_DESCRIPTORS * array.array("i").itemsize)
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        try:
            data, ancillary, truncated, _ = self.worker.recvmsg(1 << 16, room, flags)
        except BlockingIOError:
            return True
        except OSError:
            return False
        came: list[int] = []
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                received = array.array("i")
                received.frombytes(content[: len(content) - len(content) % received.itemsize])
                for descriptor in received:
                    os.set_inheritable(descriptor, False)
                came.extend(received)
        # One call brings the descriptors of one message, and fewer of them when this process may open no more.
        if came or truncated & socket.MSG_CTRUNC:
            self.descriptors.append(came)
        if not data:
            return False
        self.incoming += data
        while len(self.incoming) >= 4:
            (length,) = struct.unpack_from("!I", self.incoming)
            if len(self.incoming) < 4 + length:
                break
            message = json.loads(self.incoming[4 : 4 + length])
            del self.incoming[: 4 + length]
            self.obey(message)
        return True

    def obey(self, message: dict[str, Any]) -> None:
        what = message["do"]
        job = self.jobs.get(message.get("id", -1))
        if what == "spawn":
            self.spawn(message, self.descriptors.pop(0) if message["descriptors"] else [])
        elif what == "confine":
            self.confiner.close()
            self.confiner = Confiner(**message["how"])
            self.confiner.confine_guard()
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

    def say(self, **message: Any) -> None:
        content = json.dumps(message).encode()
        self.outgoing += struct.pack("!I", len(content)) + content
        self.flush()

    def flush(self) -> None:
        try:
            sent = self.worker.send(self.outgoing)
            del self.outgoing[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.outgoing.clear()

    # --- processes -------------------------------------------------------------------------------------------

    def spawn(self, message: dict[str, Any], descriptors: list[int]) -> None:
        ident = message["id"]
        if self.expired:
            close_all(descriptors)
            self.say(did="refused", id=ident, step="lease", error=0)
            return
        ends: tuple[int, ...] = ()
        try:
            self.confiner.prepare()
            if len(descriptors) < message["descriptors"]:
                raise OSError(errno.EMFILE, "descriptors were lost on their way")
            ends = os.pipe()
            pid = os.fork()
        except OSError as error:
            close_all([*descriptors, *ends])
            self.say(did="refused", id=ident, step="fork", error=error.errno)
            return
        errors, errors_w = ends
        if pid == 0:
            become(message, descriptors, errors_w, self)
        close_all([*descriptors, errors_w])
        job = Job(ident, pid, message["mark"].encode(), message["folder"], errors)
        self.jobs[ident] = self.by_pid[pid] = self.starting[errors] = job
        if job.folder is not None:
            self.folders.add(job.folder)

    def see_start(self, job: Job) -> None:
        """Whether its program has begun; what is there to read says that it could not."""
        assert job.starting is not None
        problem = os.read(job.starting, 100)
        os.close(job.starting)
        del self.starting[job.starting]
        job.starting = None
        if problem:
            del self.jobs[job.id], self.by_pid[job.pid]
            if job.folder is not None:
                self.folders.discard(job.folder)
            step, number = problem.decode().split()
            self.say(did="refused", id=job.id, step=step, error=int(number))
            return
        make_expendable(job.pid)
        self.say(did="started", id=job.id, pid=job.pid)
        for early in job.signals:
            with contextlib.suppress(OSError):
                os.killpg(job.pid, early)

    def reap(self) -> None:
        """Take note of who ended. A job's end ends its group, and whoever detached itself from it."""
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
                self.tidy(job)
                self.say(did="exited", id=job.id, status=status)
            with contextlib.suppress(OSError):
                os.waitpid(pid, 0)
        if any_ended:
            self.kill_strays()

    def tidy(self, job: Job) -> None:
        """Most jobs leave their folder empty. The worker has the time to remove the others."""
        if job.folder is not None:
            with contextlib.suppress(OSError):
                os.rmdir(job.folder)
                self.folders.discard(job.folder)

    def kill_strays(self) -> None:
        """Children that are no job's main process are orphans; those without the mark of a living job go."""
        marks = {job.mark for job in self.jobs.values()}
        for pid in children(self.pid):
            if pid not in self.by_pid and marks.isdisjoint(self.environment(pid)):
                kill_tree(pid)

    def kill(self, job: Job) -> None:
        kill_tree(job.pid)
        with contextlib.suppress(OSError):
            os.killpg(job.pid, signal.SIGKILL)
        for pid in children(self.pid):
            if pid not in self.by_pid and job.mark in self.environment(pid):
                kill_tree(pid)

    def environment(self, pid: int) -> set[bytes]:
        try:
            with self.confiner.as_user(), open(f"/proc/{pid}/environ", "rb") as file:
                return set(file.read().split(b"\0"))
        except OSError:
            return set()

    def kill_all(self) -> None:
        for job in self.jobs.values():
            with contextlib.suppress(OSError):
                os.killpg(job.pid, signal.SIGKILL)
        for pid in children(self.pid):
            kill_tree(pid)

    def leave(self) -> None:
        """Kill everybody, see them gone, remove what they left."""
        until = time.monotonic() + FAREWELL
        while time.monotonic() < until:
            self.kill_all()
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                break
            select.select([self.wake], [], [], TICK / 10)
        if self.folders:
            import shutil

            for folder in self.folders:
                shutil.rmtree(folder, ignore_errors=True)


def become(message: dict[str, Any], descriptors: list[int], errors: int, guard: Guard) -> NoReturn:
    """In the new process: turn into the job, quickly: every page touched here is copied first."""
    step = "prepare"
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard.pid:
            os._exit(127)
        # Descriptors are moved out of the way before they take their places from 0 on.
        lowest = SCRIPTS_FOLDER + 1 if message["script"] else len(descriptors)
        errors = fcntl.fcntl(errors, fcntl.F_DUPFD_CLOEXEC, lowest)
        aside = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, lowest) for each in descriptors]
        for place, descriptor in enumerate(aside):
            os.dup2(descriptor, place, inheritable=True)
        argv, script = message["argv"], message["script"]
        scripts = os.open(message["scripts"], os.O_PATH | os.O_DIRECTORY) if script else -1
        step = "confine"
        guard.confiner.confine()
        if os.getppid() != guard.pid:
            os._exit(127)
        if script:
            step = "script"
            argv = reach(script, message["scripts"], scripts, argv)
        step = "folder"
        os.chdir(message["cwd"])
        step = "program"
        if JOB_DESCRIPTORS is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (JOB_DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        program = find(argv[0], message["env"].get("PATH", os.defpath))
        os.execve(program, argv, message["env"])
    except OSError as error:
        os.write(errors, f"{step} {error.errno or errno.EIO}".encode())
    except BaseException:
        os.write(errors, f"{step} {errno.EINVAL}".encode())
    os._exit(127)


def reach(script: str, folder: str, opened: int, argv: list[str]) -> list[str]:
    """The command with a path by which this user can read the script: through its folder's descriptor if need be."""
    if os.access(script, os.R_OK):
        return argv
    way = f"/proc/{os.getpid()}/fd/{SCRIPTS_FOLDER}/{os.path.relpath(script, folder)}"
    os.dup2(opened, SCRIPTS_FOLDER, inheritable=True)
    if not os.access(way, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return [way if word == script else word for word in argv]


def close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def monotonic() -> int:
    return time.monotonic_ns() // 1_000


def main() -> None:
    # Exec resets it. No process but root's reads the guard's memory, environment or descriptors.
    prctl(PR_SET_DUMPABLE, 0)
    worker = socket.socket(fileno=int(sys.argv[1]))
    worker.setblocking(False)
    os.set_inheritable(worker.fileno(), False)
    # Not for the guard: whoever stops the worker decides about the jobs through it. Handled rather than ignored, since
    # what is ignored stays so in the jobs.
    ignored = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)
    for number in ignored:
        signal.signal(number, lambda *_: None)
    # The jobs inherit these.
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    gc.disable()
    gc.freeze()
    guard = Guard(worker)
    try:
        guard.run()
    finally:
        guard.leave()


if __name__ == "__main__":
    main()
