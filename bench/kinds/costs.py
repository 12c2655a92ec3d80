"""CPU time by process: server, worker, guard, job processes, database, target of HTTP calls, load generator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psutil

from bench import processes
from bench.deployment import Deployment

_GUARD = "guard_program"


def cpu_seconds(running: Deployment, target: int) -> dict[str, float]:
    """Return the CPU time so far, by process. A worker in the process of its server counts as `server`. `children` are
    all processes below the worker except its guard and the guard's keeper, also those that have ended.
    """
    guard, children = below(_worker(running))
    spent = running.cpu_seconds()
    load = spent.pop("load")
    return spent | {"guard": guard, "children": children, "target": processes.cpu_seconds(target), "load": load}


def guard_memory_mib(running: Deployment) -> dict[str, float]:
    """Return the private memory of the guard and its keeper."""
    pids = [process.pid for process, is_guard in _family(_worker(running)) if is_guard]
    return {"guard": sum(processes.memory_mib(pid) for pid in pids)}


def below(worker: int) -> tuple[float, float]:
    guard = children = 0.0
    for process, is_guard in _family(worker):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            own, of_ended = times.user + times.system, times.children_user + times.children_system
            guard += own if is_guard else 0.0
            children += of_ended + (0.0 if is_guard else own)
    return guard, children


def _worker(running: Deployment) -> int:
    return next(running.residents[role].pid for role in ("worker", "up") if role in running.residents)


def _family(worker: int) -> Iterator[tuple[psutil.Process, bool]]:
    """Yield every process below a worker, with whether it is the guard or its keeper."""
    keepers: set[int] = set()
    for process in psutil.Process(worker).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = process.ppid()
            # A process that the guard has just forked has the guard's command line, but another parent.
            is_guard = parent in (worker, *keepers) and any(_GUARD in word for word in process.cmdline())
            if is_guard and parent == worker:
                keepers.add(process.pid)
            yield process, is_guard
