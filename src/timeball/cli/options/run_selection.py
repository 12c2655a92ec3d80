"""Options that select runs and edit them, and the confirmation of changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from timeball.cli.options.job_options import pairs, read_json
from timeball.cli.output import times
from timeball.cli.output.failures import RUN_FAILED, printable
from timeball.cli.session import CliSession
from timeball.domain.errors import Invalid

if TYPE_CHECKING:
    from timeball.client.models.runs import Retried

F = TypeVar("F", bound=Callable[..., Any])

_WHERE = ("fingerprint", "tag", "user_id", "task_id", "status", "origin")


def narrowing(command: F) -> F:
    for option in reversed(
        (
            click.option("--job", metavar="JOB", help="Only runs of this job: its name or id."),
            click.option(
                "--group", "fingerprint", metavar="FINGERPRINT", help="Only runs whose error has this fingerprint."
            ),
            click.option("--tag", metavar="TAG", help="Only runs of jobs with this tag."),
            click.option("--task-id", metavar="ID", help="Only runs of jobs with this registered task."),
            click.option("--user-id", metavar="USER", help="Only runs of this user's jobs."),
            click.option(
                "--from",
                "since",
                metavar="WHEN",
                help="Only runs with a fire time from this on: a time, or 24h for 24 hours ago.",
            ),
            click.option(
                "--to",
                "until",
                metavar="WHEN",
                help="Only runs with a fire time before this: a time, or 1h for one hour ago.",
            ),
        )
    ):
        command = option(command)
    return command


def meant(session: CliSession, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filters of these options; empty if no option is given."""
    from timeball.system import wall

    where = {name: flags[name] for name in _WHERE if flags.get(name)}
    if flags.get("job"):
        where["job_id"] = session.job_id(flags["job"])
    for name in ("since", "until"):
        if flags.get(name):
            where[name] = times.when(flags[name], wall(), past=True)
    return where


def editing(command: F) -> F:
    for option in reversed(
        (
            click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help=_PARAM_HELP),
            click.option("--edit", metavar="JSON|@FILE", help=_EDIT_HELP),
        )
    ):
        command = option(command)
    return command


_PARAM_HELP = "Change a parameter of the new run; the value is JSON if valid, else text; null removes it. Repeatable."
_EDIT_HELP = """Change parameters, task, timeout, grace or retry of the new run: '{"timeout": "1h"}'."""


def edit_of(params: tuple[str, ...], edit: str | None) -> dict[str, Any] | None:
    """Return the changes of --edit and --param; None if there are none."""
    import msgspec

    changes: dict[str, Any] = {}
    if edit is not None and edit.startswith("@"):
        changes = read_json(edit[1:])
    elif edit is not None:
        try:
            changes = msgspec.json.decode(edit, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise Invalid(f"--edit is not a JSON object: {error}") from None
    if params:
        given = changes.get("parameters")
        changes["parameters"] = {**(given if isinstance(given, dict) else {}), **pairs(params, "--param")}
    return changes if changes or edit is not None else None


def asks(*, yes: bool) -> bool:
    """True if the command asks for confirmation: standard input is a terminal, and --yes is not given."""
    return not yes and sys.stdin.isatty()


def counted(session: CliSession, count: int, what: str) -> None:
    """Print the answer to a dry run."""
    click.echo(f"{count:,} {what}" if session.output.pretty else str(count))


def summed_up(session: CliSession, verb: str, matched: int, changed: int, refused: list[Retried]) -> None:
    """Print the counts of an action on many runs, and the first reasons for skipped runs. Exit with 1 if runs were
    skipped."""
    session.output.fields([("matched", matched), (verb, changed), ("skipped", matched - changed)])
    for item in refused[:10]:
        click.echo(f"  {item.run_id}: {printable(item.error.detail if item.error else '')}", err=True)
    if changed < matched:
        click.get_current_context().exit(RUN_FAILED)
