"""`timeball slo`: the starts of runs, compared with lateness objectives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.overview import SloWindow


@click.command(short_help="Compare starts with lateness objectives.")
@click.argument("job_id", required=False)
@click.option("--tag", metavar="TAG", help="All jobs with this tag that have an objective, together.")
@connected
def slo(session: CliSession, job_id: str | None, tag: str | None) -> None:
    """Show how many runs started in time, how fast the error budget of the objective is used, and how much is left.

    An objective is set with `--slo 99.9/5s`: 99.9 % of the runs have to start within 5 seconds. A burn rate of 1 uses
    up the budget exactly at the end of the window, a burn rate of 10 after a tenth of it.

    \b
    Examples:
      timeball slo j_01hx...
      timeball slo --tag etl
    """
    from timeball.client.requests import overview as requests

    if (job_id is None) is (tag is None):
        raise click.UsageError("give either a job or --tag")
    found = session.ask(requests.slo(job_id, tag=tag))
    if found is None:
        return
    nothing = "The job has no objective." if tag is None else "No job with this tag has an objective."
    session.output.table(_COLUMNS, found.total if found.items else [], nothing=f"{nothing} Set one with --slo 99.9/5s.")
    if session.output.pretty and found.capped:
        click.secho("Note: there are more runs than were counted; the newest stand for all.", fg="yellow", err=True)


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


_COLUMNS: Final[list[Column[SloWindow]]] = [
    Column("last", lambda each: each.window),
    Column("starts", lambda each: each.starts),
    Column("late", lambda each: each.late),
    Column("burn rate", lambda each: "" if each.burn_rate is None else f"{each.burn_rate:g}"),
    Column("budget left", lambda each: _share(each.budget_left)),
]
