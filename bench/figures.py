"""How figures are summed up and shown."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
from collections.abc import Iterable


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def machine() -> str:
    return (
        f"{os.cpu_count()} cores, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version} (WAL, FULL), "
        "PostgreSQL with fsync and synchronous_commit on; load generator and database on the same machine"
    )
