"""`timeball jobs`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from timeball.cli import listing, waiting
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.options.job_options import job_body, job_options, rule_lines
from timeball.cli.output import rule_text, times
from timeball.cli.output.failures import printable
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected
from timeball.domain.task.kinds import MAIN_FIELDS

if TYPE_CHECKING:
    from timeball.client.models.job import Job

_job = click.argument("job", metavar="JOB")


@click.group(cls=LazyGroup)
def jobs() -> None:
    """Create, look at and change jobs.

    JOB is a job's name or its id. If several jobs have the name, the one that is still to run is meant.
    """


@jobs.command("create")
@click.argument("name", default="")
@job_options
@click.option("--idempotency-key", metavar="KEY", help="Two calls with one key make one job.")
@click.option("--wait", is_flag=True, help="Wait for the first run; exit with 1 unless it succeeds.")
@connected
def create(session: CliSession, name: str, *, idempotency_key: str | None, wait: bool, **flags: Any) -> None:
    """Create a job. It is safe on disk when this returns.

    Say what to run with --shell, --http, --script, --python or --task-id, and when with --cron, --every or --at;
    without any of these it runs at once. In a pipe the job's id is all that is printed.

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
    from timeball.system import dice

    body = {field: value for field, value in job_body({"name": name or None, **flags}).items() if value is not None}
    key = idempotency_key or body.pop("idempotencyKey", None) or f"{dice().getrandbits(128):032x}"
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
@click.option("--name", metavar="NAME", help="Call it something else.")
@job_options
@click.option("--version", type=int, metavar="N", help="Only if the job still has this version.")
@connected
def update(session: CliSession, job: str, *, version: int | None, **flags: Any) -> None:
    """Change a job. What is not named stays as it is; --param adds to the parameters, --tag and --runs-on replace what
    was there, and `none` takes a rule away: --end-at none.

    The change counts from the moment it is acknowledged: nothing fires by the old rules after that.

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
        # Parts of what an update replaces as a whole: add the other parts, if nobody changes them meanwhile.
        current = session.client.job(job_id)
        flags = completed(flags, current)
        version = current.version if version is None else version
    changes = job_body(flags)
    if not changes:
        raise click.UsageError("say what to change, for example --cron or --timeout")
    _answer(session, requests.update_job(job_id, changes, version), "Updated")


@jobs.command("list")
@click.option("--status", metavar="STATUS", help="scheduled, paused, completed or cancelled.")
@click.option("--name", metavar="NAME", help="Only jobs of this name.")
@click.option("--tag", metavar="TAG", help="Only jobs with this tag.")
@click.option("--task-id", metavar="ID", help="Only jobs that run this registered task.")
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
        nothing="No jobs. Create one: timeball jobs create hello --shell 'echo hello'",
    )


@jobs.command("show")
@_job
@connected
def show(session: CliSession, job: str) -> None:
    """Show a job: what it runs, when, by which rules, and how it is."""
    from timeball.client.requests import jobs as requests

    job_id = session.job_id(job)
    found = session.ask(requests.job(job_id))
    if found is None:
        return
    status = session.client.status(job_id)
    last = f"{status.run_id} {status.status}" if status.run_id else None
    coming = session.client.next(job_id, 3) if found.status == "scheduled" else []
    session.output.fields(job_lines(found, last, coming))


def job_lines(found: Job, last: str | None, coming: Sequence[datetime]) -> list[tuple[str, Any]]:
    """What `show` prints, line by line; those without a value are left out."""
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
@click.option("--reason", default="", metavar="TEXT", help="Why, for those who wonder later.")
@click.option("--until", metavar="WHEN", help="Resume it then: 2026-03-01T02:00:00Z, or 2h from now.")
@connected
def pause(session: CliSession, job: str, *, reason: str, until: str | None) -> None:
    """Stop a job from firing until it is resumed, or until a moment. Runs that are under way go on.

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
    """Let a paused job fire again. What it missed is decided by its catch-up rule."""
    from timeball.client.requests import jobs as requests

    _answer(session, requests.resume(session.job_id(job)), "Resumed")


@jobs.command("run")
@_job
@click.option("--wait", is_flag=True, help="Wait until it ends; exit with 1 unless it succeeds.")
@connected
def run(session: CliSession, job: str, *, wait: bool) -> None:
    """Run a job now, beside its schedule. Its overlap policy applies."""
    from timeball.client.requests import jobs as requests

    run = session.ask(requests.run_now(session.job_id(job)), wait=wait)
    if run is None:
        return
    because = f": {run.detail}" if run.detail else ""
    waiting.wait_or_say(session, run.run_id, f"Run {run.run_id} is {run.status}{because}.", wait=wait)


@jobs.command("backfill")
@_job
@click.option("--from", "since", required=True, metavar="WHEN", help="The first fire: 2026-02-01, or 30d ago.")
@click.option("--to", "until", metavar="WHEN", help="Fires before this; now, by default.")
@click.option(
    "--parallelism", type=click.IntRange(1, 1000), default=1, show_default=True, metavar="N", help="How many at once."
)
@click.option("--dry-run", is_flag=True, help="Only count the fires.")
@click.option("--idempotency-key", metavar="KEY", help="Two calls with one key make one backfill.")
@click.option("--wait", is_flag=True, help="Wait until it ends; exit with 1 unless every run succeeded.")
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
    """Run the fires of a past range, again or for the first time: oldest first, N at a time, behind fresh runs.

    Each run executes the job as it is now, and finds the time it is for in TIMEBALL_FIRE_TIME.

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
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@connected
def delete(session: CliSession, job: str, *, yes: bool) -> None:
    """Cancel a job for good: stop its schedule and its live runs. Its history stays."""
    from timeball.client.requests import jobs as requests

    job_id = session.job_id(job)
    if not yes and sys.stdin.isatty():
        click.confirm(f"Cancel job {job} and its live runs for good?", abort=True)
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
    return f"; next fire {times.relative(job.next_fire_at, wall())}, at {times.exact(job.next_fire_at)}"


def completed(flags: Mapping[str, Any], current: Job) -> dict[str, Any]:
    """The options of an update with what they leave as it is: the zone of a new expression, the job to follow, other
    parameters and resources."""
    whole = dict(flags)
    said = {"expression": whole.pop("cron"), "timezone": whole.pop("tz")}
    if any(said.values()) and current.schedule.get("type") == "cron":
        whole["schedule"] = {**current.schedule, **{name: value for name, value in said.items() if value}}
        said = dict.fromkeys(said)
    whole |= {"cron": said["expression"], "tz": said["timezone"]}
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
    Column("tags", lambda job: job.tags),
]
