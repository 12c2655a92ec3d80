"""Supervises the processes of one command: it starts them with `fork`, starts those again that die, and stops all.

The supervising process does nothing else: it has no event loop, no threads, no store and no key in use, so that a fork
copies nothing that belongs to one process only.

    started ──ready──▶ up ──dies──▶ waits (1 s, 2 s … 30 s) ──▶ started
       └─ends with an error before it was ever ready: all are stopped, and its exit code is that of the command
"""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Sequence
from typing import Final

import structlog
from msgspec import Struct

FIRST_DELAY: Final = 1.0
"""Seconds before a process that died starts again."""
MAX_DELAY: Final = 30.0
"""Each further death doubles the delay, up to this many seconds."""
SETTLED_SECONDS: Final = 60.0
"""A process that has lived for this many seconds starts again after the first delay."""
MAX_MESSAGE: Final = 4_096
SIGNALS: Final = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM)

_log = structlog.get_logger()


class Supervised(Struct, frozen=True):
    """What the supervisor gives to each process that it starts: its name and number, the message of the leader, and the
    descriptors of two pipes between them."""

    name: str
    number: int
    """The number of the process: 0 for the leader, 1 and more for the members."""
    message: str
    """What the leader said when it was ready; empty if there is no leader."""
    lifeline: int
    """The reading end of a pipe that the supervisor never writes to: it is at its end as soon as the supervisor is
    gone."""
    _report: int

    def is_ready(self, message: str = "") -> None:
        """Tell the supervisor that this process is ready. Call it once."""
        os.write(self._report, message.encode() + b"\n")
        os.close(self._report)


class _Child(Struct):
    name: str
    number: int
    pid: int = 0
    """0 while it does not run."""
    report: int = -1
    received: bytes = b""
    was_ready: bool = False
    """True if it has been ready, in this or an earlier life."""
    started_at: float = 0.0
    start_at: float | None = None
    """When it starts, on the monotonic clock; None if it runs, or is not started again."""
    delay: float = FIRST_DELAY


