"""What the machine lets this process use: what a worker offers to runs that ask for a share, unless it is told. And
which time zone its clocks show."""

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
    """CPUs that this process may be scheduled on, or what its control groups allow if that is less."""
    return min([float(_schedulable()), *_cpu_quotas()])


def memory_mb() -> int | None:
    """MiB of the machine, or what its control groups allow if that is less; None: nobody can tell."""
    try:
        physical = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (OSError, ValueError):
        physical = []
    return min((size // MIB for size in (*physical, *_memory_limits())), default=None)


def timezone() -> str:
    """The name of the machine's time zone, which is what cron goes by; UTC if nobody can tell."""
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
    """The words of a limit, where there is one: of the process's control group (version 2) and all around it."""
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
