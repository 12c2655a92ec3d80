"""`timeball backup` and `timeball restore`: a copy of an embedded store, and the way back."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from timeball import config
from timeball.cli.output.output import Form, Output
from timeball.cli.output.progress import shown_progress
from timeball.cli.session import output_option
from timeball.cli.setting_options import Wording, setting_options

if TYPE_CHECKING:
    from timeball.ports.store_backup import BackupManifest


@click.command(short_help="Copy an embedded store into one file, while it is in use.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@setting_options(
    "backup",
    wording={"data_dir": Wording("The data folder to back up (TIMEBALL_DATA_DIR; default ~/.local/share/timeball).")},
)
@output_option
def backup(*, file: Path, form: Form | None, **flags: Any) -> None:
    """Copy an embedded store into one new file, while a server uses it or not: the database, large values and scripts.

    The copy is consistent, and it is checked before the file gets its name. Run the command as the user of the server.
    The file has only digests of API keys, but it has everything that jobs were given and have printed: keep it as
    private as the data folder. Back up PostgreSQL with its own tools (docs/howto/backup.md).

    \b
    Examples:
      timeball backup /backup/timeball-$(date +%F).zip
      timeball backup --data-dir /var/lib/timeball /backup/timeball.zip
    """
    settings = config.backup(flags)
    output = Output(form)
    from timeball.bootstrap.tools import backups

    with shown_progress(output) as report:
        result = backups.run_backup(settings, file, report)
    if output.form == "json":
        import msgspec

        found = {
            "file": result.file,
            "bytes": result.size,
            "notIncluded": result.not_included,
            "missingObjects": result.missing_objects,
        }
        output.json(msgspec.json.encode({**found, **_as_json(result.manifest)}))
    else:
        output.fields([("file", result.file), ("bytes", f"{result.size:,}"), *_fields(result.manifest)])
    for place in result.not_included:
        click.echo(f"Not in this backup: {place}. Copy it now; docs/howto/backup.md says how.", err=True)
    if result.missing_objects:
        click.echo(
            f"{result.missing_objects} large values are missing, although rows refer to them. The store lost them"
            " before this backup.",
            err=True,
        )


@click.command(short_help="Bring a backup back, into an empty data folder.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@setting_options(
    "restore",
    wording={
        "data_dir": Wording(
            "The data folder, which must be empty (TIMEBALL_DATA_DIR; default ~/.local/share/timeball)."
        )
    },
)
@output_option
def restore(*, file: Path, form: Form | None, **flags: Any) -> None:
    """Bring a backup back, into a data folder that is empty or does not exist.

    The backup is checked completely before the database gets its name: its checksum, the database, the schema and the
    number of rows. Run the command as the user of the server, and only with a file that you trust, because its jobs
    execute. When a server starts on it, the time since the backup counts as an outage (docs/howto/backup.md).

    \b
    Examples:
      timeball restore /backup/timeball-2026-11-20.zip --data-dir /var/lib/timeball
    """
    settings = config.restore(flags)
    output = Output(form)
    from timeball.bootstrap.tools import backups

    with shown_progress(output) as report:
        result = backups.run_restore(settings, file, report)
    if output.form == "json":
        import msgspec

        output.json(msgspec.json.encode({"dataDir": result.data_dir, **_as_json(result.manifest)}))
        return
    output.fields([("data folder", result.data_dir), *_fields(result.manifest)])
    click.echo("", err=True)
    click.echo(f"  start it:  timeball up --data-dir {shlex.quote(result.data_dir)}", err=True)
    click.echo(
        "  Runs that were waiting at that time will execute. To look at them first, start `timeball server`, which"
        " executes none.",
        err=True,
    )


def _fields(manifest: BackupManifest) -> list[tuple[str, str]]:
    return [
        ("made by", f"timeball {manifest.version}"),
        ("schema", str(manifest.schema)),
        ("last commit", manifest.store_time),
        ("rows", f"{sum(manifest.rows.values()):,}"),
        ("large values", f"{manifest.objects:,}"),
        ("scripts", f"{manifest.scripts:,}"),
    ]


def _as_json(manifest: BackupManifest) -> dict[str, Any]:
    import msgspec

    return {"manifest": msgspec.to_builtins(manifest)}
