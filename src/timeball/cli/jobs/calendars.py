"""`timeball calendars`: closed times in which jobs do not fire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from timeball.cli import listing
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.options.job_options import read_json
from timeball.cli.output import times
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.registry import Calendar, ClosedTime

_name = click.argument("name", metavar="NAME")


@click.group(cls=LazyGroup)
def calendars() -> None:
    """Manage calendars: closed times such as holidays, freezes and weekends.

    A job that refers to a calendar with --calendar does not fire while the calendar is closed.
    """


@calendars.command("set")
@_name
@click.option("--tz", metavar="ZONE", help="Time zone of the calendar, such as Europe/Berlin (default: UTC).")
@click.option("--date", "dates", multiple=True, metavar="DATE", help="A closed day: 2026-12-25. Repeatable.")
@click.option("--closed", "spans", multiple=True, metavar="FROM..TO", help="2026-12-20T00:00..2027-01-03T00:00")
@click.option(
    "--window",
    "windows",
    multiple=True,
    metavar="CRON=LENGTH",
    help="A recurring closed time: '0 22 * * FRI=58h'. Repeatable.",
)
@click.option("--reason", default="", metavar="TEXT", help="The reason, which the ledger shows.")
@click.option("--file", "-f", metavar="FILE|-", help="The calendar as JSON: a file, or - for standard input.")
@connected
def set_calendar(session: CliSession, name: str, *, file: str | None, **flags: Any) -> None:
    """Create or replace a calendar. Jobs that refer to it use it for all fires after the command returns.

    \b
    Examples:
      timeball calendars set holidays --tz Europe/Berlin --date 2026-12-25 --date 2026-12-26
      timeball calendars set freeze --closed 2026-12-20T00:00..2027-01-03T00:00 --reason "year-end freeze"
      timeball calendars set weekends --tz Europe/Berlin --window "0 22 * * FRI=58h"
    """
    from timeball.client.requests import registry as requests

    entries = _entries(flags)
    if (file is None) == (not entries):
        raise click.UsageError("give the closed times: either --date, --closed and --window, or --file")
    body = read_json(file) if file else {"timezone": flags["tz"] or "UTC", "entries": entries}
    answer = session.ask(requests.put_calendar(name, body))
    if answer is not None:
        session.output.done(name, f"Saved calendar {name}, version {answer.version}.")


@calendars.command("list")
@listing.limits
@connected
def list_calendars(session: CliSession, *, limit: int, everything: bool) -> None:
    """List calendars."""
    from timeball.client.requests import registry as requests

    listing.show(
        session,
        lambda cursor: requests.calendars(limit=limit, cursor=cursor),
        _COLUMNS,
        everything=everything,
        nothing="No calendars.",
    )


@calendars.command("show")
@_name
@connected
def show(session: CliSession, name: str) -> None:
    """Show a calendar."""
    from timeball.client.requests import registry as requests

    found = session.ask(requests.calendar(name))
    if found is not None:
        session.output.fields(
            [
                ("name", found.name),
                ("time zone", found.timezone),
                ("description", found.description or None),
                *((f"closed {place}", _entry_text(entry)) for place, entry in enumerate(found.entries, 1)),
                ("version", found.version),
                ("updated", found.updated_at),
            ]
        )


@calendars.command("closed")
@_name
@click.option("--from", "since", metavar="WHEN", help="Start of the range: a time, or 24h from now (default: now).")
@click.option("--to", "until", metavar="WHEN", help="End of the range, at most 400 days later (default: 31 days).")
@connected
def closed(session: CliSession, name: str, *, since: str | None, until: str | None) -> None:
    """List the times at which a calendar is closed.

    \b
    Example:
      timeball calendars closed freeze --from 2026-12-01T00:00:00Z --to 2027-01-31T00:00:00Z
    """
    from timeball.client.requests import registry as requests
    from timeball.system import wall

    found = session.ask(requests.calendar(name))
    if found is None:
        return
    now = wall()
    answer = session.ask(
        requests.preview_calendar(
            {"timezone": found.timezone, "entries": found.entries},
            since=times.when(since, now) if since else None,
            until=times.when(until, now) if until else None,
        )
    )
    if answer is not None:
        session.output.table(_CLOSED, answer.closed, nothing="The calendar is open in the whole range.")


@calendars.command("delete")
@_name
@connected
def delete(session: CliSession, name: str) -> None:
    """Delete a calendar. Refused while a job that may still fire refers to it."""
    from timeball.client.requests import registry as requests

    if session.ask(requests.delete_calendar(name)) is not None:
        session.output.done(name, f"Deleted calendar {name}.")


def _entries(flags: dict[str, Any]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = [{"dates": list(flags["dates"])}] if flags["dates"] else []
    for text in flags["spans"]:
        begin, dots, end = text.partition("..")
        if not dots:
            raise click.UsageError(f"--closed {text!r} has no '..'; write 2026-12-20T00:00..2027-01-03T00:00")
        entries.append({"from": begin.strip(), "to": end.strip()})
    for text in flags["windows"]:
        cron, equals, length = text.rpartition("=")
        if not equals:
            raise click.UsageError(f"--window {text!r} has no length; write '0 22 * * FRI=58h'")
        entries.append({"cron": cron.strip(), "for": length.strip()})
    return [entry | {"reason": flags["reason"]} for entry in entries] if flags["reason"] else entries


def _entry_text(entry: dict[str, Any]) -> str:
    """Describe an entry: `2026-12-25, 2026-12-26 (holiday)`."""
    if "cron" in entry:
        words = f"{entry.get('for')} from {entry['cron']} on"
    elif "from" in entry:
        words = f"from {entry['from']} to {entry.get('to')}"
    else:
        words = ", ".join(entry.get("dates", []))
    return f"{words} ({entry['reason']})" if entry.get("reason") else words


_COLUMNS: list[Column[Calendar]] = [
    Column("name", lambda calendar: calendar.name),
    Column("time zone", lambda calendar: calendar.timezone),
    Column("entries", lambda calendar: len(calendar.entries)),
    Column("version", lambda calendar: calendar.version),
    Column("updated", lambda calendar: calendar.updated_at),
]

_CLOSED: list[Column[ClosedTime]] = [
    Column("from", lambda found: found.since),
    Column("to", lambda found: found.until),
    Column("reason", lambda found: found.reason),
]
