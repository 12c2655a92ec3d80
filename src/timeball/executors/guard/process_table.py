"""Functions of the guard that list, find and kill processes.

No third-party package is imported here, because the guard process uses this module.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Collection

LINUX = sys.platform == "linux"
KERNEL_LISTS_CHILDREN = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
END_TICK_SECONDS = 0.005
UNKNOWN = -1
"""The parent of a process that is gone or hidden."""


def find(program: str, path: str) -> str:
    """Return the path of a program: the first executable file with its name on the search path; otherwise a file with
    its name that cannot be executed, or the name itself. A name with a slash is returned as it is."""
    if "/" not in program:
        refused = program
        for candidate in candidates(program, path):
            if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
                return candidate
            if os.path.isfile(candidate):
                refused = candidate
        return refused
    return program


def candidates(program: str, path: str) -> list[str]:
    """Return the paths where a program may be, in the order of the search path."""
    if "/" in program:
        return [program]
    return [os.path.join(folder or ".", program) for folder in path.split(os.pathsep)]


def next_ended() -> tuple[int, int] | None:
    """Return a child that ended and its wait status, or None. If possible it is left as a zombie, so that its process
    id is not reused yet.
    """
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
    """Return the child processes of a process. Empty if there is no /proc."""
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
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return UNKNOWN


def kill_tree(pid: int) -> None:
    """Kill a child of this process and all its descendants.

    All of them are stopped first, from the top, so that none starts new processes; then they are killed from the
    bottom, so that each still has the parent by which it is recognized.
    """
    tree = [pid]
    parents = {os.getpid()}
    for each in tree:
        signal_child(each, signal.SIGSTOP, parents)
        parents.add(each)
        tree.extend(child for child in children(each) if child not in parents)
    for each in reversed(tree):
        signal_child(each, signal.SIGKILL, parents)


def signal_child(pid: int, number: int, parents: Collection[int]) -> None:
    """Send a signal to a process if its parent is one of these, because its id may belong to another process by now.

    The parent is read after the process was opened and before it is signalled, so that both are about the same process.
    A parent that cannot be read is accepted: /proc may be mounted so that it hides processes that are not dumpable.
    """
    try:
        descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return
    except OSError:  # an old kernel, or no free descriptor
        descriptor = None
    try:
        found = parent(pid)
        if found == UNKNOWN or found in parents:
            with contextlib.suppress(OSError):
                if descriptor is None:
                    os.kill(pid, number)
                else:
                    signal.pidfd_send_signal(descriptor, number)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def end_children(seconds: float) -> bool:
    """Kill all children and their descendants until none is left. Return True if that succeeded in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for pid in children(os.getpid()):
            kill_tree(pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        select.select([], [], [], END_TICK_SECONDS)
    return False


def make_expendable(pid: int) -> None:
    """Let the kernel kill the job before other processes when memory runs out."""
    if LINUX:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w") as file:
            file.write("500")
