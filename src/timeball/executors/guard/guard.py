"""The worker's side of the guard: starts job processes through it, and replaces it when it dies.

The process that is started here becomes the keeper of the guard (`guard.keeper`), and forks the guard.
"""

from __future__ import annotations

import array
import asyncio
import errno
import json
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from timeball.domain.instant import Micros
from timeball.executors.guard import ending as guard_ending
from timeball.executors.guard import orphans
from timeball.executors.sandbox.confinement import Confinement

PROGRAM: Final = Path(__file__).with_name("guard_program.py")
PASSED_ON: Final = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE")
"""Environment variables that an interpreter may need. The guard gets no others: a job could read them in /proc."""
LEAVING: Final = 15.0
"""Seconds that a guard and its keeper get to end all job processes and themselves."""

FLUSH_RETRY_SECONDS: Final = 0.05
_FULL: Final = frozenset({errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM})

log = logging.getLogger("timeball.guard")


class GuardDied(Exception):
    """Raised when the guard of a job process died. The process and its descendants were killed with it."""


class StartRefused(Exception):
    """Raised when a process could not be started. `step` is the step that failed: program, folder,
    script, confine, fork …
    """

    def __init__(self, step: str, number: int) -> None:
        super().__init__(f"{step}: {os.strerror(number)}" if number else step)
        self.step = step
        self.number = number


class Child:
    """A job process that the guard starts. Signals may be sent at once; they are delivered after its start."""

    def __init__(self, guard: ProcessGuard, ident: int, mark: str) -> None:
        self._guard = guard
        self._id = ident
        self.marks = {mark}
        """Environment entries by which its processes are found if the guard cannot find them: that of `spawn`, and
        those that the owner of the process adds."""
        self.pid: int | None = None
        self.seen = 0.0
        """When the worker received the process id, in seconds since the machine was started."""
        self.ran_out_of_memory = False
        """True if the kernel killed this process or its descendants because they used more memory than allowed. Set
        when the process has ended.
        """
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = loop.create_future()
        """The wait status of the process, or the exception `StartRefused` or `GuardDied`."""
        self.exited.add_done_callback(lambda future: future.cancelled() or future.exception())

    def signal(self, number: int) -> None:
        """Send a signal to the whole process group."""
        if not self.exited.done():
            self._guard.send(do="signal", id=self._id, number=number)

    def kill(self) -> None:
        """Kill the process, its group and all its descendants."""
        if not self.exited.done():
            self._guard.send(do="kill", id=self._id)


