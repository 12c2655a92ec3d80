"""`timeball tasks`: tasks that are registered under a name, so that jobs can share them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from timeball.cli import listing
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.options.job_options import read_json, task_body, task_options
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected
from timeball.domain.task.kinds import OFFERED

if TYPE_CHECKING:
    from timeball.client.models.registry import Task

_task_id = click.argument("task_id", metavar="ID")


@click.group(cls=LazyGroup)
def tasks() -> None:
    """Manage registered tasks, which jobs run with --task-id.

    When a task is replaced, jobs use the new version from their next run on.
    """


@tasks.command("set")
@_task_id
@task_options
@click.option("--file", "-f", metavar="FILE|-", help="The task as JSON: a file, or - for standard input.")
@connected
def set_task(session: CliSession, task_id: str, *, file: str | None, **flags: Any) -> None:
    """Register or replace a task.

    \b
    Examples:
      timeball tasks set backup --shell "pg_dump app | gzip > /backup/app.gz"
      timeball tasks set hook --http https://example.com/hook --header "X-Team: data"
    """
    from timeball.client.requests import registry as requests

    named = task_body(flags)
    if (file is None) == (named is None):
        options = ", ".join(f"--{kind.name}" for kind in OFFERED)
        raise click.UsageError(f"give one of {options} and --file")
    body = read_json(file) if file else named or {}
    answer = session.ask(requests.put_task(task_id, body))
    if answer is not None:
        session.output.done(task_id, f"Saved task {task_id}, version {answer.version}.")


@tasks.command("list")
@listing.limits
@connected
def list_tasks(session: CliSession, *, limit: int, everything: bool) -> None:
    """List registered tasks."""
    from timeball.client.requests import registry as requests

    listing.show(
        session,
        lambda cursor: requests.tasks(limit=limit, cursor=cursor),
        _COLUMNS,
        everything=everything,
        nothing="No registered tasks.",
    )


@tasks.command("show")
@_task_id
@connected
def show(session: CliSession, task_id: str) -> None:
    """Show a registered task."""
    from timeball.client.requests import registry as requests

    found = session.ask(requests.task(task_id))
    if found is not None:
        session.output.fields(
            [
                ("id", found.task_id),
                *((name, str(value)) for name, value in found.task.items()),
                ("version", found.version),
                ("updated", found.updated_at),
            ]
        )


@tasks.command("delete")
@_task_id
@connected
def delete(session: CliSession, task_id: str) -> None:
    """Delete a registered task. Refused while a job that is not cancelled refers to it.

    References in the tasks of workflows are not checked: such a task then fails, and its error names the missing task.
    """
    from timeball.client.requests import registry as requests

    if session.ask(requests.delete_task(task_id)) is not None:
        session.output.done(task_id, f"Deleted task {task_id}.")


_COLUMNS: list[Column[Task]] = [
    Column("id", lambda task: task.task_id),
    Column("kind", lambda task: task.task.get("kind")),
    Column("version", lambda task: task.version),
    Column("updated", lambda task: task.updated_at),
]
