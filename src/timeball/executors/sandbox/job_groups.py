"""The control groups of a guard's jobs.

    <the worker's own group>/timeball-…       one per guard; limits how many processes all its jobs have
        guard                                 version 2 only: the keeper, the guard, and jobs without limits
        job-…                                 a job with a memory limit

A job without limits has no extra cost, because it is forked inside of the group. If the system does not allow the
worker to create groups, or gives it no controllers, jobs run without limits.

No third-party package is imported here, because the guard process uses this module.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from typing import Final

from timeball.executors.sandbox import cgroups
from timeball.executors.sandbox.cgroups import UNIFIED

PREFIX: Final = "timeball-"
PROCESSES_SHARE: Final = 0.15
"""The share of the machine's maximum number of processes that all jobs of a worker may have: the same as systemd gives
a service.
"""
OWN_SHARE: Final = 0.9
"""The share of the process limit of the worker's own group that jobs may use, because the worker needs some processes
itself.
"""
MIN_MEMORY_MB: Final = 16
"""Minimum memory limit: a lower one would kill most programs at their start."""
SWEEP_SECONDS: Final = 0.2
DELEGATED: Final = ("user.delegate", "trusted.delegate")
"""The attributes by which systemd marks a group that belongs to the service (`Delegate=yes`)."""


class JobGroups:
    """The control groups of one guard. Groups that the system refuses are left out; `problem` has the reason."""

    def __init__(self, worker: int, processes: Sequence[int]) -> None:
        """`processes` are the guard and its keeper, which become members."""
        self.folders: list[str] = []
        """One folder for each hierarchy. The worker removes them after the guard has exited."""
        self.problem = ""
        self._parents_of_limited: dict[str, str] = {}
        """By hierarchy: the group in which jobs with a memory limit get their own group."""
        self._left: list[str] = []
        own = cgroups.own_groups()
        if not own:
            self.problem = "no hierarchy of control groups is mounted"
            return
        self._name = f"{_prefix()}{worker}-{_started(worker)}-{os.getpid()}"
        for hierarchy, folder in own.items():
            known = len(self.folders)
            try:
                if hierarchy == UNIFIED:
                    self._join_unified(folder, worker, processes)
                else:
                    self._join(hierarchy, folder, processes)
            except OSError as error:
                self.problem = f"{error.strerror} ({error.filename or folder})"
                self._parents_of_limited.pop(hierarchy, None)
                self.folders[known:] = [each for each in self.folders[known:] if not cgroups.remove(each)]

    @property
    def limits_memory(self) -> bool:
        return bool(self._parents_of_limited)

    def make_limited(self, ident: int, memory_mb: int) -> list[str]:
        """Create and return the groups of a job with this memory limit. Its process has to enter them."""
        made: list[str] = []
        size = str(max(memory_mb, MIN_MEMORY_MB) << 20)
        for hierarchy, parent in self._parents_of_limited.items():
            folder = f"{parent}/job-{ident}"
            if hierarchy == UNIFIED:
                limits = [("memory.max", size), ("memory.swap.max", "0"), ("memory.oom.group", "1")]
            else:
                limits = [("memory.limit_in_bytes", size), ("memory.memsw.limit_in_bytes", size)]
            with contextlib.suppress(OSError):
                cgroups.make(folder, limits)
                made.append(folder)
        return made

    def close(self, folders: Sequence[str]) -> bool:
        """Remove the groups of an ended job. Return True if it exceeded its memory limit."""
        ran_out = any(_killed_for_memory(folder) for folder in folders)
        self._left = [folder for folder in (*self._left, *folders) if not cgroups.remove(folder)]
        return ran_out

    def _join(self, hierarchy: str, own: str, processes: Sequence[int]) -> None:
        folder = self._make(own)
        if hierarchy == "memory":
            self._parents_of_limited[hierarchy] = folder
        else:
            cgroups.write(f"{folder}/pids.max", str(max_processes(own)))
            for pid in processes:
                cgroups.enter(folder, pid)

    def _join_unified(self, own: str, worker: int, processes: Sequence[int]) -> None:
        base, has_controllers = _base(own, worker, processes)
        folder = self._make(base)
        if has_controllers:
            cgroups.write(f"{folder}/pids.max", str(max_processes(base)))
            cgroups.write(f"{folder}/cgroup.subtree_control", "+memory")
            self._parents_of_limited[UNIFIED] = folder
        cgroups.make(f"{folder}/guard")
        for pid in processes:
            cgroups.enter(f"{folder}/guard", pid)

    def _make(self, parent: str) -> str:
        sweep(parent)
        folder = f"{parent}/{self._name}"
        cgroups.make(folder)
        self.folders.append(folder)
        return folder


def leave() -> None:
    """Remove the groups of a guard from inside, as their last member. If the worker is alive, it does the same."""
    own = cgroups.own_groups().values()
    names = {part for folder in own for part in folder.split("/") if part.startswith(PREFIX)}
    for folder, name in ((folder, name) for folder in own for name in names):
        parent, is_inside, _ = folder.partition(f"/{name}")
        with contextlib.suppress(OSError):
            if is_inside:
                cgroups.enter(parent)
            cgroups.remove(f"{parent}/{name}")


def max_processes(own: str) -> int:
    """Return the maximum number of processes of all jobs of a worker in this group."""
    sizes = [cgroups.read(f"/proc/sys/kernel/{name}").strip() for name in ("pid_max", "threads-max")]
    found = [int(int(size) * PROCESSES_SHARE) for size in sizes if size.isdigit()]
    limit = cgroups.read(f"{own}/pids.max").strip()
    if limit.isdigit():
        found.append(int(int(limit) * OWN_SHARE))
    return max(1, min(found, default=1 << 15))


def sweep(own: str) -> None:
    """Kill the jobs of workers that are gone, and remove their groups: a job that killed its worker, guard and keeper
    is still in its group.
    """
    try:
        names = [name for name in os.listdir(own) if name.startswith(_prefix())]
    except OSError:
        return
    for name in names:
        worker, _, rest = name.removeprefix(_prefix()).partition("-")
        if not worker.isdigit() or _is_alive(int(worker), rest.partition("-")[0]):
            continue
        until = time.monotonic() + SWEEP_SECONDS
        while not cgroups.remove(f"{own}/{name}") and time.monotonic() < until:
            cgroups.kill(f"{own}/{name}")
            time.sleep(0.005)


def _base(own: str, worker: int, processes: Sequence[int]) -> tuple[str, bool]:
    """Return the group in which to create groups, and whether these can have limits.

    A group with members of its own cannot give controllers to its subgroups. A service manager that delegates a group
    starts the worker in a subgroup, or in the group itself; in that case the worker, guard and keeper are moved.
    """
    around = os.path.dirname(own)
    if _is_delegated(around) and not cgroups.members(around):
        return around, _has_controllers(around)
    if _is_delegated(own) and set(cgroups.members(own)) <= {worker, *processes}:
        place = f"{own}/worker-{worker}"
        cgroups.make(place)
        for pid in (worker, *processes):
            cgroups.enter(place, pid)
        return own, _has_controllers(own)
    is_root = not os.path.exists(f"{own}/cgroup.type")
    return own, is_root and _gives_controllers(own)


def _has_controllers(group: str) -> bool:
    """Enable the controllers for subgroups. Return True if they have them."""
    with contextlib.suppress(OSError):
        cgroups.write(f"{group}/cgroup.subtree_control", "+memory +pids")
    return _gives_controllers(group)


def _gives_controllers(group: str) -> bool:
    return {"memory", "pids"} <= set(cgroups.read(f"{group}/cgroup.subtree_control").split())


def _is_delegated(group: str) -> bool:
    for name in DELEGATED:
        with contextlib.suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return os.access(f"{group}/cgroup.procs", os.W_OK)
    return False


def _killed_for_memory(folder: str) -> bool:
    for name in ("memory.events", "memory.oom_control"):
        for line in cgroups.read(f"{folder}/{name}").splitlines():
            if line.startswith("oom_kill ") and line != "oom_kill 0":
                return True
    return False


def _prefix() -> str:
    """Return the prefix of group names. It contains the namespace, because process ids are only valid inside of one."""
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # a kernel without namespaces
        namespace = 0
    return f"{PREFIX}{namespace}-"


def _is_alive(pid: int, started: str) -> bool:
    """True if the process with this id and start time still exists. One that cannot be inspected counts as alive."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return _started(pid) in ("", started)


def _started(pid: int) -> str:
    """Return the start time of a process in kernel ticks; empty if it does not exist."""
    stat = cgroups.read(f"/proc/{pid}/stat")
    return stat.rpartition(")")[2].split()[19] if stat else ""
