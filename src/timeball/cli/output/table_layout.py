"""The layout of a table on a terminal: which columns fit, and how wide each of them is.

An id or a time is always on one line, so that it can be read and copied. Other texts that are too long continue on the
next line: they are broken between words, and within a word that is longer than the column. Columns without a value in
any row are left out, and so are optional columns if the terminal is too narrow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

GAP: Final = 2
"""Characters between two columns."""
COMFORTABLE: Final = 16
"""Words of up to this many characters stay on one line, as long as leaving out optional columns makes that possible."""
NARROWEST: Final = 9
"""Words of up to this many characters always stay on one line. No status is longer."""
_UNBREAKABLE: Final = re.compile(r"[a-z]{1,4}_[0-9a-f]{16,}|[0-9a-f]{12}|\d{4}-\d\d-\d\dT\S+")
"""An id, a fingerprint, or an exact time."""


class TextColumn(NamedTuple):
    title: str
    cells: Sequence[str]
    is_time: bool = False
    optional: bool = False

    def natural_width(self) -> int:
        return max(len(self.title), *map(len, self.cells))

    def narrow_width(self, kept: int) -> int:
        """Return the smallest width with which words of up to `kept` characters stay on one line."""
        return max(len(self.title), *(self._narrow(cell, kept) for cell in self.cells))

    def _narrow(self, cell: str, kept: int) -> int:
        if self.is_time or len(cell) <= kept:
            return len(cell)
        return max(
            (len(word) if _UNBREAKABLE.fullmatch(word) else min(len(word), kept) for word in cell.split()), default=0
        )


def layout(columns: Sequence[TextColumn], width: int) -> dict[int, int] | None:
    """Return the widths of the columns to print, by their index. None if not even the narrowest table fits."""
    shown = [index for index, column in enumerate(columns) if any(column.cells)]
    if fitting := _widths(columns, shown, COMFORTABLE, width):
        return fitting
    for index in reversed(shown):
        if columns[index].optional:
            shown.remove(index)
            if fitting := _widths(columns, shown, COMFORTABLE, width):
                return fitting
    return _widths(columns, shown, NARROWEST, width)


def _widths(columns: Sequence[TextColumn], shown: list[int], kept: int, width: int) -> dict[int, int] | None:
    """Return widths that fit: as wide as the texts, with the widest columns narrowed as far as needed."""
    least = {index: columns[index].narrow_width(kept) for index in shown}
    room = width - GAP * (len(shown) - 1)
    if sum(least.values()) > room:
        return None
    widths = {index: max(least[index], columns[index].natural_width()) for index in shown}
    while sum(widths.values()) > room:
        widest = max((index for index in shown if widths[index] > least[index]), key=lambda index: widths[index])
        widths[widest] -= 1
    return widths
