"""`timeball forecast`: what is to be expected?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from timeball.cli.output import times
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.schedules import Forecast, ForecastBucket

WIDTH: Final = 40
"""Characters of the longest bar."""


@click.command(short_help="Fires to expect, against capacity.")
@click.option("--from", "since", metavar="WHEN", help="From this time on, or from so long ahead: 24h. Now, by default.")
@click.option("--to", "until", metavar="WHEN", help="Up to this time, or so long ahead; a week after, by default.")
@click.option("--bucket", default="1h", show_default=True, metavar="TIME", help="How much time a line stands for.")
@connected
def forecast(session: CliSession, *, since: str | None, until: str | None, bucket: str) -> None:
    """Show how many fires are to be expected, and what they will take of the workers that are there now.

    A line for each stretch of time in which something fires, and the peak. What was estimated or left out is told.

    \b
    Examples:
      timeball forecast
      timeball forecast --to 24h --bucket 15m
    """
    from timeball.client.requests import schedules as requests
    from timeball.system import wall

    now = wall()
    begin = times.when(since, now) if since else None
    end = times.when(until, now) if until else None
    found = session.ask(requests.forecast(since=begin, until=end, bucket=bucket))
    if found is None:
        return
    most = max((item.fires for item in found.items), default=0)
    columns: list[Column[ForecastBucket]] = [
        Column("from", lambda item: item.since),
        Column("fires", lambda item: item.fires),
        Column("run seconds", lambda item: round(item.run_seconds, 1)),
        Column("load", lambda item: "" if item.load is None else f"{item.load:.1%}"),
    ]
    if session.output.pretty:
        columns.append(Column("", lambda item: bar(item.fires, most)))
    session.output.table(columns, [item for item in found.items if item.fires], nothing="Nothing fires in that time.")
    if session.output.pretty:
        click.echo(peak(found))
    for note in found.notes:
        click.secho(f"Note: {note}", fg="yellow", err=True)


def bar(fires: int, most: int) -> str:
    """As long as there are fires, in eighths of a character."""
    eighths = 0 if not most else max(1 if fires else 0, round(fires / most * WIDTH * 8))
    return "█" * (eighths // 8) + ("" if eighths % 8 == 0 else "▏▎▍▌▋▊▉"[eighths % 8 - 1])


def peak(found: Forecast) -> str:
    if found.peak is None:
        return "There is no peak."
    load = "" if found.peak.load is None else f", {found.peak.load:.1%} of {found.slots:,} slots"
    return f"The peak is from {times.exact(found.peak.since)} on: {found.peak.fires:,} fires{load}."
