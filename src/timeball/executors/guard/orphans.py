"""Kills the processes of jobs whose guard and keeper were both killed.

Such a process has only the first process of the machine as its ancestor. It is recognized by its session and process
group, whose number is the process id of the job's main process, and by the mark in its environment.
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
"""Maximum number of passes over the process list. A process may start another one while the list is read."""
START_SLACK_SECONDS: Final = 0.1
"""Tolerance in the comparison of start times of processes, because the kernel rounds them."""


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of /proc/PID/stat that are used here."""

    group: int
    session: int
    started: float
    """Start time in seconds since the machine was started."""
    is_alive: bool


def since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else 0.0


def kill(mains: Mapping[int, float], marks: Collection[bytes]) -> None:
    """Kill all processes of these jobs. `mains` has the process ids of their main processes, and when the worker
    learned each (`since_boot`). `marks` are their environment entries.
    """
    for _ in range(MAX_PASSES):
        found = {pid: stat for pid in _pids() if (stat := read_stat(pid)) is not None and stat.is_alive}
        # If a process with this id started later, the id was reused, and its session does not belong to the job.
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
    """Kill a process, unless its id belongs to another process by now. Return True if it was killed."""
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
