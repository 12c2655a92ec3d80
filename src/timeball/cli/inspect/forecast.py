"""`timeball forecast`: the expected fires, compared with the capacity of the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from timeball.cli.output import times
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.schedules import Forecast, ForecastBucket, ForecastCause

WIDTH: Final = 40
"""Length of the longest bar, in characters."""


@click.command(short_help="Show expected fires, compared with capacity.")
@click.option("--from", "since", metavar="WHEN", help="Start of the range: a time, or 24h from now (default: now).")
@click.option(
    "--to",
    "until",
    metavar="WHEN",
    help="End of the range: a time, or 48h from now (default: one week after the start).",
)
@click.option("--bucket", default="1h", show_default=True, metavar="TIME", help="Length of time that one line covers.")
@connected
def forecast(session: CliSession, *, since: str | None, until: str | None, bucket: str) -> None:
    """Show the expected fires, and the work that they need compared with the capacity of the live workers.

    Prints one line for each --bucket of time that has fires. On a terminal, also prints the peak and the jobs that need
    the most work in it. Notes say how many jobs are estimated, left out or of unknown duration.

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
    limit = max((item.fires for item in found.items), default=0)
    columns: list[Column[ForecastBucket]] = [
        Column("from", lambda item: item.since),
        Column("fires", lambda item: item.fires),
        Column("run seconds", lambda item: round(item.run_seconds, 1)),
        Column("load", lambda item: "" if item.load is None else f"{item.load:.1%}"),
    ]
    if session.output.pretty:
        columns.append(Column("", lambda item: bar(item.fires, limit)))
    session.output.table(
        columns, [item for item in found.items if item.fires], nothing="There are no fires in this range."
    )
    if session.output.pretty:
        click.echo(peak(found))
    for note in found.notes:
        click.secho(f"Note: {note}", fg="yellow", err=True)


def bar(fires: int, limit: int) -> str:
    """Return a bar with a length in proportion to the number of fires, in eighths of a character."""
    eighths = 0 if not limit else max(1 if fires else 0, round(fires / limit * WIDTH * 8))
    return "█" * (eighths // 8) + ("" if eighths % 8 == 0 else "▏▎▍▌▋▊▉"[eighths % 8 - 1])


def peak(found: Forecast) -> str:
    if found.peak is None:
        return "There is no peak."
    load = "" if found.peak.load is None else f", {found.peak.load:.1%} of {found.slots:,} slots"
    lines = [f"The peak starts at {times.exact(found.peak.since)}: {found.peak.fires:,} fires{load}."]
    causes = found.busiest[0].causes if found.busiest else []
    lines += [f"  {cause.job_name or cause.job_id}: {_work(cause)}" for cause in causes]
    rest = found.peak.jobs - len(causes)
    return "\n".join([*lines, f"  and {rest:,} more jobs"] if causes and rest > 0 else lines)


def _work(cause: ForecastCause) -> str:
    fires = f"{cause.fires:,} {'fire' if cause.fires == 1 else 'fires'}"
    return fires if cause.run_seconds is None else f"{fires}, {cause.run_seconds:,.1f} run seconds"
