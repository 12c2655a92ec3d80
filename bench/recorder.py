"""Records the results of a section: prints each table when it is complete, and writes JSON at the end."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from bench import machine
from bench.measurements import Figure, Findings, Row, Table

T = TypeVar("T")

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Scale:
    """How much to measure."""

    quick: bool = False
    full: bool = False
    """True: include the measurements that take long."""
    stores: tuple[str, ...] = ("sqlite", "postgresql")
    repeats: int | None = None
    kinds: tuple[str, ...] = ()
    """The kinds of jobs of the section `kinds`; empty: all."""
    parts: tuple[str, ...] = ()
    """The parts of the section `kinds`; empty: all."""
    base: str | None = None
    """A commit that the section `kinds` measures in turns with the working tree."""
    both_places: bool = True
    """True if the section `kinds` measures the worker both in the process of the server and in its own."""

    def pick(self, usual: T, quick: T) -> T:
        return quick if self.quick else usual

    def times(self, usual: int) -> int:
        """Return how often a figure is measured."""
        return self.repeats or self.pick(usual, 1)


class Recorder:
    def __init__(self, section: str, title: str) -> None:
        self.section = section
        self._title = title
        self._tables: list[Table] = []
        self._wrong: list[str] = []
        self.loop_ms: list[float] = []
        self._taken = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        print(f"\n{title}", flush=True)

    @contextlib.contextmanager
    def table(self, title: str, **configuration: object) -> Iterator[TableInProgress]:
        """Yield a new table, which is printed when it is complete."""
        shown = {name.replace("_", " "): _text(value) for name, value in configuration.items()}
        table = Table(title, shown, [])
        yield TableInProgress(table, self)
        if table.rows:
            self._tables.append(table)
            print(f"\n{in_columns(table)}", flush=True)

    def takes(self, times: int) -> Iterator[int]:
        """Yield this number of repeats of a measurement. The speed of the machine during them is stored with the rows
        that follow.
        """
        self.loop_ms = [round(machine.loop_ms(), 1)]
        for number in range(times):
            yield number
            self.loop_ms.append(round(machine.loop_ms(), 1))

    def check(self, right: bool, otherwise: str) -> None:
        if not right:
            print(f"WRONG: {otherwise}", flush=True)
            self._wrong.append(otherwise)

    def findings(self) -> Findings:
        return Findings(self.section, self._title, self._taken, machine.facts(), self._tables, self._wrong)


class TableInProgress:
    def __init__(self, table: Table, notebook: Recorder) -> None:
        self._table = table
        self._notebook = notebook

    def add(self, labels: dict[str, str], **figures: Figure) -> None:
        self.row(labels, figures)

    def row(self, labels: dict[str, str], figures: dict[str, Figure]) -> None:
        self._table.rows.append(Row(labels, figures, [*self._notebook.loop_ms]))
        text = ", ".join(f"{name} {figure}" for name, figure in figures.items())
        say(f"{', '.join(labels.values())}: {text}")


def say(sentence: str) -> None:
    """Print a progress message."""
    print(f"  … {sentence}", file=sys.stderr, flush=True)


def in_columns(table: Table) -> str:
    cells = table.cells
    labels = len(table.rows[0].labels)
    figures = labels + max(len(row.figures) for row in table.rows)
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = [table.title, f"({', '.join(f'{name} {value}' for name, value in table.configuration.items())})"]
    for line in cells:
        aligned = [
            cell.rjust(width) if labels <= column < figures else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  " + "   ".join(aligned).rstrip())
    return "\n".join(lines)


def write(findings: Findings, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{findings.section}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(findings), indent=2) + b"\n")
    return path


def read(path: Path) -> Findings:
    return msgspec.json.decode(path.read_bytes(), type=Findings)


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
