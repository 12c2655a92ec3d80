"""Ends what is left of jobs whose guard and its keeper were both killed.

Nothing is their ancestor any more but the machine's first process. What tells them apart is their session and their
process group, which are numbered after the main process of the job, and the mark in their environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

MAX_PASSES: Final = 10
"""A process may start another one while the list of processes is read."""
START_SLACK_SECONDS: Final = 0.1
"""The kernel rounds the start of a process."""


@dataclass(frozen=True, slots=True)
class Stat:
    """What /proc/PID/stat says."""

    group: int
    session: int
    started: float
    """Seconds since the machine was started."""
    is_alive: bool


def since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else 0.0


def kill(mains: Mapping[int, float], marks: Collection[bytes]) -> None:
    """`mains`: the process ids of the jobs' main processes, and when the worker knew of each (`since_boot`)."""
    for _ in range(MAX_PASSES):
        found = {pid: stat for pid in _pids() if (stat := read_stat(pid)) is not None and stat.is_alive}
        # A number that belongs to a process which started later was given away again, and its session with it.
        own = {
            pid for pid, seen in mains.items() if pid not in found or found[pid].started <= seen + START_SLACK_SECONDS
        }
        killed = [pid for pid, stat in found.items() if _belongs(pid, stat, own, marks) and _kill(pid, stat)]
        if not killed:
            return


def read_stat(pid: int) -> Stat | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return Stat(int(fields[2]), int(fields[3]), started, fields[0] not in (b"Z", b"X"))


def _pids() -> list[int]:
    try:
        return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and int(entry) != os.getpid()]
    except OSError:
        return []


def _belongs(pid: int, stat: Stat, mains: Collection[int], marks: Collection[bytes]) -> bool:
    if stat.session in mains or stat.group in mains:
        return True
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return not set(marks).isdisjoint(file.read().split(b"\0"))
    return False


def _kill(pid: int, stat: Stat) -> bool:
    """Unless the number belongs to another process by now."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if read_stat(pid) != stat:
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
