"""The size of pages: the request limits the number of rows, this module limits the bytes (promise I28).

A page is selected by ids and sizes first, and only rows that fit are read: a page of 200 jobs of 1 MiB took 450 MB of
memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from timeball.stores.sql.driver import Row

MAX_PAGE_BYTES: Final = 1 << 20
"""Maximum size of all rows of a page, in bytes. A page has at least one row, whatever its size."""


def fitting(sizes: Iterable[int], limit: int) -> int:
    """Return how many of the first rows fit on a page, at most `limit`."""
    count = total = 0
    for size in islice(sizes, limit):
        total += size
        if total > MAX_PAGE_BYTES and count:
            break
        count += 1
    return count


def ids_that_fit(rows: Sequence[Row], limit: int) -> list[str]:
    """Return the ids that fit on a page, from rows of an id and a size."""
    ids = [found_id for found_id, _ in rows]
    return ids[: fitting((size or 0 for _, size in rows), limit)]
