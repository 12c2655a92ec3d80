"""`timeball jobs`: creates, shows and changes jobs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from timeball.cli import listing, waiting
from timeball.cli.jobs.bulk import bulk, narrowing
from timeball.cli.jobs.versions import versions
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.options.job_options import job_body, job_options, rule_lines
from timeball.cli.output import rule_text, times
from timeball.cli.output.failures import printable
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected
from timeball.domain import instant
from timeball.domain.task.kinds import MAIN_FIELDS

if TYPE_CHECKING:
    from timeball.client.models.job import Job

_job = click.argument("job", metavar="JOB")


@click.group(
    cls=LazyGroup,
    instead=dict.fromkeys(
        ("cancel", "stop"), "`timeball jobs delete` ends a job for good, `timeball runs cancel` cancels one run"
    ),
)
def jobs() -> None:
    """Create, inspect and change jobs.

    JOB is the name or the id of a job. If several jobs have the name, the one that is scheduled or paused is used, or
    the newest one if all of them have ended. If several are scheduled or paused, use the id.
    """


@jobs.command("create")
@click.argument("name", default="")
@job_options
@click.option("--idempotency-key", metavar="KEY", help="Calls with the same key create only one job.")
@click.option("--wait", is_flag=True, help="Wait for the first run; exit with 1 unless it succeeds.")
@connected
def create(session: CliSession, name: str, *, idempotency_key: str | None, wait: bool, **flags: Any) -> None:
    """Create a job. The job is durable when the command returns.

    What to run: --shell, --http, --script, --python or --task-id. When: --cron, --every, --at, --window or --follow;
    without one of these, the job runs at once. In a pipe, only the id of the job is printed.

    \b
    Examples:
      timeball jobs create hello --shell "echo hello" --wait
      timeball jobs create etl --shell "python3 etl.py" --cron "0 2 * * *" --tz Europe/Berlin --timeout 30m
      timeball jobs create ping --http https://example.com/ping --every 15m --retries 5
      timeball jobs create sale --http https://example.com/sale --every 1h --start-at 2026-11-27 --max-runs 24
      timeball jobs create sync --shell /srv/sync --every 1m --overlap skip --concurrency warehouse=2
      timeball jobs create train --script train.py --cron "0 1 * * *" --cpu 4 --memory 8G --runs-on gpu
      timeball jobs create report --python reports.nightly --param days=30 --at 2026-03-01T02:00:00Z
      timeball jobs create --file job.json
    """
    from timeball.client.requests import jobs as requests
    from timeball.system import rng

    body = {field: value for field, value in job_body({"name": name or None, **flags}).items() if value is not None}
    key = idempotency_key or body.pop("idempotencyKey", None) or f"{rng().getrandbits(128):032x}"
    job = session.ask(requests.create_job(body, key), wait=wait)
    if job is None:
        return
    _warn(job)
    if wait:
        waiting.wait_and_exit(session, waiting.first_run(session, job.job_id), None)
    else:
        session.output.done(job.job_id, f"Created {_called(job)}{_next(job)}.")


@jobs.command("update")
@_job
@click.option("--name", metavar="NAME", help="New name of the job.")
@job_options
@click.option("--version", type=int, metavar="N", help="Change the job only if it still has this version.")
@connected
def update(session: CliSession, job: str, *, version: int | None, **flags: Any) -> None:
    """Change a job. Options that are not given do not change.

    --param adds to the parameters, --tag and --runs-on replace all values, and the value `none` removes a rule, as in
    --end-at none. All fires after the command returns use the new version of the job.

    \b
    Examples:
      timeball jobs update etl --cron "0 3 * * *" --tz Europe/Berlin
      timeball jobs update etl --timeout 1h --retries 0
      timeball jobs update etl --end-at 2026-12-31T23:59:59Z --max-runs none
      timeball jobs update etl --concurrency warehouse=1 --memory none
    """
    from timeball.client.requests import jobs as requests

    job_id = session.job_id(job)
    if any(flags[name] for name in ("cron", "tz", "on", "params", "cpu", "memory", "slots")):
        # An update replaces these fields as a whole. Add their other parts from the current version, and let the
        # server refuse the update if the job has been changed since that version.
        current = session.client.job(job_id)
        flags = completed(flags, current)
        version = current.version if version is None else version
    changes = job_body(flags)
    if not changes:
        raise click.UsageError("nothing to change; give an option such as --cron or --timeout")
    _answer(session, requests.update_job(job_id, changes, version), "Updated")


@jobs.command("list")
@narrowing
@listing.limits
@connected
def list_jobs(session: CliSession, *, limit: int, everything: bool, **filters: Any) -> None:
    """List jobs, newest first."""
    from timeball.client.requests import jobs as requests

    listing.show(
        session,
        lambda cursor: requests.jobs(**filters, limit=limit, cursor=cursor),
        _COLUMNS,
        everything=everything,
        at_least=1,
        nothing="No jobs. Create one: timeball jobs create hello --shell 'echo hello'",
    )


@jobs.command("show")
@_job
@connected
def show(session: CliSession, job: str) -> None:
    """Show a job: its task, schedule, rules, last run and next fires."""
    from timeball.client.requests import jobs as requests

    job_id = session.job_id(job)
    found = session.ask(requests.job(job_id))
    if found is None:
        return
    status = session.client.status(job_id)
    last = f"{status.run_id} {status.status}" if status.run_id else None
    coming = session.client.next(job_id, 3) if found.status == "scheduled" else []
    session.output.fields(job_lines(found, last, coming))


jobs.add_command(versions)
jobs.add_command(bulk)


def job_lines(found: Job, last: str | None, coming: Sequence[datetime]) -> list[tuple[str, Any]]:
    """Return the lines of `jobs show`. Lines without a value are not printed."""
    return [
        ("name", found.name),
        ("id", found.job_id),
        ("status", found.status),
        ("paused because", found.pause_reason),
        ("paused until", found.paused_until),
        ("description", found.description),
        ("runs", _what(found)),
        ("parameters", _compact(found.parameters)),
        ("schedule", schedule_in_words(found.schedule)),
        *rule_lines(found),
        ("next", found.next_fire_at),
        *(("then", moment) for moment in coming[1:]),
        ("last run", last),
        ("priority", found.priority),
        ("timeout", found.timeout),
        ("retries", found.retry.get("maxRetries")),
        *rule_text.of_job(found),
        ("catch-up", f"{found.catch_up} within {found.catch_up_window}"),
        ("tags", found.tags),
        ("version", found.version),
        ("created", found.created_at),
        ("updated", found.updated_at),
    ]


@jobs.command("pause")
@_job
@click.option("--reason", default="", metavar="TEXT", help="The reason, which `jobs show` prints.")
@click.option("--until", metavar="WHEN", help="Resume the job at this time: 2026-03-01T02:00:00Z, or 2h from now.")
@connected
def pause(session: CliSession, job: str, *, reason: str, until: str | None) -> None:
    """Pause a job: it does not fire until it is resumed, or until --until. Live runs continue.

    \b
    Examples:
      timeball jobs pause etl --reason "the warehouse moves" --until 2h
    """
    from timeball.client.requests import jobs as requests
    from timeball.system import wall

    end = times.when(until, wall()) if until else None
    verb = "Paused" if end is None else f"Paused until {end}:"
    _answer(session, requests.pause(session.job_id(job), reason, end), verb)


@jobs.command("resume")
@_job
@connected
def resume(session: CliSession, job: str) -> None:
    """Resume a paused job. Its catch-up rule decides about the fires during the pause."""
    from timeball.client.requests import jobs as requests

    _answer(session, requests.resume(session.job_id(job)), "Resumed")


@jobs.command("run")
@_job
@click.option("--wait", is_flag=True, help="Wait until the run ends; exit with 1 unless it succeeds.")
@connected
def run(session: CliSession, job: str, *, wait: bool) -> None:
    """Run a job now, in addition to its schedule. Its overlap policy applies."""
    from timeball.client.requests import jobs as requests

    run = session.ask(requests.run_now(session.job_id(job)), wait=wait)
    if run is None:
        return
    because = f": {run.detail}" if run.detail else ""
    waiting.wait_or_say(session, run.run_id, f"Run {run.run_id} is {run.status}{because}.", wait=wait)


@jobs.command("backfill")
@_job
@click.option(
    "--from", "since", required=True, metavar="WHEN", help="Start of the range: 2026-02-01, or 30d for 30 days ago."
)
@click.option("--to", "until", metavar="WHEN", help="End of the range, exclusive (default: now).")
@click.option(
    "--parallelism",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    metavar="N",
    help="Maximum number of runs at the same time.",
)
@click.option("--dry-run", is_flag=True, help="Only count the fires.")
@click.option("--idempotency-key", metavar="KEY", help="Calls with the same key create only one backfill.")
@click.option("--wait", is_flag=True, help="Wait until the backfill ends; exit with 1 unless every run succeeded.")
@connected
def backfill(
    session: CliSession,
    job: str,
    *,
    since: str,
    until: str | None,
    parallelism: int,
    dry_run: bool,
    idempotency_key: str | None,
    wait: bool,
) -> None:
    """Run the fires of a past range, again or for the first time.

    The fires run oldest first, at most --parallelism at a time, with a lower priority than new runs. Each run executes
    the current version of the job, and has its fire time in TIMEBALL_FIRE_TIME.

    \b
    Examples:
      timeball jobs backfill etl --from 2026-02-01 --to 2026-03-01 --dry-run
      timeball jobs backfill etl --from 30d --parallelism 4 --wait
    """
    from timeball.cli.jobs import backfills
    from timeball.client.requests import backfills as backfill_requests
    from timeball.client.requests.request import fresh_key
    from timeball.system import wall

    job_id, now = session.job_id(job), wall()
    begin = times.when(since, now, past=True)
    end = None if until is None else times.when(until, now, past=True)
    if dry_run:
        found = session.ask(backfill_requests.backfill_range(job_id, begin, end))
        if found is not None:
            session.output.done(str(found.total), backfills.in_words(found))
        return
    key = idempotency_key or fresh_key()
    begun = session.ask(
        backfill_requests.backfill(job_id, begin, end, parallelism=parallelism, idempotency_key=key), wait=wait
    )
    if begun is None:
        return
    if wait:
        backfills.wait_and_exit(session, begun.backfill_id)
    else:
        session.output.done(begun.backfill_id, f"Backfill {begun.backfill_id} has {begun.total:,} fires.")


@jobs.command("delete")
@_job
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@connected
def delete(session: CliSession, job: str, *, yes: bool) -> None:
    """Cancel a job permanently: stop its schedule and cancel its live runs. Its history stays."""
    from timeball.client.requests import jobs as requests

    job_id = session.job_id(job)
    if not yes and sys.stdin.isatty():
        click.confirm(f"Cancel job {job} and its live runs permanently?", abort=True)
    gone = session.ask(requests.delete_job(job_id))
    if gone is not None:
        session.output.done(job_id, f"Cancelled {job}.")


def _answer(session: CliSession, request: Any, verb: str) -> None:
    job: Job | None = session.ask(request)
    if job is not None:
        _warn(job)
        session.output.done(job.job_id, f"{verb} {_called(job)}{_next(job)}.")


def _warn(job: Job) -> None:
    for warning in job.warnings:
        click.secho(f"Warning: {printable(warning)}", fg="yellow", err=True)


def _called(job: Job) -> str:
    return f"{job.name} ({job.job_id})" if job.name else job.job_id


def _next(job: Job) -> str:
    from timeball.system import wall

    if job.next_fire_at is None:
        return ""
    now = wall()
    if instant.of(job.next_fire_at) <= now:
        return "; next fire due now"
    return f"; next fire {times.relative(job.next_fire_at, now)}, at {times.exact(job.next_fire_at)}"


def completed(flags: Mapping[str, Any], current: Job) -> dict[str, Any]:
    """Return the options of an update, completed with current values of the job. The API replaces a schedule,
    parameters and resources as a whole, so the parts that the user did not give are taken from the job: the time zone
    of a new cron expression, the job to follow, and other parameters and resources."""
    whole = dict(flags)
    cron_fields = {"expression": whole.pop("cron"), "timezone": whole.pop("tz")}
    if any(cron_fields.values()) and current.schedule.get("type") == "cron":
        whole["schedule"] = {**current.schedule, **{name: value for name, value in cron_fields.items() if value}}
        cron_fields = dict.fromkeys(cron_fields)
    whole |= {"cron": cron_fields["expression"], "tz": cron_fields["timezone"]}
    if flags["on"] and not flags["follow"] and current.schedule.get("type") == "follow":
        whole["follow"] = current.schedule["job"]
    if flags["params"]:
        whole["parameters"] = current.parameters
    whole["resources"] = current.resources
    return whole


def schedule_in_words(schedule: Mapping[str, Any]) -> str:
    expression = schedule.get("expression", "")
    match schedule.get("type"):
        case "cron":
            zone = schedule.get("timezone", "UTC")
            return str(expression) if zone == "UTC" else f"{expression} ({zone})"
        case "interval":
            return f"every {expression} s" if isinstance(expression, int) else f"every {expression}"
        case "date":
            return f"at {expression}"
        case "window":
            zone = schedule.get("timezone", "UTC")
            days = f" on {', '.join(schedule['days'])}" if schedule.get("days") else ""
            span = f"between {schedule.get('from')} and {schedule.get('to')}{days}"
            return span if zone == "UTC" else f"{span} ({zone})"
        case "follow":
            ends = {"succeeded": "success", "failed": "failure"}.get(str(schedule.get("on")), "run")
            return f"after each {ends} of {schedule.get('job')}"
        case _:
            return "once"


def _what(job: Job) -> str:
    if job.task is None:
        return f"task {job.task_id}"
    task = dict(job.task)
    kind = task.pop("kind", "?")
    main = MAIN_FIELDS.get(kind, "")
    value = task.pop(main, "")
    shown = value if isinstance(value, str) else " ".join(map(str, value))
    return f"{kind}: {shown}" + (f" {_compact(task)}" if task else "")


def _compact(value: Any) -> str:
    import msgspec

    return msgspec.json.encode(value).decode() if value else ""


_COLUMNS: list[Column[Job]] = [
    Column("name", lambda job: job.name),
    Column("id", lambda job: job.job_id),
    Column("status", lambda job: job.status),
    Column("schedule", lambda job: schedule_in_words(job.schedule)),
    Column("next fire", lambda job: job.next_fire_at),
    Column("tags", lambda job: job.tags, optional=True),
]
