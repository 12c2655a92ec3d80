"""The control groups of a guard's jobs.

    <the worker's own group>/timeball-…       one per guard; limits how many processes all its jobs have
        guard                                 version 2 only: the keeper, the guard, and jobs without limits
        job-…                                 a job with a limit of memory

So a job without limits costs nothing more: it is forked inside of the group. Where the system lets a worker make no
groups, or gives it no controllers, jobs run without.

Only the standard library is imported here: the guard process uses this module.
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
"""Of the processes that the machine can have, for all jobs of a worker: as much as systemd gives a service."""
OWN_SHARE: Final = 0.9
"""Of the processes that the worker's own group may have: the worker needs some itself."""
MIN_MEMORY_MB: Final = 16
"""A limit below this would end most programs before they begin."""
SWEEP_SECONDS: Final = 0.2
DELEGATED: Final = ("user.delegate", "trusted.delegate")
"""By these attributes systemd marks a group that belongs to the service (`Delegate=yes`)."""


class JobGroups:
    """Of one guard. What the system refuses is left out; `problem` says what it was."""

    def __init__(self, worker: int, processes: Sequence[int]) -> None:
        """`processes`: the guard and its keeper, which become members."""
        self.folders: list[str] = []
        """One for each hierarchy. The worker ends them when the guard is gone, whose processes are in them."""
        self.problem = ""
        self._parents_of_limited: dict[str, str] = {}
        """Where jobs with a limit of memory get their group, by hierarchy."""
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
        """The groups of a job with this limit; to be entered by its process."""
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
        """Remove the groups of a job that ended; whether it ran into its limit of memory."""
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
    """Remove the groups of a guard from inside, as their last member. The worker does so if it is there."""
    own = cgroups.own_groups().values()
    names = {part for folder in own for part in folder.split("/") if part.startswith(PREFIX)}
    for folder, name in ((folder, name) for folder in own for name in names):
        parent, is_inside, _ = folder.partition(f"/{name}")
        with contextlib.suppress(OSError):
            if is_inside:
                cgroups.enter(parent)
            cgroups.remove(f"{parent}/{name}")


def max_processes(own: str) -> int:
    """For all jobs of a worker in this group."""
    sizes = [cgroups.read(f"/proc/sys/kernel/{name}").strip() for name in ("pid_max", "threads-max")]
    found = [int(int(size) * PROCESSES_SHARE) for size in sizes if size.isdigit()]
    limit = cgroups.read(f"{own}/pids.max").strip()
    if limit.isdigit():
        found.append(int(int(limit) * OWN_SHARE))
    return max(1, min(found, default=1 << 15))


def sweep(own: str) -> None:
    """End what workers left that are gone: a job that killed its worker, guard and keeper is still in its group."""
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
    """The group to make groups in, and whether these can have limits.

    A group with members of its own gives no controllers to groups in it. A service manager that delegates a group
    starts the worker in a group below it, or in the group itself, where only the worker has to be moved.
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
    """Whether groups in it have those that are used here, once that was asked for."""
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
    """Process numbers mean something inside of one namespace only."""
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # a kernel without them
        namespace = 0
    return f"{PREFIX}{namespace}-"


def _is_alive(pid: int, started: str) -> bool:
    """Whether the process that was started then is there. One that cannot be looked at counts as alive."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return _started(pid) in ("", started)


def _started(pid: int) -> str:
    """When a process was started, as the kernel counts; empty if there is none."""
    stat = cgroups.read(f"/proc/{pid}/stat")
    return stat.rpartition(")")[2].split()[19] if stat else ""
