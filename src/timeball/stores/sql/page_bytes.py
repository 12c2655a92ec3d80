"""How much of a page is read: pages are bounded in rows by the request, and in bytes here (I28).

A page is found by ids and sizes first, and only what fits is read: 200 jobs of 1 MiB took 450 MB of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from timeball.stores.sql.driver import Row

T = TypeVar("T")

MAX_PAGE_BYTES: Final = 1 << 20
"""What the rows of a page have at most together; a page has at least one row, whatever its size."""


def fitting(rows: Sequence[Row], limit: int, size: Callable[[Row], int] = lambda row: row[1] or 0) -> int:
    """How many of the first rows, `limit` at most, make a page. By default the second column is the size of a row."""
    total = 0
    for count, row in enumerate(rows[:limit]):
        total += size(row)
        if total > MAX_PAGE_BYTES and count:
            return count
    return min(limit, len(rows))
