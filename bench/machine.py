"""The origin of the figures: the machine, its current speed, and the versions of the programs."""

from __future__ import annotations

import functools
import os
import platform
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import timeball
from tests.support.postgres_binaries import find_binaries


@functools.cache
def facts() -> dict[str, str]:
    return {
        "machine": f"{os.cpu_count()} cores ({_processor()}), {_memory_gib()} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version() + (", the system's" if _is_the_systems() else ""),
        "SQLite": f"{sqlite3.sqlite_version}, WAL, synchronous FULL",
        "PostgreSQL": f"{find_binaries().version}, fsync and synchronous_commit on, other settings at their defaults",
        "Timeball": _commit(),
        "on the same machine": "load generator and database",
    }


def described() -> str:
    return "; ".join(f"{name} {value}" for name, value in facts().items())


def loop_ms() -> float:
    """Return the CPU time of an empty loop. On a shared host it doubles if the neighbours are busy, and so do all other
    times.
    """
    began = time.thread_time()
    for _ in range(2_000_000):
        pass
    return (time.thread_time() - began) * 1_000


def _is_the_systems() -> bool:
    """Return True for the Python of the distribution, which is built with profile-guided optimisation; others may not
    be.
    """
    return Path(sys.executable).resolve().is_relative_to("/usr/bin")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _commit() -> str:
    try:
        answer = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return timeball.__version__
    return f"{timeball.__version__} ({answer.stdout.strip()})"
