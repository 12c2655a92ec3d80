"""`timeball next`: the next fires of a cron expression, without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from timeball.cli.output import times
from timeball.cli.output.output import Column, Form, Output
from timeball.cli.session import output_option

if TYPE_CHECKING:
    from timeball.domain.preview.preview import Fire, Preview


@click.command("next")
@click.argument("expression", nargs=-1, required=True, metavar="EXPR")
@click.option("--tz", default="UTC", metavar="ZONE", help="Time zone, such as Europe/Berlin (default: UTC).")
@click.option("--after", metavar="WHEN", help="Start of the list: a time, or 24h from now (default: now).")
@click.option("--count", "-n", type=click.IntRange(1, 10_000), default=5, show_default=True, help="Number of fires.")
@click.option("--name", default="", help="Name of the job, which determines the value of H (in the tenant 'default').")
@output_option
def next_command(
    expression: tuple[str, ...], *, tz: str, after: str | None, count: int, name: str, form: Form | None
) -> None:
    """Show the meaning and the next fires of a cron expression, without a server.

    Fires that a clock change moves or repeats are marked. Warnings name parts of the expression that may be mistakes.
    An expression that can never fire is refused, with the reason.

    \b
    Examples:
      timeball next "0 2 * * *" --tz Europe/Berlin
      timeball next "30 2 * * *" --tz America/New_York --after 2026-03-07 --count 3
      timeball next "0 0 9 L * *"
    """
    from timeball.domain import instant
    from timeball.domain.preview.preview import preview
    from timeball.domain.schedule import cron, zone
    from timeball.domain.schedule.schedule import CronSchedule
    from timeball.system import wall

    text = " ".join(expression)
    # Checked here, because these errors have the reason; the schedule would raise only a ValueError.
    cron.parse(text)
    zone.get(tz)
    start = instant.parse(times.when(after, wall())) if after else wall()
    found = preview(CronSchedule(text, tz), start, count, f"default/{name}" if name else "")
    output = Output(form)
    if output.form == "json":
        output.json(_json(found))
        return
    click.echo(found.description)
    columns: list[Column[Fire]] = [
        Column("fires" if output.pretty else "utc", lambda fire: fire.local),
        Column(f"time ({tz})" if output.pretty else "local time", lambda fire: _local(fire, spoken=output.pretty)),
        Column("note", lambda fire: fire.note),
    ]
    output.table(columns, found.fires, nothing="There are no fires after this time.")
    for warning in found.warnings:
        click.secho(f"Warning: {warning}", fg="yellow", err=True)


def _json(found: Preview) -> bytes:
    import msgspec

    items = [
        {
            "fireTime": times.exact(fire.local),
            "local": fire.local.isoformat(),
            "mark": fire.mark,
            "note": fire.note or None,
        }
        for fire in found.fires
    ]
    return msgspec.json.encode({"description": found.description, "items": items, "warnings": found.warnings})


def _local(fire: Fire, *, spoken: bool) -> str:
    text = fire.local.isoformat()
    return f"{fire.local:%a %Y-%m-%d %H:%M:%S} {text[19:]}" if spoken else text
