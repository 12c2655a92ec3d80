"""`timeball import`: imports crontabs and Kubernetes CronJobs as declared jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from timeball.cli.declare import manifests as declaring
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.output.failures import printable
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected
from timeball.domain.errors import Invalid

if TYPE_CHECKING:
    from timeball.manifests.files import FileSet
    from timeball.manifests.importing.translation import Translation
    from timeball.manifests.job import Declared

F = TypeVar("F", bound=Callable[..., Any])


@click.group("import", cls=LazyGroup)
def import_group() -> None:
    """Import the jobs of another scheduler as declared jobs.

    The jobs are declared as in the files of `plan` and `apply`. Importing the same file again changes nothing.
    """


def _import_options(command: F) -> F:
    for option in reversed(
        (
            click.argument("file", metavar="FILE|-"),
            click.option("--dry-run", is_flag=True, help="Only show what would be imported. Needs no server."),
            click.option(
                "--to",
                metavar="FILE",
                help="Write a file for `apply` instead: YAML, or TOML if its name ends in .toml.",
            ),
            click.option("--set", "set_name", metavar="NAME", help="The set that the jobs belong to."),
            click.option("--prefix", default="", metavar="TEXT", help="Prefix of all job names, such as web1-."),
            click.option(
                "--runs-on", multiple=True, metavar="LABEL", help="A label that the worker needs. Repeatable."
            ),
            click.option("--take-over", is_flag=True, help="Also change jobs that belong to another set."),
        )
    ):
        command = option(command)
    return command


@import_group.command("crontab")
@_import_options
@click.option(
    "--user-column/--no-user-column",
    default=None,
    help="Lines have a column with the user (default: only in /etc/crontab and /etc/cron.d).",
)
@click.option("--tz", metavar="ZONE", help="Time zone of cron (default: the time zone of this machine).")
@connected
def import_crontab(
    session: CliSession, file: str, *, user_column: bool | None, tz: str | None, set_name: str | None, **how: Any
) -> None:
    """Import a crontab. Each line becomes a job, with the environment variables that are set above it.

    A comment directly above a line is the name of the job. As with cron, runs are not retried and may overlap, and
    missed fires are not caught up. To change that, edit the file that --to writes, or use `jobs update`.

    Lines that cannot be imported are reported with the reason, and the others are imported. The command then exits
    with 1.

    \b
    Examples:
      crontab -l | timeball import crontab - --dry-run
      timeball import crontab /etc/crontab --set web1 --prefix web1- --runs-on web1
      timeball import crontab my.cron --tz Europe/Berlin --to jobs.yaml
    """
    from timeball import host
    from timeball.domain.schedule import zone
    from timeball.manifests.importing import crontab

    text = _raw(file).decode("utf-8-sig", "surrogateescape")
    zone_name = tz or host.timezone()
    zone.get(zone_name)
    columns = bool(crontab.SYSTEM_FILES.search(str(Path(file).resolve()))) if user_column is None else user_column
    found = crontab.translate(text, user_column=columns, timezone=zone_name)
    if tz is None and found.jobs and "CRON_TZ" not in text:
        click.echo(f"Times are in {zone_name}, the time zone of this machine; use --tz for another one.", err=True)
    _import(session, found, file, set_name or "crontab", **how)


@import_group.command("kubernetes")
@_import_options
@connected
def import_kubernetes(session: CliSession, file: str, *, set_name: str | None, **how: Any) -> None:
    """Import Kubernetes CronJobs from manifests, or from the output of kubectl.

    FILE has one or more manifests, or the output of `kubectl get cronjobs -o yaml`. The command of the container
    becomes a shell task, which a worker executes. Fields that cannot be imported are reported by name.

    \b
    Examples:
      kubectl get cronjobs -A -o yaml | timeball import kubernetes - --dry-run
      timeball import kubernetes cronjobs.yaml --to jobs.yaml
    """
    from timeball.manifests import parse
    from timeball.manifests.errors import FilesRefused
    from timeball.manifests.importing import kubernetes

    try:
        documents = parse.read("standard input" if file == "-" else file, _raw(file))
    except FilesRefused as error:
        declaring.fail(error)
    _import(session, kubernetes.translate(documents), file, set_name or "kubernetes", **how)


def _import(
    session: CliSession,
    found: Translation,
    file: str,
    set_name: str,
    *,
    dry_run: bool,
    to: str | None,
    take_over: bool,
    prefix: str,
    runs_on: tuple[str, ...],
) -> None:
    from timeball.manifests import plan, writer
    from timeball.manifests.errors import FilesRefused
    from timeball.manifests.importing import translation
    from timeball.system import wall

    found = translation.adapted(found, prefix, runs_on)
    try:
        declaring.check_set(set_name)
        wanted = translation.declared(found, "standard input" if file == "-" else file, set_name)
        for remark in found.remarks:
            colour = "red" if remark.lost else "yellow"
            click.secho(printable(f"{'Not imported, ' if remark.lost else ''}{remark}"), fg=colour, err=True)
        done = True
        if to is not None and not dry_run:
            content = writer.contents([each.document for each in found.jobs], set_name, found.defaults)
            heading = f"# Created by `timeball import` from {Path(file).name if file != '-' else 'standard input'}.\n\n"
            declaring.write(content, to, toml=to.endswith(".toml"), heading=heading)
            click.echo(f"Wrote {len(wanted.jobs)} jobs to {to}; review the file, then: timeball apply {to}", err=True)
        elif dry_run:
            _show(session, wanted, found)
        else:
            made = plan.make(wanted, declaring.server_of(session), wall(), take_over=take_over)
            done = declaring.carry_out(session, made, yes=True)
    except FilesRefused as error:
        declaring.fail(error)
    lost = {remark.line for remark in found.remarks if remark.lost}
    if lost or not done:
        click.get_current_context().exit(declaring.WRONG)


def _show(session: CliSession, wanted: FileSet, found: Translation) -> None:
    from timeball.domain import instant
    from timeball.manifests import fire_changes, fires
    from timeball.manifests.plan import timezone_of
    from timeball.system import wall

    now = wall()

    def first(job: Declared) -> int | None:
        try:
            return fires.of(job.spec, now, 1).first
        except Invalid:
            return None

    if session.output.form == "json":
        import msgspec

        items = [
            {
                "line": each.line,
                **each.document,
                "nextFireAt": None if (at := first(job)) is None else instant.render(at),
            }
            for each, job in zip(found.jobs, wanted.jobs, strict=True)
        ]
        remarks = [{"line": each.line, "detail": each.detail, "imported": not each.lost} for each in found.remarks]
        answer = {"set": wanted.name, "defaults": found.defaults, "items": items, "remarks": remarks}
        session.output.json(msgspec.json.encode(answer))
        return

    def next_fire(job: Declared) -> str:
        at = first(job)
        if job.paused or at is None:
            return "paused" if job.paused else "never"
        return fire_changes.first_fire(at, now, timezone_of(job.spec)) if session.output.pretty else instant.render(at)

    columns: Sequence[Column[Declared]] = [
        Column("line", lambda job: job.line),
        Column("name", lambda job: job.name),
        Column("schedule", lambda job: _schedule(job)),
        Column("next fire", next_fire),
        Column("runs", lambda job: _command(job)),
    ]
    session.output.table(columns, wanted.jobs, nothing="Nothing to import.")


def _schedule(job: Declared) -> str:
    from timeball.cli.jobs.jobs import schedule_in_words
    from timeball.manifests import diff

    return schedule_in_words(diff.document(job.spec)["schedule"])


def _command(job: Declared) -> str:
    command = getattr(job.spec.task, "command", "")
    return command if isinstance(command, str) else " ".join(map(str, command))


def _raw(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {file}: {error.strerror or error}") from None
