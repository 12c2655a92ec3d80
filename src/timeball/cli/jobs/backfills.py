"""`timeball backfills`, and the code that waits for a backfill."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from timeball.cli import listing, waiting
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.output import times
from timeball.cli.output.failures import RUN_FAILED
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.backfills import Backfill, BackfillRange

EVERY: Final = 0.5
"""Seconds between two requests while a command waits for a backfill."""
_backfill = click.argument("backfill", metavar="BACKFILL")


@click.group(cls=LazyGroup)
def backfills() -> None:
    """List, inspect and cancel backfills. `timeball jobs backfill` starts one."""


@backfills.command("list")
@click.option("--job", metavar="JOB", help="Only backfills of this job.")
@listing.limits
@connected
def list_backfills(session: CliSession, *, job: str | None, limit: int, everything: bool) -> None:
    """List backfills, newest first."""
    from timeball.client.requests import backfills as requests

    job_id = None if job is None else session.job_id(job)
    listing.show(
        session,
        lambda cursor: requests.backfills(job_id=job_id, limit=limit, cursor=cursor),
        _COLUMNS,
        everything=everything,
        nothing="No backfills.",
    )


@backfills.command("show")
@_backfill
@connected
def show(session: CliSession, backfill: str) -> None:
    """Show a backfill and its progress."""
    from timeball.client.requests import backfills as requests

    found = session.ask(requests.backfill_progress(backfill))
    if found is not None:
        session.output.fields(
            [
                ("id", found.backfill_id),
                ("job", f"{found.job_name} ({found.job_id})" if found.job_name else found.job_id),
                ("status", found.status),
                ("because", found.reason),
                ("from", found.since),
                ("to", found.until),
                ("parallelism", found.parallelism),
                ("fires", found.total),
                ("succeeded", found.succeeded),
                ("failed", found.failed),
                ("cancelled", found.cancelled),
                ("running", found.running),
                ("remaining", found.remaining),
                ("next", found.next_fire_time),
                ("created", found.created_at),
                ("finished", found.finished_at),
            ]
        )


@backfills.command("cancel")
@_backfill
@connected
def cancel(session: CliSession, backfill: str) -> None:
    """Cancel a backfill: create no more runs of it, and cancel its live runs."""
    from timeball.client.requests import backfills as requests

    found = session.ask(requests.cancel_backfill(backfill))
    if found is not None:
        session.output.done(backfill, f"Cancelled {backfill}: {_how_far(found)}.")


def wait_and_exit(session: CliSession, backfill_id: str) -> None:
    """Wait for a backfill. Exit with 0 if every fire succeeded, and with 1 otherwise."""
    from timeball.client.requests import backfills as requests

    found = _watched(session, backfill_id)
    if session.output.form == "json":
        session.ask(requests.backfill_progress(backfill_id))
    else:
        session.output.done(f"{backfill_id}\t{found.status}", f"{backfill_id} {found.status}: {_how_far(found)}.")
    if found.succeeded < found.total:
        click.get_current_context().exit(RUN_FAILED)


def in_words(found: BackfillRange) -> str:
    """Describe the fires that a backfill would run."""
    if found.first_fire_time is None or found.last_fire_time is None:
        return "There are no fires in this range."
    between = f"from {times.exact(found.first_fire_time)} to {times.exact(found.last_fire_time)}"
    return f"{found.total:,} fires, {between}."


def _watched(session: CliSession, backfill_id: str) -> Backfill:
    def look(tell: Callable[[str], None]) -> Backfill | None:
        found = session.client.backfill_progress(backfill_id)
        tell(_how_far(found))
        return found if found.over else None

    if not session.output.pretty:
        return waiting.look_until(lambda: look(lambda _: None), EVERY)
    from timeball.cli.output.output import console

    with console().status("waiting") as line:
        return waiting.look_until(lambda: look(line.update), EVERY)


def _how_far(found: Backfill) -> str:
    parts = [f"{found.done:,} of {found.total:,} fires are done"]
    parts += [f"{found.failed:,} of them failed"] if found.failed else []
    return ", ".join(parts)


_COLUMNS: list[Column[Backfill]] = [
    Column("id", lambda found: found.backfill_id),
    Column("job", lambda found: found.job_name or found.job_id),
    Column("status", lambda found: found.status),
    Column("done", lambda found: f"{found.done}/{found.total}"),
    Column("failed", lambda found: found.failed),
    Column("running", lambda found: found.running),
    Column("next", lambda found: found.next_fire_time),
    Column("created", lambda found: found.created_at),
]
