"""How much of a page is read: pages are bounded in rows by the request, and in bytes here (I28).

A page is found by ids and sizes first, and only what fits is read: 200 jobs of 1 MiB took 450 MB of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from timeball.stores.sql.driver import Row

MAX_PAGE_BYTES: Final = 1 << 20
"""What the rows of a page have at most together; a page has at least one row, whatever its size."""


def fitting(sizes: Iterable[int], limit: int) -> int:
    """How many of the first rows, `limit` at most, make a page."""
    count = total = 0
    for size in islice(sizes, limit):
        total += size
        if total > MAX_PAGE_BYTES and count:
            break
        count += 1
    return count


def ids_that_fit(rows: Sequence[Row], limit: int) -> list[str]:
    """The ids of a page, given rows of an id and a size."""
    ids = [found_id for found_id, _ in rows]
    return ids[: fitting((size or 0 for _, size in rows), limit)]
