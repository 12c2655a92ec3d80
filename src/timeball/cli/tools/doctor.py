"""`timeball doctor`: explains what is wrong with an installation, and how to mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from timeball import config
from timeball.cli.output.failures import RUN_FAILED, printable
from timeball.cli.output.output import Column, Form, Output
from timeball.cli.session import output_option
from timeball.cli.setting_options import setting_options

if TYPE_CHECKING:
    from timeball.bootstrap.doctor import Finding

_COLOURS: Final = {"ok": "green", "warning": "yellow", "problem": "red", "skipped": "bright_black"}


@click.command(short_help="Explain what is wrong with an installation, and how to mend it.")
@setting_options("doctor")
@output_option
def doctor(*, form: Form | None, **flags: Any) -> None:
    """Explain what is wrong with an installation, and how to mend it.

    Checks this machine (folders, files with keys, disk, port, limits), the store, if this machine has one or a setting
    names one (connection, schema, clock, object storage), and the servers (versions, clocks, loops, key, workers, and
    work that no worker can do). Run it with the settings and as the user of the server or the worker. It changes
    nothing, but for a small object that it writes to the object storage and deletes.

    Exits with 1 if there is a problem. A warning does not change the exit code.

    \b
    Examples:
      timeball doctor
      sudo -u timeball timeball doctor --data-dir /var/lib/timeball
      timeball doctor --url https://timeball.example.com --token-file worker.key -o json
    """
    settings = config.doctor(flags)
    output = Output(form)
    from timeball.bootstrap.doctor import examine

    findings = []
    for finding in examine(settings):
        findings.append(finding)
        if output.pretty:
            _show(finding)
    problems = sum(1 for finding in findings if finding.status == "problem")
    if output.form == "json":
        import msgspec

        output.json(msgspec.json.encode({"problems": problems, "findings": findings}))
    elif output.pretty:
        click.echo()
        click.secho(_verdict(problems), fg="red" if problems else "green", bold=True)
    else:
        output.table(_COLUMNS, findings, nothing="")
    if problems:
        click.get_current_context().exit(RUN_FAILED)


def _show(finding: Finding) -> None:
    click.secho(f"{finding.status:<8}", fg=_COLOURS[finding.status], nl=False)
    click.echo(f" {finding.check:<17} {printable(finding.message)}")
    if finding.remedy:
        click.secho(f"{'':27}→ {printable(finding.remedy)}", bold=True)


def _verdict(problems: int) -> str:
    return "No problem found." if not problems else f"{problems} problem{'' if problems == 1 else 's'} found."


_COLUMNS: list[Column[Finding]] = [
    Column("status", lambda finding: finding.status),
    Column("check", lambda finding: finding.check),
    Column("message", lambda finding: finding.message),
    Column("remedy", lambda finding: finding.remedy),
]
