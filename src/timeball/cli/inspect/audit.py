"""`timeball audit`: accounts for every fire of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from timeball.cli.output import times
from timeball.cli.output.failures import RUN_FAILED, printable
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.diagnosis import Ledger, LedgerEntry

MAX_REASONS: Final = 2
"""Maximum number of reasons in the summary line. The list below the line has all reasons."""
_ORDER: Final = ("on_time", "late", "caught_up", "skipped", "missed", "cancelled", "open")


@click.command(short_help="Account for every fire of a job.")
@click.argument("job", metavar="JOB")
@click.option(
    "--from", "since", metavar="WHEN", help="Start of the range: a time, or 24h for 24 hours ago (default: all)."
)
@click.option("--to", "until", metavar="WHEN", help="End of the range: a time, or 1h for one hour ago (default: now).")
@connected
def audit(session: CliSession, job: str, *, since: str | None, until: str | None) -> None:
    """Account for every fire of a job: the due fires, and the verdict on each.

    Prints one line that must add up, then every fire that was not on time, with the reason. Exits with 1 if the line
    does not add up, which would be a bug in Timeball. A fire is `open`, without a verdict yet, while its run is live.

    `of which` splits the lateness: `scheduler` until the run was created, `blocked` by an earlier run or a limit,
    `queue` until a worker had room, and `worker` until the worker started it.

    \b
    Examples:
      timeball audit etl --from 24h
      timeball audit etl --from 2026-03-01 --to 2026-04-01
    """
    from timeball.client.requests import jobs as requests
    from timeball.system import wall

    now = wall()
    start = times.when(since, now, past=True) if since else None
    end = times.when(until, now, past=True) if until else None
    job_id = session.job_id(job)
    if session.output.form == "json":
        from timeball.client import exchange

        request = requests.ledger(job_id, since=start, until=end)
        body = session.client.send(request)
        session.output.json(body)
        ledger = exchange.read(request, body)
    else:
        ledger = session.client.ledger(job_id, start, end)
        click.echo(printable(summary(ledger)))
        exceptions = [entry for entry in ledger.items if entry.verdict != "on_time"]
        if exceptions:
            session.output.table(EXCEPTIONS, exceptions, nothing="")
    if not ledger.balanced:
        click.secho(
            f"The ledger does not add up: {sum(ledger.counts.values()):,} of {ledger.due:,}.", fg="red", err=True
        )
        click.get_current_context().exit(RUN_FAILED)


def summary(ledger: Ledger) -> str:
    """Return the summary line: `1,440 due = 1,437 on time + 2 late + 1 skipped (run r_… was still running)`."""
    if not ledger.due:
        return "0 due"
    known = [*_ORDER, *(verdict for verdict in ledger.counts if verdict not in _ORDER)]
    parts = [
        f"{count:,} {verdict.replace('_', ' ')}{_reason(ledger, verdict)}"
        for verdict in known
        if (count := ledger.counts.get(verdict, 0))
    ]
    return f"{ledger.due:,} due = {' + '.join(parts) or 'nothing'}"


def _reason(ledger: Ledger, verdict: str) -> str:
    """Return the reasons of the fires with this verdict, in parentheses; empty if there are none, or more than 2."""
    reasons = dict.fromkeys(entry.reason for entry in ledger.items if entry.verdict == verdict and entry.reason)
    return f" ({'; '.join(reasons)})" if 0 < len(reasons) <= MAX_REASONS else ""


def _due(entry: LedgerEntry) -> str:
    start = times.exact(entry.fire_time)
    if entry.count == 1 or entry.fire_until is None:
        return start
    return f"{start} to {times.exact(entry.fire_until)}"


EXCEPTIONS: list[Column[LedgerEntry]] = [
    Column("fire time", _due),
    Column("fires", lambda entry: entry.count, optional=True),
    Column("verdict", lambda entry: entry.verdict),
    Column("late", lambda entry: None if entry.late_ms is None else times.milliseconds(entry.late_ms)),
    Column("of which", lambda entry: str(entry.lateness) if entry.lateness else None, optional=True),
    Column("run", lambda entry: entry.run_id),
    Column("reason", lambda entry: entry.reason),
]
