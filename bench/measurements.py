"""The measured figures: repeats, promises, and their rendering as a table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from msgspec import Struct


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def span(values: Iterable[float], digits: int = 0) -> str:
    """Return the lowest and the highest value as text."""
    ordered = sorted(values)
    return " - ".join(dict.fromkeys(f"{end:,.{digits}f}" for end in (*ordered[:1], *ordered[-1:])))


class Figure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One measurement with its repeats. The median counts."""

    values: list[float]
    least: float | None = None
    """The promise: not less than this."""
    most: float | None = None
    """The promise: not more than this."""
    digits: int = 0

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def kept(self) -> bool:
        """True if the median keeps the promise, or if there is no promise."""
        return (self.least is None or self.median >= self.least) and (self.most is None or self.median <= self.most)

    @property
    def promise(self) -> str:
        if self.least is not None:
            return f"≥ {self.shown(self.least)}"
        return "" if self.most is None else f"≤ {self.shown(self.most)}"

    @property
    def spread(self) -> str:
        """The range of the repeats."""
        return span(self.values, self.digits) if len(self.values) > 1 else ""

    def shown(self, value: float) -> str:
        return f"{value:,.{self.digits}f}"

    def __str__(self) -> str:
        return self.shown(self.median)


class Row(Struct, frozen=True):
    labels: dict[str, str]
    """What was measured, by column."""
    figures: dict[str, Figure]
    """The results, by column."""
    loop_ms: list[float] = []
    """The speed of the machine before, between and after the repeats."""


class Table(Struct, frozen=True):
    title: str
    configuration: dict[str, str]
    """The configuration of the measurement."""
    rows: list[Row]

    @property
    def cells(self) -> list[list[str]]:
        """Return the table as text, with its heading first. Each promise is shown with whether it was kept."""
        labels = _merged([list(row.labels) for row in self.rows])
        figures = _merged([list(row.figures) for row in self.rows])
        alone = len(figures) == 1
        repeated = alone and any(figure.spread for row in self.rows for figure in row.figures.values())
        promised = any(figure.promise for row in self.rows for figure in row.figures.values())
        paced = any(row.loop_ms for row in self.rows)
        more = {"lowest - highest": repeated, "loop ms": paced, "promised": promised}
        heading = [*labels, *figures, *(name for name, wanted in more.items() if wanted)]
        lines = [heading]
        for row in self.rows:
            line = [row.labels.get(name, "") for name in labels]
            line += [str(row.figures[name]) if name in row.figures else "" for name in figures]
            line += [figure.spread for figure in row.figures.values()] if repeated else []
            line += [span(row.loop_ms)] if paced else []
            line += [promises(row, alone)] if promised else []
            lines.append(line)
        return lines


def _merged(orders: list[list[str]]) -> list[str]:
    """Return all names in one order that agrees with each of the given orders."""
    merged: list[str] = []
    for order in orders:
        place = 0
        for name in order:
            if name in merged:
                place = merged.index(name) + 1
            else:
                merged.insert(place, name)
                place += 1
    return merged


def promises(row: Row, alone: bool = False) -> str:
    """Return a text such as `≥ 25,000: kept`."""
    return ", ".join(
        f"{'' if alone else name + ' '}{figure.promise}: {'kept' if figure.kept else 'MISSED'}"
        for name, figure in row.figures.items()
        if figure.promise
    )


class Findings(Struct, frozen=True):
    """The results of a section."""

    section: str
    title: str
    taken: str
    """When it was measured, in UTC."""
    machine: dict[str, str]
    tables: list[Table]
    wrong: list[str]
    """Errors that were found, independent of the figures."""

    @property
    def good(self) -> bool:
        figures = [figure for table in self.tables for row in table.rows for figure in row.figures.values()]
        return not self.wrong and all(figure.kept for figure in figures)
