"""`timeball workflows`: creates, shows and changes workflows and their runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from timeball.cli import listing, waiting
from timeball.cli.jobs.jobs import schedule_in_words
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.options.job_options import read_json
from timeball.cli.output import times
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.workflows import TaskOfRun, Workflow, WorkflowRun

_workflow = click.argument("workflow", metavar="WORKFLOW")
_run = click.argument("run", metavar="RUN")
_file = click.option(
    "--file",
    "-f",
    "file",
    required=True,
    metavar="FILE|-",
    help="The workflow as JSON: a file, or - for standard input.",
)


@click.group(cls=LazyGroup)
def workflows() -> None:
    """Create, inspect and change workflows: jobs with tasks that need each other.

    WORKFLOW is the name or the id of a workflow. RUN is the id of one of its runs, or the name of the workflow for its
    newest run. A workflow is a job, so `why`, `audit` and `jobs backfill` accept it, too.
    """


@workflows.command("create")
@click.argument("name", default="")
@_file
@click.option("--cron", metavar="EXPR", help="When: a cron expression with 5 fields, or 6 with seconds first.")
@click.option("--every", metavar="TIME", help="When: at this interval, such as 90s, 15m, 1h30m.")
@click.option("--tz", metavar="ZONE", help="Time zone of --cron, such as Europe/Berlin (default: UTC).")
@click.option("--idempotency-key", metavar="KEY", help="Calls with the same key create only one workflow.")
@click.option("--wait", is_flag=True, help="Wait for the first run; exit with 1 unless it succeeds.")
@connected
def create(
    session: CliSession,
    name: str,
    *,
    file: str,
    cron: str | None,
    every: str | None,
    tz: str | None,
    idempotency_key: str | None,
    wait: bool,
) -> None:
    """Create a workflow from a file with its tasks. The workflow is durable when the command returns.

    \b
    Examples:
      timeball workflows create nightly --file nightly.json --cron "0 2 * * *" --tz Europe/Berlin
      timeball workflows create --file nightly.json --wait
    """
    from timeball.client.job_document import document
    from timeball.client.requests import workflows as workflow_requests
    from timeball.client.requests.request import fresh_key

    options = document({"name": name or None, "cron": cron, "every": every, "timezone": tz})  # type: ignore[typeddict-item]
    body = read_json(file) | options
    key = idempotency_key or body.pop("idempotencyKey", None) or fresh_key()
    made = session.ask(workflow_requests.create_workflow(body, key), wait=wait)
    if made is None:
        return
    if wait:
        waiting.wait_and_exit(session, waiting.first_run(session, made.workflow_id), None)
    else:
        session.output.done(made.workflow_id, f"Created {_called(made)}{_next(made)}.")


@workflows.command("update")
@_workflow
@_file
@click.option("--version", type=int, metavar="N", help="Change the workflow only if it still has this version.")
@connected
def update(session: CliSession, workflow: str, *, file: str, version: int | None) -> None:
    """Change a workflow. Fields that are not in the file do not change. Live runs continue with the tasks that they
    have."""
    from timeball.client.requests import workflows as requests

    changed = session.ask(requests.update_workflow(session.job_id(workflow), read_json(file), version))
    if changed is not None:
        session.output.done(changed.workflow_id, f"Updated {_called(changed)}{_next(changed)}.")


@workflows.command("list")
@click.option(
    "--status", metavar="STATUS", help="Only workflows with this status: scheduled, paused, completed or cancelled."
)
@click.option("--name", metavar="NAME", help="Only workflows with this name.")
@listing.limits
@connected
def list_workflows(session: CliSession, *, limit: int, everything: bool, **filters: Any) -> None:
    """List workflows, newest first."""
    from timeball.client.requests import workflows as requests

    listing.show(
        session,
        lambda cursor: requests.workflows(**filters, limit=limit, cursor=cursor),
        _COLUMNS,
        everything=everything,
        nothing="No workflows. Create one: timeball workflows create --file workflow.json",
    )


@workflows.command("show")
@_workflow
@connected
def show(session: CliSession, workflow: str) -> None:
    """Show a workflow: its schedule, and its tasks with the tasks that they need."""
    from timeball.client.requests import workflows as requests

    found = session.ask(requests.workflow(session.job_id(workflow)))
    if found is None:
        return
    session.output.fields(
        [
            ("name", found.name),
            ("id", found.workflow_id),
            ("status", found.status),
            ("paused because", found.pause_reason),
            ("description", found.description),
            ("schedule", schedule_in_words(found.schedule)),
            ("next", found.next_fire_at),
            ("overlap", found.overlap),
            *((f"task {task['name']}", _task_in_words(task)) for task in found.tasks),
            ("version", found.version),
            ("created", found.created_at),
            ("updated", found.updated_at),
        ]
    )


@workflows.command("run")
@_workflow
@click.option("--wait", is_flag=True, help="Wait until the run ends; exit with 1 unless it succeeds.")
@connected
def run(session: CliSession, workflow: str, *, wait: bool) -> None:
    """Run a workflow now, in addition to its schedule. Its overlap policy applies."""
    from timeball.client.requests import workflows as requests

    begun = session.ask(requests.run_workflow(session.job_id(workflow)), wait=wait)
    if begun is None:
        return
    because = f": {begun.detail}" if begun.detail else ""
    waiting.wait_or_say(session, begun.run_id, f"Run {begun.run_id} is {begun.status}{because}.", wait=wait)


@workflows.command("pause")
@_workflow
@click.option("--reason", default="", metavar="TEXT", help="The reason, which `workflows show` prints.")
@click.option("--until", metavar="WHEN", help="Resume the workflow at this time: 2026-03-01T02:00:00Z, or 2h from now.")
@connected
def pause(session: CliSession, workflow: str, *, reason: str, until: str | None) -> None:
    """Pause a workflow: it does not fire until it is resumed, or until --until. Live runs continue."""
    from timeball.client.requests import workflows as requests
    from timeball.system import wall

    end = times.when(until, wall()) if until else None
    paused = session.ask(requests.pause_workflow(session.job_id(workflow), reason, end))
    if paused is not None:
        session.output.done(paused.workflow_id, f"Paused {_called(paused)}.")


@workflows.command("resume")
@_workflow
@connected
def resume(session: CliSession, workflow: str) -> None:
    """Resume a paused workflow. Its catch-up rule decides about the fires during the pause."""
    from timeball.client.requests import workflows as requests

    resumed = session.ask(requests.resume_workflow(session.job_id(workflow)))
    if resumed is not None:
        session.output.done(resumed.workflow_id, f"Resumed {_called(resumed)}{_next(resumed)}.")


@workflows.command("delete")
@_workflow
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@connected
def delete(session: CliSession, workflow: str, *, yes: bool) -> None:
    """Cancel a workflow permanently: stop its schedule and cancel its live runs.

    The tasks of these runs are cancelled, too. The history of the workflow stays.
    """
    from timeball.client.requests import workflows as requests

    workflow_id = session.job_id(workflow)
    if not yes and sys.stdin.isatty():
        click.confirm(f"Cancel workflow {workflow} and its live runs permanently?", abort=True)
    if session.ask(requests.delete_workflow(workflow_id)) is not None:
        session.output.done(workflow_id, f"Cancelled {workflow}.")


@workflows.command("runs")
@_workflow
@click.option(
    "--status", metavar="STATUS", help="Only runs with this status, or with one of several, separated by commas."
)
@listing.limits
@connected
def runs(session: CliSession, workflow: str, *, status: str | None, limit: int, everything: bool) -> None:
    """List the runs of a workflow, newest first."""
    from timeball.client.requests import workflows as requests

    workflow_id = session.job_id(workflow)
    listing.show(
        session,
        lambda cursor: requests.workflow_runs(workflow_id, status=status, limit=limit, cursor=cursor),
        _RUN_COLUMNS,
        everything=everything,
        nothing="No runs.",
    )


@workflows.command("status")
@_run
@connected
def status(session: CliSession, run: str) -> None:
    """Show a workflow run with the state of every task."""
    from timeball.client.requests import workflows as requests

    found = session.ask(requests.workflow_run(session.run_id(run)))
    if found is not None:
        _show_run(session, found)


@workflows.command("cancel")
@_run
@connected
def cancel(session: CliSession, run: str) -> None:
    """Cancel a workflow run: create no more runs of its tasks, and cancel its live runs."""
    from timeball.client.requests import workflows as requests

    found = session.ask(requests.cancel_workflow_run(session.run_id(run)))
    if found is not None:
        how = "is cancelled" if found.finished else "is being cancelled"
        session.output.done(found.workflow_run_id, f"Run {found.workflow_run_id} {how}.")


@workflows.command("retry")
@_run
@click.option("--wait", is_flag=True, help="Wait until the run ends; exit with 1 unless it succeeds.")
@connected
def retry(session: CliSession, run: str, *, wait: bool) -> None:
    """Retry a workflow run: a new run executes the tasks that failed, and those that were skipped because of them.

    Tasks that succeeded keep their results, unless a task that they need runs again."""
    from timeball.client.requests import workflows as requests

    found = session.ask(requests.retry_workflow_run(session.run_id(run)), wait=wait)
    if found is None:
        return
    run_id = found.workflow_run_id
    waiting.wait_or_say(session, run_id, f"Run {run_id} replaces {found.retry_of}.", wait=wait)


def _show_run(session: CliSession, found: WorkflowRun) -> None:
    session.output.fields(
        [
            ("run", found.workflow_run_id),
            ("workflow", f"{found.name} ({found.workflow_id})" if found.name else found.workflow_id),
            ("status", found.status),
            ("because", found.reason or (found.error.message if found.error else "")),
            ("fire time", found.fire_time),
            ("started", found.start_time),
            ("ended", found.end_time),
            ("retry of", found.retry_of),
            ("retried as", found.retried_as),
            *((task.name, _standing(task)) for task in found.tasks),
        ]
    )


def _standing(task: TaskOfRun) -> str:
    many = ""
    if task.instances is not None:
        ended = task.status in ("succeeded", "failed", "cancelled")
        many = (
            f" ({task.instances} instances)"
            if ended
            else f" ({task.instances} instances, {task.instances_open} not ended)"
        )
    waits = ""
    if task.status == "waiting" and task.waits_for:
        waits = " for 1 task" if task.waits_for == 1 else f" for {task.waits_for} tasks"
    because = f": {task.reason}" if task.reason else ""
    where = f"  {task.run_id}" if task.run_id else ""
    return f"{task.status}{waits}{many}{because}{where}"


def _task_in_words(task: dict[str, Any]) -> str:
    kind = task["task"]["kind"] if task.get("task") else task.get("taskId")
    after = f" after {', '.join(task['needs'])}" if task.get("needs") else ""
    rule = f", if {task['runIf']}" if task.get("runIf") else ""
    each = ", once for each item" if "forEach" in task else ""
    return f"{kind}{after}{rule}{each}"


def _called(workflow: Workflow) -> str:
    return f"{workflow.name} ({workflow.workflow_id})" if workflow.name else workflow.workflow_id


def _next(workflow: Workflow) -> str:
    from timeball.system import wall

    if workflow.next_fire_at is None:
        return ""
    return f"; next fire {times.relative(workflow.next_fire_at, wall())}, at {times.exact(workflow.next_fire_at)}"


_COLUMNS: tuple[Column[Workflow], ...] = (
    Column("id", lambda workflow: workflow.workflow_id),
    Column("name", lambda workflow: workflow.name),
    Column("status", lambda workflow: workflow.status),
    Column("tasks", lambda workflow: len(workflow.tasks)),
    Column("schedule", lambda workflow: schedule_in_words(workflow.schedule)),
    Column("next", lambda workflow: workflow.next_fire_at),
)
_RUN_COLUMNS: tuple[Column[Any], ...] = (
    Column("run", lambda run: run.run_id),
    Column("status", lambda run: run.status),
    Column("fire time", lambda run: run.fire_time),
    Column("started", lambda run: run.start_time),
    Column("ended", lambda run: run.end_time),
    Column("origin", lambda run: run.origin),
)
