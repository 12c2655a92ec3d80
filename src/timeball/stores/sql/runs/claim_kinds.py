"""Claims for workers that accept only some task kinds.

A fleet without such workers pays nothing for this. For such a worker, a claim checks the kind of each candidate, and
sets those runs aside that no worker with free capacity accepts: they get a placement profile that names their kind, and
wait in the queue of that profile. A run that a worker refuses therefore never blocks one that it accepts. The kind is
that of the current task: when a registered task changes its kind, its runs leave the queue of the old kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta, Struct

from timeball.domain.dispatch.claim_rooms import TaskSort
from timeball.domain.dispatch.placement import Need, Offer, need_of, profile
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.rows.unreadable import unread
from timeball.stores.sql.statements import query

KEEP_PROFILES = query("keep_profiles")
WAIT_FOR_KIND = query("wait_for_kind")
TASKS_OF_RUNS = query("tasks_of_runs")
SET_ASIDE_RUNS_OF_TASK = query("set_aside_runs_of_task")


UNKNOWN_KIND: Final = "unknown"
"""The kind of a run whose task cannot be decoded, or is no longer registered. Restricted workers do not accept it."""


class _Task(Struct):
    """The kind of a task, and its Python function; other fields are not decoded. Kinds that only later versions know
    are accepted."""

    kind: Annotated[str, Meta(pattern=r"^[a-z_]{1,50}\Z")]
    function: str | None = None


class _Named(Struct):
    """The task of a spec; other fields are not decoded."""

    task: _Task | None = None


_decode_spec = msgspec.json.Decoder(_Named).decode
_decode_task = msgspec.json.Decoder(_Task).decode


class Candidate(Protocol):
    """A run to claim. Its registered task contains the task kind, and if it has none, its spec does."""

    @property
    def job_id(self) -> str: ...

    @property
    def spec(self) -> str: ...

    @property
    def task(self) -> str | None: ...


def named(need: Need, each: Candidate, offers: Sequence[Offer]) -> Need:
    """Return the placement requirements of a run. They include its task kind if a worker with enough slots accepts only
    some kinds.
    """
    if all(offer.kinds is None for offer in offers if offer.slots >= need.slots):
        return need
    return need.of_kind(_kind(each))


async def set_aside(tx: Tx, runs: Sequence[tuple[str, str]]) -> None:
    """Move runs to the queues of placement profiles that name their kinds. `runs` are ids and profiles."""
    await tx.execute(KEEP_PROFILES, b=sorted({queue for _, queue in runs}))
    await tx.execute(WAIT_FOR_KIND, b=sorted(runs))


async def call_back(tx: Tx, tenant: str, task_id: str, kind: str) -> None:
    """Move the ready runs of a registered task out of the queues of other task kinds, after a change of the task gave
    it this kind."""
    called: list[tuple[str, str | None]] = []
    for run_id, priority, queue in await tx.fetch(SET_ASIDE_RUNS_OF_TASK, tenant=tenant, id=task_id):
        need = need_of(queue)
        if need.of_kind(kind) != need:
            called.append((run_id, profile(need.of_any_kind(), priority)))
    if called:
        await tx.execute(KEEP_PROFILES, b=sorted({queue for _, queue in called if queue is not None}))
        await tx.execute(WAIT_FOR_KIND, b=called)


async def sorts_of(tx: Tx, run_ids: Sequence[str]) -> dict[str, TaskSort]:
    """Return the task kinds of live runs and the names of their Python functions, by run id."""
    found = starmap(_TaskOfRun, await tx.fetch(TASKS_OF_RUNS, b=list(run_ids)))
    return {run.id: sort_of(run.job_id, run.spec, run.task) for run in found}


class _TaskOfRun(Struct, frozen=True):
    """A row of the statement `tasks_of_runs`."""

    id: str
    job_id: str
    spec: str
    task: str | None


def _kind(each: Candidate) -> str:
    return sort_of(each.job_id, each.spec, each.task)[0]


def sort_of(job_id: str, spec: str, task: str | None) -> TaskSort:
    """Return the task kind of a run, and the name of its Python function, if it has one; `UNKNOWN_KIND` if the task
    cannot be decoded or is no longer registered. `task` is the JSON of its registered task; None: its spec contains the
    task."""
    try:
        found = _decode_spec(spec).task if task is None else _decode_task(task)
    except msgspec.MsgspecError as error:
        unread(job_id, error)
        return UNKNOWN_KIND, None
    return (UNKNOWN_KIND, None) if found is None else (found.kind, found.function)