class ProcessGuard:
    """Implements `ports.process_guard.Guard`. The guard process is started with the first process that needs it."""

    def __init__(self, confinement: Confinement | None = None, *, job_descriptors: int | None = None) -> None:
        """`job_descriptors` is the soft limit of file descriptors for jobs; None: that of the worker."""
        self.confinement = confinement or Confinement()
        self._job_descriptors = job_descriptors
        self._process: subprocess.Popen[bytes] | None = None
        """The keeper process."""
        self._pid: int | None = None
        self._groups: list[str] = []
        """The folders of the control groups of this guard."""
        self._ending: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None
        self._children: dict[int, Child] = {}
        self._count = 0
        self._deadline: Micros | None = None
        self._incoming = bytearray()
        self._outgoing: deque[tuple[bytes, list[int]]] = deque()
        self._writing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sending = threading.RLock()
        """Protects the queue and the socket: `renew_from_thread` may be called while the event loop sends."""

    @property
    def deadline(self) -> Micros | None:
        """The instant of the monotonic clock at which all processes are killed; None: not set yet."""
        return self._deadline

    @property
    def pid(self) -> int | None:
        """The process id of the guard; None until it has started."""
        return self._pid

    def renew(self, deadline: Micros) -> None:
        self._deadline = deadline
        if self._socket is not None:
            self.send(do="deadline", at=deadline)

    def renew_from_thread(self, deadline: Micros) -> None:
        """Set the deadline, like `renew`, from a thread other than that of the event loop, which may be blocked."""
        with self._sending:
            self._deadline = deadline
            if self._socket is None or self._loop is None:
                return
            self._outgoing.append((_framed({"do": "deadline", "at": deadline}), []))
            self._send_out()
            self._loop.call_soon_threadsafe(self._flush)  # the event loop sends what is left, and handles errors

    def kill_all(self) -> None:
        if self._socket is not None:
            self.send(do="kill_all")

    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        mark: str,
        descriptors: Sequence[int],
        folder: str | None = None,
        memory_mb: int = 0,
        script: tuple[str, str] | None = None,
    ) -> Child:
        """Start a process in a process group of its own. `descriptors` become its descriptors 0, 1, 2 and so on, and
        are closed here.

        `mark` is an environment entry (`NAME=value`) that no other process has. The guard removes `folder` if the
        worker dies before the process. `script` is the scripts folder, and the file in it that is a word of `argv`: the
        process can read it even if its user has no access to the folder. `memory_mb` is the memory limit of the process
        and its descendants, if there are control groups; 0 is no limit.
        """
        if self._socket is None:
            self._launch()
        self._count += 1
        child = self._children[self._count] = Child(self, self._count, mark)
        message: dict[str, Any] = {
            "do": "spawn",
            "id": self._count,
            "argv": list(argv),
            "env": dict(env),
            "cwd": cwd,
            "folder": folder,
            "descriptors": len(descriptors),
            "memory": memory_mb,
            "scripts": script[0] if script else None,
            "script": script[1] if script else None,
        }
        self._send(message, list(descriptors))
        return child

    def forget(self, folder: str) -> None:
        """Tell the guard that the folder of an ended process was removed."""
        if self._socket is not None:
            self.send(do="forget", folder=folder)

    async def close(self) -> None:
        """End all processes and the guard."""
        if self._process is not None:
            await self._end(self._process, self._groups, self._disconnect())
        if self._ending:
            await asyncio.wait(self._ending)

    def send(self, **message: Any) -> None:
        self._send(message, [])

    def _launch(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(PROGRAM), str(theirs.fileno()), *self._limits()],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self._socket = ours
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(ours.fileno(), self._readable)
        if self.confinement.cgroups:
            self.send(do="group", worker=os.getpid())
        self.send(do="confine", how=self.confinement.settings())
        if self._deadline is not None:
            self.send(do="deadline", at=self._deadline)

    def _limits(self) -> list[str]:
        return [] if self._job_descriptors is None else [str(self._job_descriptors)]

    # --- messages ------------------------------------------------------------------------------------------------

    def _send(self, message: dict[str, Any], descriptors: list[int]) -> None:
        if self._socket is None:
            _close(descriptors)
            return
        self._outgoing.append((_framed(message), descriptors))
        if not self._writing:
            self._flush()

    def _flush(self) -> None:
        """Send queued messages as far as possible, and the rest when the socket is writable again."""
        fault = self._send_out()
        connection = self._socket
        if connection is None:
            return
        if fault is not None:
            if fault.errno in _FULL:  # too many descriptors are in transit
                asyncio.get_running_loop().call_later(FLUSH_RETRY_SECONDS, self._flush)
            else:
                self._died()
            return
        waiting = bool(self._outgoing)
        if waiting != self._writing:
            self._writing = waiting
            loop = asyncio.get_running_loop()
            if waiting:
                loop.add_writer(connection.fileno(), self._flush)
            else:
                loop.remove_writer(connection.fileno())

    def _send_out(self) -> OSError | None:
        """Send queued messages as far as possible. Return the error, if there was one. Descriptors are sent with the
        first byte of their message.
        """
        with self._sending:
            while self._socket is not None and self._outgoing:
                content, descriptors = self._outgoing[0]
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
                try:
                    sent = self._socket.sendmsg([content], rights)
                except BlockingIOError:
                    break
                except OSError as error:
                    return error
                _close(descriptors)
                if sent < len(content):
                    self._outgoing[0] = (content[sent:], [])
                else:
                    self._outgoing.popleft()
        return None

    def _readable(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._died()
            return
        self._incoming += data
        while len(self._incoming) >= 4:
            (length,) = struct.unpack_from("!I", self._incoming)
            if len(self._incoming) < 4 + length:
                break
            message = json.loads(self._incoming[4 : 4 + length])
            del self._incoming[: 4 + length]
            self._heard(message)

    def _heard(self, message: dict[str, Any]) -> None:
        if message["did"] == "ready":
            self._pid = message["pid"]
            return
        if message["did"] == "grouped":
            self._groups = message["folders"]
            if message["problem"]:
                log.info("some control groups for jobs could not be created: %s", message["problem"])
            return
        if message["did"] == "started":
            child = self._children[message["id"]]
            child.pid, child.seen = message["pid"], orphans.since_boot()
            return
        child = self._children.pop(message["id"])
        child.ran_out_of_memory = message.get("ran_out", False)
        exited = child.exited
        if exited.done():
            return
        if message["did"] == "refused":
            exited.set_exception(StartRefused(message["step"], message["error"]))
        else:
            exited.set_result(message["status"])

    # --- the end of a guard ----------------------------------------------------------------------------------------

    def _died(self) -> None:
        """Handle the death of the guard: its processes are killed, because nothing else would end them if the worker
        died.
        """
        process, groups, children = self._process, self._groups, self._disconnect()
        log.error("the guard process died; its %d processes are killed", len(children))
        assert process is not None
        ending = asyncio.get_running_loop().create_task(self._end(process, groups, children))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _disconnect(self) -> list[Child]:
        """Drop the connection to the guard, so that a new guard is started for the next process. Return the processes
        of the old guard.
        """
        with self._sending:
            connection, self._socket, self._process, self._pid = self._socket, None, None, None
            unsent, self._outgoing = self._outgoing, deque()
        self._groups = []
        if connection is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(connection.fileno())
            loop.remove_writer(connection.fileno())
            connection.close()
        self._writing = False
        self._incoming.clear()
        for _, descriptors in unsent:
            _close(descriptors)
        children, self._children = self._children, {}
        return list(children.values())

    async def _end(self, keeper: subprocess.Popen[bytes], groups: list[str], children: list[Child]) -> None:
        """Wait until the keeper has ended all processes. If the keeper failed, kill them here."""
        try:
            keeper.send_signal(signal.SIGCONT)
            await guard_ending.wait(keeper, LEAVING)
            if keeper.returncode and children:
                marks = {mark.encode() for child in children for mark in child.marks}
                orphans.kill({child.pid: child.seen for child in children if child.pid is not None}, marks)
            await guard_ending.end_groups(groups, LEAVING)
        finally:
            for child in children:
                if not child.exited.done():
                    child.exited.set_exception(GuardDied())


def _framed(message: dict[str, Any]) -> bytes:
    content = json.dumps(message).encode()
    return struct.pack("!I", len(content)) + content


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
