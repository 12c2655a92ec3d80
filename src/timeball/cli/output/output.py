"""The three forms of output: a table on a terminal, tab-separated text in a pipe, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import click

from timeball.cli.output import times
from timeball.cli.output.failures import printable
from timeball.cli.output.table_layout import TextColumn, layout
from timeball.domain.run.status import STATUSES, Tone

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

T = TypeVar("T")
Form = Literal["table", "plain", "json"]
Value = str | int | float | datetime | Sequence[str] | None

_TONES = {
    Tone.WAITING: "cyan",
    Tone.ATTENTION: "yellow",
    Tone.ACTIVE: "blue",
    Tone.GOOD: "green",
    Tone.BAD: "red",
    Tone.WORST: "bold red",
    Tone.MUTED: "bright_black",
}
_COLOURS = {
    **{status.value: _TONES[facts.tone] for status, facts in STATUSES.items()},
    "paused": "yellow",
    "completed": "green",
    "on_time": "green",
    "missed": "red",
    "late": "yellow",
    "caught_up": "yellow",
}
"""Colours of words in a table: the statuses of runs and jobs, and the verdicts of the ledger."""


class Column(NamedTuple, Generic[T]):
    title: str
    of: Callable[[T], Value]
    optional: bool = False
    """True if the column is left out on a terminal that is too narrow for all columns."""


class Output:
    """Prints in one form. The plain form has no colours, boxes, shortened values or relative times."""

    def __init__(self, form: Form | None) -> None:
        self.form: Form = form or ("table" if sys.stdout.isatty() else "plain")

    @property
    def pretty(self) -> bool:
        return self.form == "table"

    def json(self, body: bytes) -> None:
        """Print an answer of the API as it is, indented on a terminal."""
        if not body:  # status 204, no content
            return
        import msgspec

        shown = msgspec.json.format(body, indent=2) if sys.stdout.isatty() else body
        click.echo(shown.decode())

    def done(self, ident: str, sentence: str) -> None:
        """Report success: a sentence on a terminal, only the id in a pipe."""
        click.echo(printable(sentence) if self.pretty else ident)

    def table(self, columns: Sequence[Column[T]], items: Iterable[T], *, nothing: str) -> None:
        if self.pretty:
            self._pretty_table(columns, list(items), nothing)
            return
        lines = ("\t".join(plain(column.of(item)) for column in columns) for item in items)
        first = next(lines, None)  # requested before the header is printed, because it may fail
        click.echo("\t".join(column.title.upper() for column in columns))
        if first is not None:
            click.echo(first)
        for line in lines:
            click.echo(line)

    def fields(self, pairs: Iterable[tuple[str, Value]]) -> None:
        """Print names and values, one per line. Names without a value are left out."""
        known = [(name, value) for name, value in pairs if value not in (None, "", [], ())]
        if not self.pretty:
            for name, value in known:
                click.echo(f"{name}\t{plain(value)}")
            return
        from rich.table import Table

        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="bright_black", no_wrap=True)
        grid.add_column(overflow="fold")
        now = _now()
        for name, value in known:
            grid.add_row(name, _cell(value, now, exact=True))
        console().print(grid)

    def _pretty_table(self, columns: Sequence[Column[T]], items: list[T], nothing: str) -> None:
        if not items:
            click.echo(nothing)
            return
        from rich import box
        from rich.table import Table

        values = [[column.of(item) for column in columns] for item in items]
        now = _now()
        rows = [[_cell(value, now) for value in row] for row in values]
        screen = console()
        widths = layout(
            [
                TextColumn(
                    column.title,
                    [row[index].plain for row in rows],
                    is_time=any(isinstance(row[index], datetime) for row in values),
                    optional=column.optional,
                )
                for index, column in enumerate(columns)
            ],
            screen.width,
        )
        if widths is None:
            self._records(columns, values)
            return
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        for index, width in widths.items():
            table.add_column(columns[index].title, overflow="fold", width=width)
        for row in rows:
            table.add_row(*(row[index] for index in widths))
        screen.print(table)

    def _records(self, columns: Sequence[Column[T]], values: list[list[Value]]) -> None:
        """Print each item as lines with names and values, on a terminal that is too narrow for a table."""
        for number, row in enumerate(values):
            if number:
                click.echo()
            self.fields((column.title, value) for column, value in zip(columns, row, strict=True))


def console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def plain(value: Value) -> str:
    match value:
        case None | "":
            return "-"
        case str():
            return printable(value.replace("\t", " ").replace("\n", " "))
        case datetime():
            return times.exact(value)
        case int() | float():
            return str(value)
        case _:
            return plain(",".join(value))


def _cell(value: Any, now: int, *, exact: bool = False) -> Text:
    from rich.text import Text

    match value:
        case datetime() if exact:
            return Text(f"{times.exact(value)}  ({times.relative(value, now)})")
        case datetime():
            return Text(times.relative(value, now))
        case str() if value in _COLOURS:
            return Text(value, style=_COLOURS[value])
        case None | "" | [] | ():
            return Text("")
        case str() if exact:
            return Text(printable(value))
        case list() | tuple():
            return Text(plain(", ".join(value)))
        case _:
            return Text(plain(value))


def _now() -> int:
    from timeball.system import wall

    return wall()
