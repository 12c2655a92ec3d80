"""`timeball runs`: shows, cancels, retries and replays runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import click

from timeball.cli import listing, waiting
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.options import run_selection
from timeball.cli.output import rule_text, times
from timeball.cli.output.failures import failure_text
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected
from timeball.domain.text import english

if TYPE_CHECKING:
    from timeball.client.models.runs import Attempt, Run

_run = click.argument("run", metavar="RUN")


def _status(command: Any) -> Any:
    origin = click.option(
        "--origin",
        metavar="ORIGIN",
        help="Only runs of this origin: schedule, catch_up, manual, retry, replay, backfill.",
    )
    status = click.option(
        "--status",
        metavar="STATUS",
        help="Only runs with this status: queued, running, retrying, succeeded, failed, dead, …",
    )
    return status(origin(command))


@click.group(cls=LazyGroup)
def runs() -> None:
    """Inspect, wait for, cancel, retry and replay runs.

    RUN is the id of a run (r_…), or the name or the id of a job for its run that started last.
    """


@runs.command("list")
@_status
@run_selection.narrowing
@click.option("--worker", metavar="WORKER", help="Only runs that this live worker executes now: its name or id.")
@click.option("--archived", is_flag=True, help="List the runs that are only in the archive.")
@listing.limits
@connected
def list_runs(
    session: CliSession, *, worker: str | None, archived: bool, limit: int, everything: bool, **flags: Any
) -> None:
    """List runs, newest fire time first.

    \b
    Examples:
      timeball runs list --job etl --from 24h
      timeball runs list --status failed -o json
      timeball runs list --archived --job etl --from 2026-03-01 --to 2026-04-01
    """
    from timeball.client.requests import runs as requests

    where = run_selection.meant(session, flags)
    worker_id = None if worker is None else session.worker_id(worker)
    listing.show(
        session,
        lambda cursor: requests.runs(**where, worker_id=worker_id, archived=archived, limit=limit, cursor=cursor),
        COLUMNS,
        everything=everything,
        nothing="No runs.",
        at_least=1 if archived else 0,
    )


@runs.command("show")
@_run
@connected
def show(session: CliSession, run: str) -> None:
    """Show a run and all its attempts."""
    from timeball.client.requests import runs as requests

    found = session.ask(requests.run(session.run_id(run)))
    if found is None:
        return
    session.output.fields(
        [
            ("run", found.run_id),
            ("job", f"{found.job_name} ({found.job_id})" if found.job_name else found.job_id),
            ("status", found.status),
            ("waits for", rule_text.waits_for(found.blocked_by)),
            ("error", failure_text(found.error.kind, found.error.message) if found.error else None),
            ("verdict", found.verdict),
            ("reason", found.reason),
            ("origin", found.origin),
            ("fire time", found.fire_time),
            ("due", found.due_at),
            ("start by", found.start_by),
            ("in order of", found.ordering_key),
            ("started", found.start_time),
            ("late", None if found.late_ms is None else times.milliseconds(found.late_ms)),
            ("of which", str(found.lateness) if found.lateness else None),
            ("ended", found.end_time),
            ("progress", found.progress),
            ("note", found.progress_note),
            ("worker", found.executor_id),
            ("makes room for", found.preempted_by),
            ("made room", _times(len(found.preemptions))),
            ("cancel requested", found.cancel_requested_at),
            ("because", found.cancel_reason),
            ("retry of", found.retry_of),
            ("retried as", found.retried_as),
            ("replay of", found.replay_of),
            ("came after", found.followed_run_id),
            ("backfill", found.backfill_id),
            ("group", found.fingerprint),
            ("discarded", found.discarded_at),
            ("archived", "yes" if found.archived else None),
            *((f"attempt {attempt.attempt}", _attempt(attempt)) for attempt in found.attempts),
        ]
    )


@runs.command("logs")
@_run
@click.option("--follow", "-f", is_flag=True, help="Print new output until the run ends.")
@click.option("--attempt", type=int, metavar="N", help="Only the output of this attempt.")
@click.option("--grep", metavar="TEXT", help="Only lines that contain this text, in any case.")
@connected
def logs(session: CliSession, run: str, *, follow: bool, attempt: int | None, grep: str | None) -> None:
    """Print the output of a run, exactly as the run wrote it. On a terminal, a line separates its attempts.

    With --follow and -o json, each line is a JSON object. --follow reconnects when a server restarts. --grep searches
    on the server.
    """
    from timeball.client.requests import runs as requests

    run_id = session.run_id(run)
    if follow:
        _follow(session, run_id, attempt, grep)
    elif session.output.form == "json":
        listing.show_json(
            session,
            lambda cursor: requests.log_page(run_id, attempt=attempt, search=grep, cursor=cursor),
            everything=True,
        )
    elif attempt is None and session.output.pretty and (last := session.client.run(run_id).attempt) > 1:
        _separated(
            (number, session.client.send(requests.logs(run_id, attempt=number, search=grep)))
            for number in range(1, last + 1)
        )
    else:
        _write(session.client.send(requests.logs(run_id, attempt=attempt, search=grep)))


@runs.command("cancel")
@_run
@connected
def cancel(session: CliSession, run: str) -> None:
    """Cancel a run. A running one is stopped with all processes that it started. The run ends as cancelled."""
    from timeball.client.requests import runs as requests

    run_id = session.run_id(run)
    found = session.ask(requests.cancel(run_id))
    if found is not None:
        session.output.done(run_id, f"Run {run_id} is {found.status}{_being_cancelled(found)}.")


@runs.command("retry")
@_run
@run_selection.editing
@click.option("--wait", is_flag=True, help="Wait until the new run ends; exit with 1 unless it succeeds.")
@connected
def retry(session: CliSession, run: str, *, params: tuple[str, ...], edit: str | None, wait: bool) -> None:
    """Retry a failed, dead or cancelled run, unchanged or edited. A run that waits for its retry starts at once."""
    from timeball.client.requests import runs as requests

    again = session.ask(requests.retry(session.run_id(run), run_selection.edit_of(params, edit)), wait=wait)
    if again is None:
        return
    waiting.wait_or_say(session, again.run_id, f"Run {again.run_id} is {again.status}.", wait=wait)


@runs.command("replay")
@_run
@run_selection.editing
@click.option("--wait", is_flag=True, help="Wait until the new run ends; exit with 1 unless it succeeds.")
@connected
def replay(session: CliSession, run: str, *, params: tuple[str, ...], edit: str | None, wait: bool) -> None:
    """Run a finished run once more, with the current spec of its job or an edited one. Its status does not matter."""
    from timeball.client.requests import runs as requests

    again = session.ask(requests.replay(session.run_id(run), run_selection.edit_of(params, edit)), wait=wait)
    if again is None:
        return
    waiting.wait_or_say(session, again.run_id, f"Run {again.run_id} is {again.status}: {again.detail}.", wait=wait)


@runs.command("bulk")
@click.argument("action", type=click.Choice(["cancel", "retry", "replay"]))
@_status
@run_selection.narrowing
@click.option("--all", "everything", is_flag=True, help="Select all runs that the action applies to.")
@run_selection.editing
@click.option("--dry-run", is_flag=True, help="Only count the runs.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@connected
def bulk(
    session: CliSession,
    action: Literal["cancel", "retry", "replay"],
    *,
    everything: bool,
    params: tuple[str, ...],
    edit: str | None,
    dry_run: bool,
    yes: bool,
    **flags: Any,
) -> None:
    """Cancel, retry or replay all runs that the options select, oldest first.

    \b
    Examples:
      timeball runs bulk cancel --job etl --dry-run
      timeball runs bulk retry --status failed --tag nightly --yes
      timeball runs bulk replay --job etl --from 2026-03-01 --to 2026-03-02
    """
    from timeball.client.requests import runs as requests

    where: Any = run_selection.meant(session, flags)
    if bool(where) == everything:
        raise click.UsageError("select the runs: either options such as --status or --job, or --all")
    if everything:
        where = {"everything": True}
    changes = run_selection.edit_of(params, edit)
    if dry_run:
        counted = session.ask(requests.bulk(action, where, edit=changes, dry_run=True))
        if counted is not None:
            run_selection.counted(session, counted.matched, "run" if counted.matched == 1 else "runs")
        return
    if run_selection.asks(yes=yes):
        found = session.client.ask(requests.bulk(action, where, edit=changes, dry_run=True))
        click.confirm(f"{action.capitalize()} {found.matched:,} run{'' if found.matched == 1 else 's'}?", abort=True)
        where["created_before"] = found.created_before
    answer = session.ask(requests.bulk(action, where, edit=changes))
    if answer is not None:
        run_selection.summed_up(session, _DONE[action], answer.matched, answer.changed, answer.failed)


_DONE = {"cancel": "cancelled", "retry": "retried", "replay": "replayed"}


@runs.command("wait")
@_run
@click.option("--timeout", type=float, metavar="SECONDS", help="Stop waiting after this time, with exit code 124.")
@connected
def wait(session: CliSession, run: str, *, timeout: float | None) -> None:
    """Wait until a run ends. Exits with 0 if it succeeded, otherwise with 1."""
    waiting.wait_and_exit(session, session.run_id(run), timeout)


def _follow(session: CliSession, run_id: str, attempt: int | None, grep: str | None) -> None:
    if session.output.form != "json" and not grep:
        chunks = (
            (chunk.attempt, chunk.text.encode()) for chunk in session.client.follow_output(run_id, attempt=attempt)
        )
        if attempt is None and session.output.pretty:
            _separated(chunks)
        else:
            for _, text in chunks:
                _write(text)
        return
    import msgspec

    for line in session.client.follow_logs(run_id, attempt=attempt):
        if not grep or grep.casefold() in line.text.casefold():
            as_json = session.output.form == "json"
            _write((msgspec.json.encode(line) if as_json else line.text.encode()) + b"\n")


def _separated(chunks: Iterable[tuple[int, bytes]]) -> None:
    """Write the output of a run, with a line before the output of each attempt but the first."""
    current, at_line_start = 1, True
    for attempt, text in chunks:
        if not text:
            continue
        if attempt != current:
            current = attempt
            click.secho(f"{'' if at_line_start else chr(10)}attempt {attempt}", dim=True)
        _write(text)
        at_line_start = text.endswith(b"\n")


def _write(text: bytes) -> None:
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def _being_cancelled(run: Run) -> str:
    return " and has been asked to stop" if run.cancel_requested_at is not None and not run.done else ""


def _times(count: int) -> str | None:
    return f"{count} time{'' if count == 1 else 's'}" if count else None


def _attempt(attempt: Attempt) -> str:
    ending = "ended" if attempt.end_time else "is running"
    if attempt.error:
        ending = failure_text(attempt.error.kind, attempt.error.message)
    facts = [f"on {attempt.executor_id or 'no worker'}"]
    if attempt.start_time is not None:
        facts.append(f"started {times.exact(attempt.start_time)}")
    if length := took(attempt):
        facts.append(f"took {length}")
    return f"{ending} ({', '.join(facts)})"


def took(run: Run | Attempt) -> str:
    if run.start_time is None or run.end_time is None:
        return ""
    return english.about(int((run.end_time - run.start_time).total_seconds() * 1_000_000))


def why(run: Run) -> str | None:
    """Return the reason why a run waits, is being stopped, failed or did not run; None if there is none to show."""
    if run.blocked_by:
        return f"waits for {rule_text.waits_for(run.blocked_by)}"
    if run.cancel_requested_at is not None and not run.done:
        return f"being cancelled: {run.cancel_reason}" if run.cancel_reason else "being cancelled"
    return run.error.message if run.error else run.reason


COLUMNS: list[Column[Run]] = [
    Column("id", lambda run: run.run_id),
    Column("job", lambda run: run.job_name or run.job_id),
    Column("status", lambda run: run.status),
    Column("fire time", lambda run: run.fire_time),
    Column("took", took, optional=True),
    Column("attempt", lambda run: run.attempt, optional=True),
    Column("worker", lambda run: run.executor_id, optional=True),
    Column("why", why),
]
