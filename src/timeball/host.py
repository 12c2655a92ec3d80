"""The CPUs and the memory that this process may use, and the time zone of the machine. A worker offers these CPUs and
this memory to runs, unless its settings say otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024
MEMBERSHIP: Final = Path("/proc/self/cgroup")
GROUPS: Final = Path("/sys/fs/cgroup")
ZONE_LINK: Final = Path("/etc/localtime")
ZONE_NAME: Final = Path("/etc/timezone")


def cpus() -> float:
    """Return the number of CPUs on which this process may run, or the limit of its control groups if that is lower."""
    return min([float(_schedulable()), *_cpu_quotas()])


def memory_mb() -> int | None:
    """Return the memory of the machine in MiB, or the limit of the control groups of this process if that is lower.
    None if neither is known.
    """
    try:
        physical = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (OSError, ValueError):
        physical = []
    return min((size // MIB for size in (*physical, *_memory_limits())), default=None)


def timezone() -> str:
    """Return the name of the time zone of the machine, which the cron of the machine uses; UTC if it is not known."""
    _, _, linked = str(ZONE_LINK.resolve()).partition("/zoneinfo/")
    written = _text(ZONE_NAME).strip()
    return next((name for name in (linked, written) if _is_zone(name)), "UTC")


def _is_zone(name: str) -> bool:
    from timeball.domain.schedule import zone

    return name in zone.names()


def _schedulable() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_quotas() -> Iterator[float]:
    for words in _limits("cpu.max"):
        quota, period = words
        yield int(quota) / int(period)


def _memory_limits() -> Iterator[int]:
    for words in _limits("memory.max"):
        yield int(words[0])


def _limits(name: str) -> Iterator[list[str]]:
    """Yield the words of a limit file of the control group (version 2) of this process and of all groups that contain
    it. Groups without a limit are left out.
    """
    for line in _text(MEMBERSHIP).splitlines():
        if line.startswith("0::"):
            own = GROUPS / line.removeprefix("0::").lstrip("/")
            for group in (own, *own.parents):
                if group.is_relative_to(GROUPS) and (words := _text(group / name).split()) and words[0] != "max":
                    yield words


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except (OSError, ValueError):
        return ""