class Supervisor:
    """Starts, restarts and stops its processes: members, such as workers, and at most one leader, such as a server. The
    leader starts first: the members start when it is ready, and it stops after them."""

    def __init__(self, members: Sequence[str], leader: str | None = None) -> None:
        """The arguments are the names of the processes."""
        self._leader = None if leader is None else _Child(leader, 0)
        self._members = [_Child(name, number) for number, name in enumerate(members, 1)]
        self._children = [*([] if self._leader is None else [self._leader]), *self._members]
        self._message = ""
        self._orders = 0
        """Number of signals to stop that have arrived."""
        self._code = 0
        self._selector = selectors.DefaultSelector()
        self._lifeline, self._alive = os.pipe()
        self._wakeup, self._woken = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(self._woken, False)
        self._previous = {number: signal.getsignal(number) for number in SIGNALS}

    def run(self) -> int | Supervised:
        """Start the processes. In the supervisor, return the exit code of the command when all processes have ended. In
        each child process, return at once what the supervisor gives to it.
        """
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, _note)
        self._selector.register(self._wakeup, selectors.EVENT_READ, self._read_signals)
        (self._leader or self._members[0]).start_at = 0.0
        if self._leader is None:
            self._start_members()
        while True:
            for child in self._children:
                if (
                    child.start_at is not None
                    and child.start_at <= time.monotonic()
                    and (supervised := self._start(child)) is not None
                ):
                    return supervised
            if not any(child.pid or child.start_at is not None for child in self._children):
                return self._code
            for key, _ in self._selector.select(self._seconds_to_next_start()):
                key.data()

    def _start_members(self) -> None:
        for child in self._members:
            if not child.pid and not child.was_ready and child.start_at is None:
                child.start_at = 0.0

    def _seconds_to_next_start(self) -> float | None:
        due = [child.start_at for child in self._children if child.start_at is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    # --- the life of a child ----------------------------------------------------------------------------------------

    def _start(self, child: _Child) -> Supervised | None:
        """Fork a process, or try again later if the machine lacks a resource. Return None in the supervisor, and in the
        new process what the supervisor gives to it."""
        child.start_at = None
        child.started_at = time.monotonic()
        # A signal that arrives in the child before it has its own handlers would be taken for one to the supervisor.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            child.pid, report, theirs = _fork()
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            self._start_later(child, "a process cannot start now", error.strerror or "")
            return None
        if not child.pid:
            os.close(report)
            self._become_child()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            return Supervised(child.name, child.number, self._message, self._lifeline, theirs)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.close(theirs)
        os.set_blocking(report, False)
        child.report, child.received = report, b""
        self._selector.register(report, selectors.EVENT_READ, lambda: self._read_report(child))
        return None

    def _become_child(self) -> None:
        """In a new process: restore the signal handlers, enter a process group of its own, and close the descriptors of
        the supervisor."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        # A process group of its own: otherwise an interrupt of the terminal would reach the process twice, and the
        # second one stops it at once.
        os.setpgid(0, 0)
        self._selector.close()
        for descriptor in (self._alive, self._wakeup, self._woken):
            os.close(descriptor)
        for other in self._children:
            if other.report >= 0:
                os.close(other.report)

    def _read_report(self, child: _Child) -> None:
        try:
            data = os.read(child.report, MAX_MESSAGE) if child.report >= 0 else b""
        except BlockingIOError:
            return
        child.received += data
        if not data:
            self._close_report(child)
        elif b"\n" in child.received:
            child.was_ready = True
            if child is self._leader:
                self._message = child.received.partition(b"\n")[0].decode()
                if not self._orders:
                    self._start_members()

    def _close_report(self, child: _Child) -> None:
        if child.report >= 0:
            self._selector.unregister(child.report)
            os.close(child.report)
            child.report = -1

    def _ended(self, child: _Child, status: int) -> None:
        child.pid = 0
        self._read_report(child)  # what it wrote before its end
        self._close_report(child)
        code = os.waitstatus_to_exitcode(status)
        lived = time.monotonic() - child.started_at
        if self._orders:
            self._code = self._code or (code if code >= 0 else 128 - code)
            if not any(member.pid for member in self._members):
                self._stop_leader()
        elif code == 0:
            if child is self._leader:
                self._stop(signal.SIGTERM)
        elif code > 0 and not child.was_ready:
            _log.error("a process cannot start: all are stopped", process=child.name, exit_code=code)
            self._code = code
            self._stop(signal.SIGTERM)
        else:
            if lived >= SETTLED_SECONDS:
                child.delay = FIRST_DELAY
            reason = f"exit code {code}" if code > 0 else f"signal {-code}"
            self._start_later(child, "a process has died and starts again", reason)

    def _start_later(self, child: _Child, event: str, reason: str) -> None:
        child.start_at = time.monotonic() + child.delay
        _log.error(event, process=child.name, reason=reason, seconds=child.delay)
        child.delay = min(2 * child.delay, MAX_DELAY)

    # --- signals ----------------------------------------------------------------------------------------------------

    def _read_signals(self) -> None:
        for number in os.read(self._wakeup, MAX_MESSAGE):
            if number != signal.SIGCHLD:
                self._stop(signal.Signals(number))
        for child in self._children:
            if child.pid:
                ended, status = os.waitpid(child.pid, os.WNOHANG)
                if ended:
                    self._ended(child, status)

    def _stop(self, number: signal.Signals) -> None:
        """Pass a signal to the members. The leader gets SIGTERM when all members have ended, or with the second signal.
        Processes that wait for a restart do not start again.
        """
        self._orders += 1
        for child in self._children:
            child.start_at = None
        members = [child for child in self._members if child.pid]
        for child in members:
            os.kill(child.pid, number)
        if self._leader is not None and (self._orders > 1 or not members):
            self._stop_leader()

    def _stop_leader(self) -> None:
        if self._leader is not None and self._leader.pid:
            os.kill(self._leader.pid, signal.SIGTERM)


def _fork() -> tuple[int, int, int]:
    """Fork. Return the process id (0 in the new process), and the reading and the writing end of a pipe. The new
    process writes to it when it is ready."""
    report, theirs = os.pipe()
    try:
        return os.fork(), report, theirs
    except OSError:
        os.close(report)
        os.close(theirs)
        raise


def _note(_: int, __: object) -> None:
    """Let the signal reach the wakeup descriptor, and do nothing else."""
