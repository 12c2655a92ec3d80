"""`timeball workers`: lists and drains workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from timeball.cli.lazy_group import LazyGroup
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected
from timeball.domain.ids import is_id

if TYPE_CHECKING:
    from timeball.client.models.workers import Worker


@click.group(cls=LazyGroup, invoke_without_command=True)
@click.option("--gone", is_flag=True, help="Also list workers that were lost or left within the last hour.")
@connected
def workers(session: CliSession, *, gone: bool) -> None:
    """List the live workers, and the resources of each that are in use; or drain a worker.

    "pools" shows the bounds for some runs of a worker that was started without --slots: plain Python functions in
    threads; and commands, scripts and Python functions in processes.

    A worker with "only" after its labels accepts only runs that ask for one of these labels. A worker that is kept for
    a run accepts no other run until it has capacity for that run. A worker that is draining gets no new runs.
    """
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        given = [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        if given:
            raise click.UsageError(f"options belong behind `{context.invoked_subcommand}`", context)
        return
    from timeball.client.requests import workers as requests

    answer = session.ask(requests.workers(gone=gone))
    if answer is not None:
        session.output.table(
            _COLUMNS, answer.items, nothing="No workers. Start one: timeball worker --server URL --token-file PATH"
        )


@workers.command("drain")
@click.argument("worker", metavar="WORKER")
@click.option("--wait", is_flag=True, help="Return when the worker has left.")
@connected
def drain(session: CliSession, worker: str, *, wait: bool) -> None:
    """Drain a worker, given by its id or its name: it accepts no new runs, finishes those that it has, and leaves.

    The process of `timeball worker` then exits with 0. The server inside `timeball up` continues, without a worker
    until the process is started again.

    \b
    Examples:
      timeball workers drain rack-7
      timeball workers drain rack-7 --wait && ssh rack-7 sudo reboot
    """
    from timeball.client.requests import workers as requests

    worker_id = worker if is_id("w", worker) else session.worker_id(worker)
    answer = session.ask(requests.drain_worker(worker_id), wait=wait)
    if not wait:
        if answer is not None:
            session.output.done(worker_id, f"{worker_id} is draining: it finishes its runs and leaves.")
        return
    from timeball.cli.waiting import look_until

    look_until(lambda: None if _is_there(session, worker_id) else worker_id, every=0.5)
    if session.output.form == "json":
        session.output.json(b'{"workerId":"%s","status":"left"}' % worker_id.encode())
    else:
        session.output.done(worker_id, f"{worker_id} has left.")


def _is_there(session: CliSession, worker_id: str) -> bool:
    return any(worker.worker_id == worker_id for worker in session.client.workers())


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
    Column("pools", lambda worker: ", ".join(f"{pool.slots} {pool.name}" for pool in worker.pools), optional=True),
    Column("cpu", _cpu, optional=True),
    Column("memory", _memory, optional=True),
    Column("labels", _labels),
    Column("kept for", lambda worker: worker.reserved_for),
    Column("tasks", lambda worker: worker.tasks, optional=True),
    Column("version", lambda worker: worker.version, optional=True),
    Column("started", lambda worker: worker.started_at, optional=True),
    Column("seen", lambda worker: worker.seen_at, optional=True),
    Column("status", lambda worker: worker.status),
]
