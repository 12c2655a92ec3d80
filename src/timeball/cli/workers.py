"""`timeball workers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from timeball.cli.output import Column
from timeball.cli.session import Session, connected

if TYPE_CHECKING:
    from timeball.client.models import Worker


@click.command()
@connected
def workers(session: Session) -> None:
    """List the workers that are there, and how busy they are."""
    from timeball.client import requests

    answer = session.ask(requests.workers())
    if answer is not None:
        session.output.table(
            _COLUMNS, answer.items, nothing="No workers. Start one: timeball worker --server URL --token KEY"
        )


_COLUMNS: list[Column[Worker]] = [
    Column("name", lambda worker: worker.name),
    Column("id", lambda worker: worker.worker_id),
    Column("running", lambda worker: f"{worker.running}/{worker.slots}"),
    Column("cpu", lambda worker: "any" if worker.cpu is None else f"{worker.cpu:g}"),
    Column("memory", lambda worker: "any" if worker.memory_mb is None else f"{worker.memory_mb} MiB"),
    Column("labels", lambda worker: worker.labels),
    Column("dedicated", lambda worker: "yes" if worker.dedicated else ""),
    Column("tasks", lambda worker: worker.tasks),
    Column("version", lambda worker: worker.version),
    Column("started", lambda worker: worker.started_at),
    Column("seen", lambda worker: worker.seen_at),
]
