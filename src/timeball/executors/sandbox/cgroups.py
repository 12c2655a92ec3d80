"""Linux control groups: they limit a set of processes and kill all of them at once, even processes that detached
themselves.

Version 2 has one hierarchy of groups; version 1 has one for each controller, of which `pids` and `memory` are used
here. Many systems have both.

No third-party package is imported here, because the guard process uses this module.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from typing import Final

MOUNTS: Final = "/proc/self/mountinfo"
MEMBERSHIP: Final = "/proc/self/cgroup"
UNIFIED: Final = "unified"
"""The hierarchy of version 2. Those of version 1 have the names of their controllers."""
CONTROLLERS: Final = ("pids", "memory")


def own_groups() -> dict[str, str]:
    """Return the folder of this process's group in each mounted hierarchy."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in read(MOUNTS).splitlines():
        before, _, after = line.partition(" - ")
        places, kinds = before.split(" "), after.split(" ")
        if len(places) < 5 or len(kinds) < 3:
            continue
        root, place, kind, options = places[3], places[4], kinds[0], kinds[2]
        for name in [UNIFIED] if kind == "cgroup2" else options.split(",") if kind == "cgroup" else []:
            if name in (UNIFIED, *CONTROLLERS):
                mounts.setdefault(name, (root, place))
    found: dict[str, str] = {}
    for line in read(MEMBERSHIP).splitlines():
        _, names_of_line, path = line.split(":", 2)
        for name in names_of_line.split(",") if names_of_line else [UNIFIED]:
            root, place = mounts.get(name, ("", ""))
            inside = os.path.relpath(path, root) if root else ".."
            # A group outside of the namespace, or of the mounted part, has no folder here.
            if not f"{path}/".startswith("/../") and inside.split("/")[0] != "..":
                found[name] = os.path.normpath(os.path.join(place, inside))
    return found


def make(folder: str, limits: Iterable[tuple[str, str]] = ()) -> None:
    """Create a group. Limits that this kernel does not support are left out."""
    os.mkdir(folder)
    for name, value in limits:
        with contextlib.suppress(FileNotFoundError):
            write(f"{folder}/{name}", value)


def enter(folder: str, pid: int = 0) -> None:
    """Move a process into a group; 0 is this process."""
    write(f"{folder}/cgroup.procs", str(pid))


def members(folder: str) -> list[int]:
    return [int(word) for word in read(f"{folder}/cgroup.procs").split()]


def kill(folder: str) -> None:
    """Kill the members of a group and of its subgroups. Before Linux 5.14, a process that forks may be missed."""
    try:
        write(f"{folder}/cgroup.kill", "1")
    except OSError:
        with contextlib.suppress(OSError):
            write(f"{folder}/pids.max", "0")
        for pid in (pid for each in tree(folder) for pid in members(each)):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def remove(folder: str) -> bool:
    """Remove a group and its subgroups. Return False if there are members."""
    for each in tree(folder):
        try:
            os.rmdir(each)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


def tree(folder: str) -> list[str]:
    """Return the group and its subgroups, the innermost first."""
    return [each for each, _, _ in os.walk(folder, topdown=False)]


def read(path: str) -> str:
    """Return the content of a file; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def write(path: str, text: str) -> None:
    """Write to an existing file, in one call."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
