"""`timeball jobs bulk`: changes all jobs that options select."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from timeball.cli.options import run_selection
from timeball.cli.output import times
from timeball.cli.output.failures import RUN_FAILED, printable
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.jobs import BulkJobs

F = TypeVar("F", bound=Callable[..., Any])

_DONE = {"pause": "paused", "resume": "resumed", "run": "started", "cancel": "cancelled"}


def narrowing(command: F) -> F:
    for option in reversed(
        (
            click.option(
                "--status",
                metavar="STATUS",
                help="Only jobs with this status: scheduled, paused, completed or cancelled.",
            ),
            click.option("--name", metavar="NAME", help="Only jobs with this name."),
            click.option("--search", "q", metavar="TEXT", help="Only jobs with this text in their name."),
            click.option("--tag", metavar="TAG", help="Only jobs with this tag."),
            click.option("--kind", metavar="KIND", help="Only jobs with this kind of task, or `workflow`."),
            click.option("--schedule-type", metavar="TYPE", help="Only jobs with this type of schedule, such as cron."),
            click.option("--task-id", metavar="ID", help="Only jobs with this registered task."),
            click.option("--user-id", metavar="USER", help="Only jobs of this user."),
            click.option("--calendar", metavar="NAME", help="Only jobs that refer to this calendar."),
        )
    ):
        command = option(command)
    return command


@click.command("bulk")
@click.argument("action", type=click.Choice(list(_DONE)))
@narrowing
@click.option("--all", "everything", is_flag=True, help="Select all jobs that the action applies to.")
@click.option("--reason", default="", metavar="TEXT", help="The reason of a pause, which `jobs show` prints.")
@click.option("--until", metavar="WHEN", help="Resume paused jobs at this time: 2026-03-01T02:00:00Z, or 2h from now.")
@click.option("--dry-run", is_flag=True, help="Only count the jobs.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@connected
def bulk(
    session: CliSession,
    action: Literal["pause", "resume", "run", "cancel"],
    *,
    everything: bool,
    reason: str,
    until: str | None,
    dry_run: bool,
    yes: bool,
    **filters: Any,
) -> None:
    """Pause, resume, run or cancel all jobs that the options select, newest first.

    Without --status, `pause` and `run` select jobs that are scheduled, `resume` those that are paused, `cancel` both.

    \b
    Examples:
      timeball jobs bulk pause --tag etl --reason "the warehouse moves" --until 2h
      timeball jobs bulk run --search report --dry-run
      timeball jobs bulk cancel --user-id ann --yes
    """
    from timeball.system import wall

    where: Any = {name: value for name, value in filters.items() if value}
    if bool(where) == everything:
        raise click.UsageError("select the jobs: either options such as --tag or --search, or --all")
    if everything:
        where = {"everything": True}
    end = times.when(until, wall()) if until else None
    client = session.client
    counted: BulkJobs | None = None
    if dry_run or run_selection.asks(yes=yes):
        counted = client.bulk_jobs(action, dry_run=True, **where)
        what = "job" if counted.matched == 1 else "jobs"
        if dry_run:
            _count(session, counted, what)
            return
        click.confirm(f"{action.capitalize()} {counted.matched:,} {what}?", abort=True)
        where["created_before"] = counted.created_before

    def report(done: BulkJobs) -> None:
        if session.output.pretty and done.next_cursor is not None:
            of = "" if counted is None else f" of {counted.matched:,}"
            click.echo(f"  {done.matched:,}{of} jobs", err=True)

    _summary(session, action, client.bulk_jobs(action, reason=reason, until=end, seen=report, **where))


def _count(session: CliSession, counted: BulkJobs, what: str) -> None:
    if session.output.form == "json":
        import msgspec

        session.output.json(msgspec.json.encode({"matched": counted.matched, "createdBefore": counted.created_before}))
    else:
        run_selection.counted(session, counted.matched, what)


def _summary(session: CliSession, action: str, done: BulkJobs) -> None:
    """Print the counts and the first reasons for skipped jobs. Exit with 1 if jobs were skipped."""
    if session.output.form == "json":
        import msgspec

        session.output.json(msgspec.json.encode(done))
    else:
        session.output.fields([("matched", done.matched), (_DONE[action], done.changed), ("skipped", done.skipped)])
        for item in done.failed[:10]:
            click.echo(f"  {item.job_id}: {printable(item.error.detail if item.error else '')}", err=True)
    if done.skipped:
        click.get_current_context().exit(RUN_FAILED)
