"""`timeball plan`, `timeball apply` and `timeball export`: jobs that are declared in files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from timeball.cli.output import failures
from timeball.cli.output.failures import printable
from timeball.cli.session import CliSession, connected
from timeball.domain.errors import Invalid, TimeballError

if TYPE_CHECKING:
    from timeball.manifests.apply import Done
    from timeball.manifests.files import FileSet
    from timeball.manifests.plan import ManifestPlan
    from timeball.manifests.remote import RemoteServer

F = TypeVar("F", bound=Callable[..., Any])

PENDING = 2
WRONG = 1


class _WrongUsage(click.UsageError):
    exit_code = WRONG


class PlanCommand(click.Command):
    """A command with the exit code 2 for pending changes. All errors exit with 1, also a wrong option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _WrongUsage(error.message, error.ctx) from None


def file_options(command: F) -> F:
    for option in reversed(
        (
            click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER|-..."),
            click.option(
                "--set", "set_name", metavar="NAME", help="Name of the set of jobs (default: as in the files)."
            ),
            click.option("--prune", is_flag=True, help="Cancel jobs of the set that are no longer declared."),
            click.option("--take-over", is_flag=True, help="Also change jobs that belong to another set."),
        )
    ):
        command = option(command)
    return command


@click.command("plan", cls=PlanCommand)
@file_options
@connected
def plan_command(
    session: CliSession, paths: tuple[str, ...], *, set_name: str | None, prune: bool, take_over: bool
) -> None:
    """Show what `apply` would change. Changes nothing.

    Lists the jobs that would be created, changed or cancelled, and the coming fires that would be moved, added or
    removed.

    Files are YAML or TOML with `jobs`, and optionally `defaults` for all of them and the name of a `set`:
    docs/howto/declared.md.

    Exits with 0 if there are no changes, with 2 if there are changes, and with 1 on an error.

    \b
    Examples:
      timeball plan jobs.yaml
      timeball plan jobs/ --prune
      timeball export | timeball plan -
    """
    try:
        made = _plan(session, paths, set_name, prune, take_over)
    except TimeballError as error:
        fail(error)
    show(session, made)
    click.get_current_context().exit(PENDING if made.pending else 0)


@click.command("apply")
@file_options
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation before jobs are cancelled.")
@connected
def apply_command(
    session: CliSession, paths: tuple[str, ...], *, set_name: str | None, prune: bool, take_over: bool, yes: bool
) -> None:
    """Change the jobs on the server to what the files declare.

    The command can be repeated: a second call changes nothing, and after an interruption it applies the rest. A job
    that another client changes at the same time is not changed, and is reported. No change runs a past fire again.

    Exits with 0 if all jobs were applied, and with 1 if the files are invalid or a job could not be applied.

    \b
    Examples:
      timeball apply jobs.yaml
      timeball apply jobs/ --prune --yes
    """
    from timeball.manifests.errors import FilesRefused

    try:
        made = _plan(session, paths, set_name, prune, take_over)
    except FilesRefused as error:
        fail(error)
    if session.output.form != "json":
        _tell_undeclared(made)
    if not carry_out(session, made, yes=yes):
        click.get_current_context().exit(WRONG)


@click.command("export")
@click.option("--set", "set_name", metavar="NAME", help="Only the jobs of this set.")
@click.option(
    "--all", "everything", is_flag=True, help="Also export completed jobs. Cancelled ones are never exported."
)
@click.option("--to", metavar="FILE", help="Write to this file: YAML, or TOML if its name ends in .toml.")
@click.option("--toml", is_flag=True, help="Write TOML instead of YAML.")
@connected
def export_command(session: CliSession, *, set_name: str | None, everything: bool, to: str | None, toml: bool) -> None:
    """Write the jobs of the server to a file that `plan` reports as unchanged.

    \b
    Examples:
      timeball export --to jobs.yaml
      timeball export --set nightly --toml
    """
    from timeball.manifests import export
    from timeball.manifests.remote import RemoteServer

    check_set(set_name)
    found, left_out = export.export(RemoteServer(session.client), set_name, everything=everything)
    if session.output.form == "json":
        import msgspec

        session.output.json(msgspec.json.encode(found))
    else:
        write(found, to, toml=toml or (to or "").endswith(".toml"))
    for reason in left_out:
        click.secho(f"Warning: {printable(reason)}", fg="yellow", err=True)


# --- shared with `import` -----------------------------------------------------------------------------------------


