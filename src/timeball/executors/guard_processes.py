"""What the guard knows about processes, and does to them.

Only the standard library is imported here: the guard process uses this module.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

LINUX = sys.platform == "linux"
KERNEL_LISTS_CHILDREN = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")


def find(program: str, path: str) -> str:
    """Where a program is that is named without its folder, as the search path has it."""
    if "/" not in program:
        refused = program
        for folder in path.split(os.pathsep):
            candidate = os.path.join(folder or ".", program)
            if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
                return candidate
            if os.path.isfile(candidate):
                refused = candidate
        return refused
    return program


def next_ended() -> tuple[int, int] | None:
    """A child that ended and its wait status. A zombie if possible, so that its number is not used again yet."""
    try:
        if not hasattr(os, "waitid"):
            pid, status = os.waitpid(-1, os.WNOHANG)
            return (pid, status) if pid else None
        seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    if seen is None:
        return None
    return seen.si_pid, seen.si_status << 8 if seen.si_code == os.CLD_EXITED else seen.si_status


def children(pid: int) -> list[int]:
    """Processes whose parent this is. Empty where there is no /proc."""
    found: list[int] = []
    try:
        if not KERNEL_LISTS_CHILDREN:
            return [each for each in map(int, filter(str.isdigit, os.listdir("/proc"))) if parent(each) == pid]
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found.extend(map(int, file.read().split()))
    except OSError:
        return found
    return found


def parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def kill_tree(pid: int) -> None:
    """Kill a process and its descendants, from the top, so that no process is left to start more."""
    pids = [pid]
    for each in pids:
        with contextlib.suppress(OSError):
            os.kill(each, signal.SIGSTOP)
        pids.extend(children(each))
    for each in pids:
        with contextlib.suppress(OSError):
            os.kill(each, signal.SIGKILL)


def make_expendable(pid: int) -> None:
    """When memory runs out, let the kernel end the job before any other process."""
    if LINUX:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w") as file:
            file.write("500")
