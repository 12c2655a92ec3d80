"""`timeball dead`: inspects, retries and discards dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from timeball.cli import listing
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.options import run_selection
from timeball.cli.output.failures import RUN_FAILED, failure_text
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.dead_letters import DeadGroup
    from timeball.client.models.runs import Retried, Run


@click.group(cls=LazyGroup)
def dead() -> None:
    """Inspect, retry and discard dead letters: runs that used up their retries."""


@dead.command("list")
@run_selection.narrowing
@listing.limits
@connected
def list_dead(session: CliSession, *, limit: int, everything: bool, **flags: Any) -> None:
    """List dead letters, newest first."""
    from timeball.client.requests import dead_letters as requests

    where: Any = run_selection.meant(session, flags)
    listing.show(
        session,
        lambda cursor: requests.dead_letters(where, limit=limit, cursor=cursor),
        _COLUMNS,
        everything=everything,
        nothing="No dead letters.",
    )


@dead.command("groups")
@run_selection.narrowing
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    metavar="N",
    help="Maximum number of groups.",
)
@connected
def groups(session: CliSession, *, limit: int, **flags: Any) -> None:
    """List dead letters grouped by error, the most frequent first."""
    from timeball.client.requests import dead_letters as requests

    where: Any = run_selection.meant(session, flags)
    found = session.ask(requests.dead_groups(where, limit=limit))
    if found is None:
        return
    session.output.table(_GROUP_COLUMNS, found.items, nothing="No dead letters.")
    if found.more and session.output.pretty:
        click.echo(f"Only the newest {found.counted:,} dead letters were counted.", err=True)


@dead.command("show")
@click.argument("run", metavar="RUN")
@connected
def show(session: CliSession, run: str) -> None:
    """Show the spec and the error of a dead run."""
    import msgspec

    from timeball.client import exchange
    from timeball.client.requests import runs as requests

    run_id = session.run_id(run)
    answers = session.client.send(requests.run(run_id)), session.client.send(requests.run_spec(run_id))
    if session.output.form == "json":
        shown, spec = map(msgspec.json.decode, answers)
        session.output.json(msgspec.json.encode({**shown, **spec}))
        return
    found = exchange.read(requests.run(run_id), answers[0])
    executed = exchange.read(requests.run_spec(run_id), answers[1])
    session.output.fields(
        [
            ("run", found.run_id),
            ("job", f"{found.job_name} ({found.job_id})" if found.job_name else found.job_id),
            ("status", found.status),
            ("error", failure_text(found.error.kind, found.error.message) if found.error else None),
            ("group", found.fingerprint),
            ("died", found.end_time),
            ("attempts", found.attempt),
            ("task", _json(executed.spec.get("task") or executed.spec.get("taskId"))),
            ("parameters", _json(executed.spec.get("parameters"))),
            ("timeout", executed.spec.get("timeout")),
            ("retry", _json(executed.spec.get("retry"))),
            ("edited", "for this run" if executed.edited else None),
            ("retry of", found.retry_of),
            ("retried as", found.retried_as),
            ("discarded", found.discarded_at),
        ]
    )


def _letters(command: Any) -> Any:
    """Add the options that select dead letters for an action, and those for a dry run and for no confirmation."""
    for option in reversed(
        (
            click.argument("runs", nargs=-1, metavar="[RUN]..."),
            run_selection.narrowing,
            click.option("--all", "everything", is_flag=True, help="Select all dead letters."),
            click.option("--dry-run", is_flag=True, help="Only count the dead letters."),
            click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation."),
        )
    ):
        command = option(command)
    return command


@dead.command("retry")
@_letters
@run_selection.editing
@connected
def retry(
    session: CliSession,
    runs: tuple[str, ...],
    *,
    params: tuple[str, ...],
    edit: str | None,
    dry_run: bool,
    **flags: Any,
) -> None:
    """Retry dead letters, unchanged or edited.

    \b
    Examples:
      timeball dead retry r_0194f3a1c2b79f86d081884c7d65
      timeball dead retry --group 0a1b2c3d4e5f
      timeball dead retry --job etl --param region=eu --edit '{"timeout": "1h"}'
      timeball dead retry --all --dry-run
    """
    from timeball.client.requests import dead_letters as requests

    changes = run_selection.edit_of(params, edit)
    where = _meant(session, runs, flags)
    if dry_run:
        _count(session, requests.retry_dead(runs, where, edit=changes, dry_run=True))
        return
    if not runs and run_selection.asks(yes=flags["yes"]):
        found = session.client.ask(requests.retry_dead(runs, where, edit=changes, dry_run=True))
        click.confirm(f"Retry {_so_many(found.matched)}{' with this edit' if changes else ''}?", abort=True)
        where["created_before"] = found.created_before
    answer = session.ask(requests.retry_dead(runs, where, edit=changes))
    if answer is not None:
        _tell(session, "retried", answer.retried, answer, named=bool(runs))


@dead.command("discard")
@_letters
@connected
def discard(session: CliSession, runs: tuple[str, ...], *, dry_run: bool, **flags: Any) -> None:
    """Discard dead letters. They stay in the history, and can still be retried by their ids.

    \b
    Examples:
      timeball dead discard r_0194f3a1c2b79f86d081884c7d65
      timeball dead discard --group 0a1b2c3d4e5f --yes
    """
    from timeball.client.requests import dead_letters as requests

    where = _meant(session, runs, flags)
    if dry_run:
        _count(session, requests.discard_dead(runs, where, dry_run=True))
        return
    if not runs and run_selection.asks(yes=flags["yes"]):
        found = session.client.ask(requests.discard_dead(runs, where, dry_run=True))
        click.confirm(f"Discard {_so_many(found.matched)}?", abort=True)
        where["created_before"] = found.created_before
    answer = session.ask(requests.discard_dead(runs, where))
    if answer is not None:
        _tell(session, "discarded", answer.discarded, answer, named=bool(runs))


def _meant(session: CliSession, runs: tuple[str, ...], flags: dict[str, Any]) -> Any:
    where = run_selection.meant(session, flags)
    if (bool(runs) + bool(where) + flags["everything"]) != 1:
        raise click.UsageError(
            "select the dead letters in one way: run ids, options such as --group or --job, or --all"
        )
    return {"everything": True} if flags["everything"] else where


def _count(session: CliSession, request: Any) -> None:
    found = session.ask(request)
    if found is not None:
        run_selection.counted(session, found.matched, "dead letter" if found.matched == 1 else "dead letters")


def _so_many(count: int) -> str:
    return f"{count:,} dead letter{'' if count == 1 else 's'}"


def _tell(session: CliSession, verb: str, changed: int, answer: Any, *, named: bool) -> None:
    refused = [item for item in answer.items if item.error]
    if not named:
        run_selection.summed_up(session, verb, answer.matched, changed, refused)
        return
    session.output.table(_OUTCOMES, answer.items, nothing="No dead letters.")
    if refused:
        click.get_current_context().exit(RUN_FAILED)


def _json(value: Any) -> str | None:
    import msgspec

    return msgspec.json.encode(value).decode() if value else None


_OUTCOMES: list[Column[Retried]] = [
    Column("run", lambda item: item.run_id),
    Column("again as", lambda item: item.retried_as),
    Column("refused because", lambda item: item.error.detail if item.error else None),
]
_COLUMNS: list[Column[Run]] = [
    Column("id", lambda run: run.run_id),
    Column("job", lambda run: run.job_name or run.job_id),
    Column("died", lambda run: run.end_time),
    Column("attempts", lambda run: run.attempt, optional=True),
    Column("group", lambda run: run.fingerprint),
    Column("error", lambda run: failure_text(run.error.kind, run.error.message) if run.error else None),
]
_GROUP_COLUMNS: list[Column[DeadGroup]] = [
    Column("group", lambda group: group.fingerprint),
    Column("letters", lambda group: group.count),
    Column("jobs", lambda group: group.jobs),
    Column("first", lambda group: group.first_at),
    Column("last", lambda group: group.last_at),
    Column("example", lambda group: group.example_run_id),
    Column("error", lambda group: failure_text(group.kind, group.message or "") if group.kind else None),
]
