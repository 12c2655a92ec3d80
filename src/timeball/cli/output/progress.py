"""The progress of a command that takes long."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from timeball.cli.output.output import Output

if TYPE_CHECKING:
    from timeball.ports.store_transfer import Report, TransferProgress

ROWS_PER_LINE: Final = 500_000
"""In a pipe, a line of progress is printed after this many rows of a table."""


@contextlib.contextmanager
def shown_progress(output: Output) -> Iterator[Report]:
    """Show the progress on stderr, apart from the result: bars on a terminal, lines in a pipe."""
    if not output.pretty:
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Bars(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bars:

        def draw(progress: TransferProgress) -> None:
            if not progress.rows:
                for over in bars.task_ids:
                    bars.remove_task(over)
                bars.add_task(progress.doing, total=progress.of)
            bars.update(bars.task_ids[-1], completed=progress.rows)

        yield draw


class _Lines:
    """Prints a line for each table, more for large tables, and one for each other step."""

    def __init__(self) -> None:
        self._shown_rows = 0

    def __call__(self, progress: TransferProgress) -> None:
        if progress.of is None:
            click.echo(progress.doing, err=True)
        elif progress.rows == 0:
            self._shown_rows = 0
        elif progress.rows == progress.of or progress.rows - self._shown_rows >= ROWS_PER_LINE:
            self._shown_rows = progress.rows
            click.echo(f"{progress.doing}: {progress.rows:,} of {progress.of:,}", err=True)
