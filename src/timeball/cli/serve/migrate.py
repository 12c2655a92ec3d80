"""`timeball migrate`: moves the embedded store to PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from timeball import config
from timeball.cli.output.output import Column, Form, Output
from timeball.cli.output.progress import shown_progress
from timeball.cli.session import output_option
from timeball.cli.setting_options import Wording, setting_options
from timeball.domain.instant import MILLISECOND, SECOND
from timeball.domain.text import english

if TYPE_CHECKING:
    from timeball.ports.store_transfer import TransferResult


@click.command(short_help="Move everything from the embedded store to PostgreSQL.")
@setting_options(
    "migrate",
    first=("to", "to_file"),
    wording={
        "data_dir": Wording(
            "The data folder of the store to move (TIMEBALL_DATA_DIR; default ~/.local/share/timeball)."
        ),
        "store": Wording("The store to move, if it is not in the data folder: sqlite:///path (TIMEBALL_STORE)."),
    },
)
@click.option("--dry-run", is_flag=True, help="Show what would be moved, and whether it can be. Changes nothing.")
@click.option("--take-back", is_flag=True, help="Reopen a store that was moved, in its state before the move.")
@click.option("--yes", "-y", is_flag=True, help="With --take-back: do not ask for confirmation.")
@output_option
def migrate(*, dry_run: bool, take_back: bool, yes: bool, form: Form | None, **flags: Any) -> None:
    """Move everything from the embedded store to PostgreSQL: jobs, runs, history, logs and keys.

    Stop Timeball first: the store must not change during the move. When a server starts on the new store, the catch-up
    rule of each job decides about the fires that were due during the move, and interrupted runs are handled as after a
    crash. No fire is lost, and none is run twice.

    The move is atomic: after an interruption, start it again. Afterwards the old store cannot be opened, because
    otherwise both stores would fire every job.

    \b
    Examples:
      timeball migrate --to postgresql://timeball@db/timeball --dry-run
      timeball migrate --to postgresql://timeball@db/timeball
      timeball migrate --take-back
    """
    if take_back == (flags["to"] is not None or flags["to_file"] is not None):
        raise click.UsageError("give either --to or --take-back")
    settings = config.migrate(flags)
    output = Output(form)
    from timeball import bootstrap

    if take_back:
        if not yes:
            click.confirm(f"Is the new store of {settings.source} no longer in use?", abort=True)
        bootstrap.take_back(settings)
        output.done(str(settings.source), f"{settings.source} can be used again, in its state before the move.")
        return
    if dry_run:
        _tell(output, bootstrap.rehearse_migrate(settings), settings, dry_run=True)
        return
    with shown_progress(output) as report:
        move = bootstrap.run_migrate(settings, report)
    _tell(output, move, settings, dry_run=False)


def _tell(output: Output, move: TransferResult, settings: config.MigrateConfig, *, dry_run: bool) -> None:
    next_steps = _next_steps(move, settings, dry_run=dry_run)
    if output.form == "json":
        import msgspec

        output.json(msgspec.json.encode(_as_json(move, next_steps, dry_run=dry_run)))
        return
    columns: list[Column[tuple[str, int]]] = [Column("table", lambda row: row[0]), Column("rows", lambda row: row[1])]
    if not move.was_complete:
        rows = [(table, count) for table, count in move.rows.items() if count or not output.pretty]
        output.table(columns, rows, nothing="The store is empty.")
    click.echo("", err=True)
    click.echo(_headline(move, dry_run=dry_run), err=True)
    if abs(move.ahead) >= SECOND:
        side = "ahead of" if move.ahead > 0 else "behind"
        click.echo(
            f"The clock of PostgreSQL is {english.about(abs(move.ahead))} {side} the clock of this machine; fire times"
            " use the clock of PostgreSQL.",
            err=True,
        )
    for step in next_steps:
        click.echo(f"  {step}", err=True)


def _headline(move: TransferResult, *, dry_run: bool) -> str:
    if move.was_complete:
        return f"An earlier move to {move.target} was complete already; the old store is now marked as moved."
    count = english.counted(sum(move.rows.values()), "row")
    if dry_run:
        return f"{count} would be moved from {move.source} to {move.target}. Nothing was changed."
    return f"Moved {count} from {move.source} to {move.target}, and counted them there. The old store is closed."


def _next_steps(move: TransferResult, settings: config.MigrateConfig, *, dry_run: bool) -> list[str]:
    if dry_run:
        return [f"first stop process {move.held_by}, which uses the store"] if move.held_by else []
    import shlex

    options = ["--store", move.target, "--data-dir", str(settings.data_dir)]
    if settings.target_objects is not None:
        place, query, _ = settings.target_objects.partition("?")  # the query may contain a secret
        options += ["--objects", f"{place}?…" if query else place]
    store = shlex.join(options)
    steps = [
        f"start it here again:  timeball up {store}",
        f"or a server alone:    timeball server {store} --host 0.0.0.0",
        "and more workers:     timeball worker --server http://HOST:1300 --token-file PATH",
    ]
    if move.target != settings.target:
        steps.append(
            "The password is left out here. Put the DSN into a file that only Timeball can read: TIMEBALL_STORE_FILE."
        )
    return steps


def _as_json(move: TransferResult, next_steps: list[str], *, dry_run: bool) -> dict[str, Any]:
    return {
        "source": move.source,
        "target": move.target,
        "dryRun": dry_run,
        "rows": dict(move.rows),
        "lastToken": move.token,
        "clockAheadMs": move.ahead // MILLISECOND,
        "heldBy": move.held_by,
        "wasComplete": move.was_complete,
        "next": next_steps,
    }