def carry_out(session: CliSession, made: ManifestPlan, *, yes: bool) -> bool:
    """Apply a plan and print the result of each step. Return True if all steps were applied."""
    from timeball.domain.text import english
    from timeball.manifests import apply

    gone = made.of("cancel")
    if gone and not yes and sys.stdin.isatty():
        names = ", ".join(step.name for step in gone[:10])
        more = ", …" if len(gone) > 10 else ""
        jobs = english.counted(len(gone), "job")
        click.confirm(printable(f"Cancel {jobs} and all live runs permanently ({names}{more})?"), abort=True)
    elif gone and not yes:
        jobs = english.counted(len(gone), "job")
        raise click.UsageError(
            f"{jobs} would be cancelled; confirm this with --yes, because standard input is not a terminal"
        )
    done = []
    for each in apply.apply(made, server_of(session)):
        done.append(each)
        if session.output.form != "json":
            _tell(session, each, made.now)
    failed = [each for each in done if each.error is not None]
    if session.output.form == "json":
        import msgspec

        from timeball.manifests import render

        session.output.json(msgspec.json.encode(render.applied(made, done)))
        return not failed
    _hint(session, made)
    counts = dict.fromkeys(_VERBS.values(), 0)
    for each in done:
        if each.error is None:
            counts[_VERBS[each.step.action]] += 1
    summary = [f"{count:,} {verb}" for verb, count in counts.items() if count]
    summary += [f"{len(failed):,} refused"] if failed else []
    unchanged = len(made.of("unchanged"))
    click.echo(", ".join([*summary, f"{unchanged:,} unchanged"]))
    return not failed


_VERBS = {"create": "created", "change": "changed", "cancel": "cancelled"}


def show(session: CliSession, made: ManifestPlan) -> None:
    from timeball.manifests import render

    if session.output.form == "json":
        import msgspec

        session.output.json(msgspec.json.encode(render.planned(made)))
        return
    for step in made.steps:
        for line in render.lines(step, made.now):
            click.secho(printable(line), fg=_COLOURS[step.action] if not line.startswith(" ") else None)
    _hint(session, made)
    click.echo(render.summary(made))


_COLOURS = {"create": "green", "change": "yellow", "cancel": "red", "undeclared": "yellow", "unchanged": None}


def _hint(session: CliSession, made: ManifestPlan) -> None:
    if made.set_name is None and session.output.pretty:
        click.echo(
            "These files name no set, so jobs that are removed from them stay on the server. To let --prune cancel such"
            " jobs, add `set: NAME` at the top.",
            err=True,
        )


def fail(error: TimeballError) -> NoReturn:
    """Print all errors, one per line, in the format of compilers, and exit with 1."""
    from timeball.manifests.errors import FilesRefused

    if isinstance(error, FilesRefused):
        for complaint in error.complaints:
            click.echo(printable(str(complaint)), err=True)
        failures.say(error.detail)
    else:
        failures.tell(error)
    click.get_current_context().exit(WRONG)


def write(content: dict[str, Any], to: str | None, *, toml: bool, heading: str = "") -> None:
    from timeball.manifests import writer

    text = writer.write_toml(content, heading) if toml else writer.write_yaml(content, heading)
    if to is None or to == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(to).write_text(text, "utf-8")
    except OSError as error:
        raise click.UsageError(f"cannot write {to}: {error.strerror or error}") from None


def server_of(session: CliSession) -> RemoteServer:
    from timeball.manifests.remote import RemoteServer

    return RemoteServer(session.client)


def _tell_undeclared(made: ManifestPlan) -> None:
    from timeball.manifests import render

    for step in made.of("undeclared"):
        for line in render.lines(step, made.now):
            click.secho(printable(line), fg=_COLOURS[step.action])


def _tell(session: CliSession, done: Done, now: int) -> None:
    from timeball.manifests import render

    if done.error is not None:
        click.secho(printable(f"! {done.step.name}: {done.error.detail}"), fg="red", err=True)
    else:
        click.secho(printable(render.did(done, now)), fg=_COLOURS[done.step.action])


def _plan(
    session: CliSession, paths: tuple[str, ...], set_name: str | None, prune: bool, take_over: bool
) -> ManifestPlan:
    from timeball.manifests import plan
    from timeball.system import wall

    wanted = _read(paths, set_name)
    if prune and wanted.name is None:
        raise Invalid("--prune needs the name of the set: write `set: NAME` at the top of a file, or use --set")
    return plan.make(wanted, server_of(session), wall(), prune=prune, take_over=take_over)


def _read(paths: tuple[str, ...], set_name: str | None) -> FileSet:
    from timeball.manifests import files

    check_set(set_name)
    given = sys.stdin.buffer.read() if files.STANDARD_INPUT in paths else None
    found = files.find([path for path in paths if path != files.STANDARD_INPUT])
    return files.read(found, set_name, given)


def check_set(name: str | None) -> None:
    from timeball.manifests import files

    if name is not None and (wrong := files.check_name(name)):
        raise Invalid(wrong)
