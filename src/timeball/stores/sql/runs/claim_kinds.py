"""Claims for workers that take only some kinds of tasks.

A fleet without such workers pays nothing for them. For one of them, a claim looks at the candidates one by one, names
the kind of each among what it asks for, and sets those aside that no worker with room takes: they get a profile that
names their kind, and wait in its queue from then on. So what a worker refuses never stands before what it takes. The
kind is that of the task as it is now: when a registered one gets another kind, its runs leave the queue of the old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta, Struct

from timeball.domain.dispatch.placement import Need, Offer, need_of, profile
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.rows import unread
from timeball.stores.sql.statements import query

KEEP_PROFILES = query("keep_profiles")
WAIT_FOR_KIND = query("wait_for_kind")
TASKS_OF_RUNS = query("tasks_of_runs")
SET_ASIDE_RUNS_OF_TASK = query("set_aside_runs_of_task")


UNKNOWN_KIND: Final = "unknown"
"""Of a run whose task cannot be read here, or is not registered any more: restricted workers leave it."""


class _Task(Struct):
    """What is wanted of a task here. Kinds that only later versions know count, too."""

    kind: Annotated[str, Meta(pattern=r"^[a-z_]{1,50}\Z")]


class _Named(Struct):
    """What is wanted of a spec here."""

    task: _Task | None = None


_decode_spec = msgspec.json.Decoder(_Named).decode
_decode_task = msgspec.json.Decoder(_Task).decode


class Candidate(Protocol):
    """A run that could be claimed."""

    @property
    def job_id(self) -> str: ...

    @property
    def spec(self) -> str: ...

    @property
    def task(self) -> str | None: ...


def named(need: Need, each: Candidate, offers: Sequence[Offer]) -> Need:
    """What a run asks for, with its kind, if a worker with room for it takes only some kinds."""
    if all(offer.kinds is None for offer in offers if offer.slots >= need.slots):
        return need
    return need.of_kind(_kind(each))


async def set_aside(tx: Tx, runs: Sequence[tuple[str, str]]) -> None:
    """Let runs wait in the queues of profiles that name their kinds: ids and profiles."""
    await tx.execute(KEEP_PROFILES, b=sorted({queue for _, queue in runs}))
    await tx.execute(WAIT_FOR_KIND, b=sorted(runs))


async def call_back(tx: Tx, tenant: str, task_id: str, kind: str) -> None:
    """A registered task is of this kind now: its runs that wait in the queue of another kind leave that queue."""
    called: list[tuple[str, str | None]] = []
    for run_id, priority, queue in await tx.fetch(SET_ASIDE_RUNS_OF_TASK, tenant=tenant, id=task_id):
        need = need_of(queue)
        if need.of_kind(kind) != need:
            called.append((run_id, profile(need.of_any_kind(), priority)))
    if called:
        await tx.execute(KEEP_PROFILES, b=sorted({queue for _, queue in called if queue is not None}))
        await tx.execute(WAIT_FOR_KIND, b=called)


async def kinds_of(tx: Tx, run_ids: Sequence[str]) -> dict[str, str]:
    """The kinds of the tasks of live runs, by their ids."""
    found = starmap(_TaskOfRun, await tx.fetch(TASKS_OF_RUNS, b=list(run_ids)))
    return {run.id: _kind(run) for run in found}


class _TaskOfRun(Struct, frozen=True):
    """A row of `tasks_of_runs`."""

    id: str
    job_id: str
    spec: str
    task: str | None


def _kind(each: Candidate) -> str:
    try:
        task = _decode_spec(each.spec).task if each.task is None else _decode_task(each.task)
    except msgspec.MsgspecError as error:
        unread(each.job_id, error)
        return UNKNOWN_KIND
    return UNKNOWN_KIND if task is None else task.kind
