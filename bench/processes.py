"""CPU time and memory of processes."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil


def cpu_seconds(pid: int, *, family: bool = False) -> float:
    """Return the CPU time of a process; with `family`, including all its children, also those that have ended."""
    process = psutil.Process(pid)
    times = process.cpu_times()
    spent = times.user + times.system
    if family:
        spent += times.children_user + times.children_system
        for child in process.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                of_child = child.cpu_times()
                spent += of_child.user + of_child.system
    return spent


def memory_mib(pid: int, *, family: bool = False) -> float:
    """Return the private memory of a process. Pages of mapped files, which belong to the cache of the system, and
    shared memory are not counted.
    """
    pids = [pid, *(_lasting_children(pid) if family else [])]
    return sum(_anonymous_kib(each) for each in pids) / 1024


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process, mapped files included."""
    return psutil.Process(pid).memory_info().rss / 2**20


def _lasting_children(pid: int) -> list[int]:
    """Return the child processes, without the autovacuum workers of PostgreSQL, which are short-lived."""
    children = psutil.Process(pid).children(recursive=True)
    titles = {}
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            titles[child.pid] = " ".join(child.cmdline())
    return [child for child, title in titles.items() if "autovacuum worker" not in title]


def _anonymous_kib(pid: int) -> int:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
    return 0
