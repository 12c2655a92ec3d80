"""`timeball workers`: lists the live workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.workers import Worker


@click.command()
@connected
def workers(session: CliSession) -> None:
    """List the live workers, and the resources of each that are in use.

    A worker with "only" after its labels accepts only runs that ask for one of these labels. A worker that is kept for
    a run accepts no other run until it has capacity for that run.
    """
    from timeball.client.requests import workers as requests

    answer = session.ask(requests.workers())
    if answer is not None:
        session.output.table(
            _COLUMNS, answer.items, nothing="No workers. Start one: timeball worker --server URL --token-file PATH"
        )


def _cpu(worker: Worker) -> str:
    return f"{worker.in_use.cpu:g}/{'any' if worker.cpu is None else f'{worker.cpu:g}'}"


def _memory(worker: Worker) -> str:
    return f"{worker.in_use.memory_mb}/{'any' if worker.memory_mb is None else f'{worker.memory_mb} MiB'}"


def _labels(worker: Worker) -> str:
    return ", ".join(worker.labels) + (" only" if worker.dedicated and worker.labels else "")


_COLUMNS: list[Column[Worker]] = [
    Column("name", lambda worker: worker.name),
    Column("id", lambda worker: worker.worker_id),
    Column("runs", lambda worker: worker.running),
    Column("slots", lambda worker: f"{worker.in_use.slots}/{worker.slots}"),
    Column("cpu", _cpu),
    Column("memory", _memory),
    Column("labels", _labels),
    Column("kept for", lambda worker: worker.reserved_for),
    Column("tasks", lambda worker: worker.tasks),
    Column("version", lambda worker: worker.version),
    Column("started", lambda worker: worker.started_at),
    Column("seen", lambda worker: worker.seen_at),
]
