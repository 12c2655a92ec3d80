"""`timeball next`: when would this fire? Needs no server."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

import click

from timeball.cli import times
from timeball.cli.output import Column, Form, Output
from timeball.cli.session import output_option


class _Row(NamedTuple):
    fire: datetime
    note: str


@click.command("next")
@click.argument("expression", nargs=-1, required=True, metavar="EXPR")
@click.option("--tz", default="UTC", metavar="ZONE", help="Time zone, such as Europe/Berlin; UTC by default.")
@click.option("--after", metavar="WHEN", help="Start from this time, or from so long ahead: 24h. Now, by default.")
@click.option("--count", "-n", type=click.IntRange(1, 10_000), default=5, show_default=True, help="How many.")
@output_option
def next_command(expression: tuple[str, ...], *, tz: str, after: str | None, count: int, form: Form | None) -> None:
    """Show when a cron expression fires next, on this machine alone.

    Clock changes between two fires are marked. An expression that can never fire is refused, with the reason.

    \b
    Examples:
      timeball next "0 2 * * *" --tz Europe/Berlin
      timeball next "30 2 * * *" --tz America/New_York --after 2026-03-07 --count 3
      timeball next "0 0 9 L * *"
    """
    from timeball.client.preview import next_fires
    from timeball.domain import instant, zone
    from timeball.system import wall

    start = instant.parse(times.when(after, wall())) if after else wall()
    fires = next_fires(" ".join(expression), tz, instant.to_datetime(start), count)
    rows = _marked(fires, timedelta(seconds=zone.get(tz).offset_at(start)))
    output = Output(form)
    if output.form == "json":
        import msgspec

        items = [
            {"fireTime": times.exact(row.fire), "local": row.fire.isoformat(), "note": row.note or None} for row in rows
        ]
        output.json(msgspec.json.encode({"items": items}))
        return
    columns = [
        Column[_Row]("fires", lambda row: row.fire) if output.pretty else Column[_Row]("utc", lambda row: row.fire),
        Column[_Row]("local time", lambda row: _local(row.fire, spoken=output.pretty)),
        Column[_Row]("note", lambda row: row.note),
    ]
    output.table(columns, rows, nothing="It never fires after that.")


def _marked(fires: list[datetime], before: timedelta) -> list[_Row]:
    """Each fire with what the clocks did since the one before it."""
    rows = []
    for fire in fires:
        offset = fire.utcoffset() or timedelta()
        rows.append(_Row(fire, _change(offset - before)))
        before = offset
    return rows


def _change(by: timedelta) -> str:
    if not by:
        return ""
    size = times.span(abs(by) // timedelta(microseconds=1))
    return f"clocks went {'forward' if by > timedelta() else 'back'} by {size}"


def _local(fire: datetime, *, spoken: bool) -> str:
    if not spoken:
        return fire.isoformat()
    return f"{fire:%a %Y-%m-%d %H:%M:%S} {fire.isoformat()[19:]}"
