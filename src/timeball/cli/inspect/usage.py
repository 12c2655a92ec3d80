"""`timeball usage`: what the runs of tenants, users and jobs used, and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from timeball.cli import listing
from timeball.cli.output import times
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from decimal import Decimal

    from timeball.client.models.registry import UsageGroup, UsageGroups
    from timeball.client.requests.request import ApiRequest

_KEYS: Final = ("tenant", "user", "job", "day")


@click.command(short_help="Show usage and cost by tenant, user, job and day.")
@click.option("--from", "since", metavar="WHEN", help="First day: a date, or 7d for 7 days ago (default: 30 days ago).")
@click.option("--to", "until", metavar="WHEN", help="The day after the last one (default: tomorrow).")
@click.option("--by", metavar="KEYS", default="tenant,day", show_default=True, help="Any of tenant, user, job and day.")
@click.option("--tenant", metavar="ID", help="Only this tenant.")
@click.option("--user", metavar="ID", help="Only jobs of this user.")
@click.option("--job", metavar="JOB", help="Only this job, by its id or its name.")
@click.option("--csv", "as_csv", is_flag=True, help="Print all items as CSV.")
@listing.limits
@connected
def usage(
    session: CliSession,
    *,
    since: str | None,
    until: str | None,
    by: str,
    tenant: str | None,
    user: str | None,
    job: str | None,
    as_csv: bool,
    limit: int,
    everything: bool,
) -> None:
    """Show what attempts used, and what that costs at the prices of their tenant.

    Attempts count on the day, in UTC, on which they ended. With the permission `system`, the usage of all tenants is
    shown. -o json and --csv have exact numbers.

    \b
    Examples:
      timeball usage --from 7d
      timeball usage --by user,job --from 2026-03-01 --to 2026-04-01 --csv > march.csv
    """
    from timeball.client.requests import tenants as requests
    from timeball.system import wall

    now = wall()
    start = times.when(since, now, past=True) if since else None
    end = times.when(until, now, past=True) if until else None
    keys = [word.strip() for word in by.split(",")]
    job_id = session.job_id(job) if job else None

    def page(cursor: str | None) -> ApiRequest[UsageGroups]:
        which = {"tenant_id": tenant, "user_id": user, "job_id": job_id}
        size = 1_000 if everything else limit
        return requests.usage(since=start, until=end, by=keys, **which, limit=size, cursor=cursor)

    if as_csv:
        request = page(None)
        params = {name: value for name, value in request.params.items() if name != "limit"}
        body = session.client.send(_csv(request, params))
        click.echo(body, nl=False)
        return
    columns = [column for key, column in _COLUMNS if key is None or key in keys]
    listing.show(session, page, columns, everything=everything, nothing="No usage in this time.")


def _csv(request: ApiRequest[UsageGroups], params: dict[str, object]) -> ApiRequest[UsageGroups]:
    from msgspec.structs import replace

    return replace(request, params={**params, "format": "csv"})


def _rounded(number: Decimal) -> str:
    """Return a number with at most 4 decimal places, or 4 significant digits if it is between -1 and 1. The exact
    number is in the JSON output."""
    return f"{number:,.4f}".rstrip("0").rstrip(".") if number == 0 or abs(number) >= 1 else f"{number:.4g}"


_COLUMNS: Final[list[tuple[str | None, Column[UsageGroup]]]] = [
    ("tenant", Column("tenant", lambda group: group.tenant_id)),
    ("user", Column("user", lambda group: group.user_id)),
    ("job", Column("job", lambda group: group.job_id)),
    ("job", Column("name", lambda group: group.job_name, optional=True)),
    ("day", Column("day", lambda group: None if group.day is None else group.day.isoformat())),
    (None, Column("runs", lambda group: group.runs)),
    (None, Column("attempts", lambda group: group.attempts)),
    (None, Column("seconds", lambda group: _rounded(group.attempt_seconds))),
    (None, Column("cpu seconds", lambda group: _rounded(group.cpu_seconds), optional=True)),
    (None, Column("gib seconds", lambda group: _rounded(group.memory_gib_seconds), optional=True)),
    (None, Column("bytes", lambda group: group.output_bytes, optional=True)),
    (None, Column("cost", lambda group: _rounded(group.cost))),
]
