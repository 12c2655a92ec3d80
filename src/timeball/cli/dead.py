"""`timeball dead`: the dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from timeball.cli import listing
from timeball.cli.failures import RUN_FAILED
from timeball.cli.lazy import LazyGroup
from timeball.cli.output import Column
from timeball.cli.session import Session, connected

if TYPE_CHECKING:
    from timeball.client.models import Run


@click.group(cls=LazyGroup)
def dead() -> None:
    """Runs whose retries are exhausted, waiting for a person."""


@dead.command("list")
@click.option("--job", metavar="JOB", help="Only those of this job: its name or id.")
@listing.limits
@connected
def list_dead(session: Session, *, job: str | None, limit: int, everything: bool) -> None:
    """List dead letters, newest first."""
    from timeball.client import requests

    job_id = session.job_id(job) if job else None
    listing.show(
        session,
        lambda cursor: requests.dead_letters(job_id=job_id, limit=limit, cursor=cursor),
        _COLUMNS,
        everything=everything,
        nothing="No dead letters.",
    )


@dead.command("retry")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--job", metavar="JOB", help="All dead letters of this job.")
@click.option("--all", "everything", is_flag=True, help="All dead letters.")
@connected
def retry(session: Session, runs: tuple[str, ...], *, job: str | None, everything: bool) -> None:
    """Run dead letters again.

    \b
    Examples:
      timeball dead retry r_0194f3a1c2b79f86d081884c7d65
      timeball dead retry --job etl
      timeball dead retry --all
    """
    from timeball.client import requests

    if (bool(runs) + bool(job) + everything) != 1:
        raise click.UsageError("say which: run ids, --job JOB or --all")
    request = requests.retry_dead(run_ids=runs, job_id=session.job_id(job) if job else None, everything=everything)
    answer = session.ask(request)
    if answer is None:
        return
    session.output.table(
        [
            Column("run", lambda item: item.run_id),
            Column("again as", lambda item: item.retried_as),
            Column("refused because", lambda item: item.error.detail if item.error else None),
        ],
        answer.items,
        nothing="No dead letters to retry.",
    )
    if answer.more:
        click.echo("There are more: run it again.", err=True)
    if answer.refused:
        click.get_current_context().exit(RUN_FAILED)


_COLUMNS: list[Column[Run]] = [
    Column("id", lambda run: run.run_id),
    Column("job", lambda run: run.job_name or run.job_id),
    Column("died", lambda run: run.end_time),
    Column("attempts", lambda run: run.attempt),
    Column("error", lambda run: f"{run.error.kind}: {run.error.message}" if run.error else None),
]
