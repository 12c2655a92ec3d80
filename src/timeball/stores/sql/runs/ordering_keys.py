"""Turns: runs with the same ordering key go one after the other, in the order of their fire times.

One run has the turn, named in the key's row: a live one, or one that gave up and that nobody dealt with yet. All others
are held back. Who adds or ends a run with a key does so under the lock on that row; locks are taken after those on jobs
and before those on runs.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import starmap
from typing import Final, NamedTuple

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.run.ledger import Origin
from timeball.domain.run.lifecycle import Hold
from timeball.domain.run.run import NewRun
from timeball.domain.run.status import GAVE_UP
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.rows import plain
from timeball.stores.sql.schema import RunRow
from timeball.stores.sql.statements import literals, query

LOCK_TURNS = query("lock_turns")
TURN_HOLDERS = query("turn_holders")
STEP_BACK = query("step_back")
STEP_ASIDE = query("step_aside")
ALL_WAIT = query("all_wait")
NEXT_IN_TURN = query("next_in_turn")
GIVE_TURN = query("give_turn")
WRITE_TURNS = query("write_turns")
TURNS_HELD = query("turns_held")
DEAD_HOLDERS = query("dead_holders", gave_up=literals(GAVE_UP))

FIRST: Final[Micros] = -1
"""Before every fire time."""

OrderingKey = tuple[str, str]
"""Tenant and ordering key."""


class Gone(Struct, frozen=True):
    """A run that is not live any more."""

    key: OrderingKey
    run_id: str
    stays: bool = False
    """It gave up, and keeps the turn until somebody deals with it."""


class _LiveHolder(Struct, frozen=True):
    """A run that has the turn and is alive: a row of `turn_holders`."""

    run_id: str
    fire_time: Micros
    can_wait: int
    """Whether another run may go first."""
    job_id: str


class _Head(Struct, frozen=True):
    """The first live run under a key: a row of `next_in_turn`."""

    tenant: str
    ordering_key: str
    run_id: str | None
    fire_time: Micros
    awaited_job: str | None
    """Its job, if it waits for another run of that."""


class _Place(NamedTuple):
    """Where a run stands among those of its job: behind `after`, ties by id."""

    after: Micros
    run_id: str
    ordering_key: str


def key_of(run: NewRun) -> OrderingKey | None:
    return None if run.ordering_key is None else (run.tenant, plain(run.ordering_key))


def key_of_job(job: Job) -> OrderingKey | None:
    key = job.spec.ordering_key
    return None if key is None else (job.tenant, plain(key))


def gone(run: RunRow) -> Gone | None:
    """What to pass on of a run that ended without having given up; None: it has no ordering key."""
    return None if run.ordering_key is None else Gone((run.tenant, run.ordering_key), run.id)


async def lock(tx: Tx, keys: Iterable[OrderingKey | None]) -> dict[OrderingKey, str | None]:
    """The holders of the turns of these keys, kept from every other writer."""
    wanted = {key for key in keys if key is not None}
    if not wanted:
        return {}
    return {(tenant, key): holder for tenant, key, holder in await tx.fetch(LOCK_TURNS, b=sorted(wanted))}


async def enqueue(tx: Tx, runs: Iterable[NewRun]) -> set[str]:
    """Line up runs that are about to be inserted; answers those that have to wait for their turn."""
    newcomers: dict[OrderingKey, list[NewRun]] = {}
    for run in runs:
        if (key := key_of(run)) is not None:
            newcomers.setdefault(key, []).append(run)
    if not newcomers:
        return set()
    holders = await lock(tx, newcomers)
    alive = await _live_holders(tx, [each for each in holders.values() if each])
    given: dict[OrderingKey, str] = {}
    displaced: dict[str, OrderingKey] = {}
    for key, lined_up in newcomers.items():
        first = min(lined_up, key=lambda run: (run.fire_time, run.id))
        holder = holders[key]
        if holder is None:
            given[key] = first.id
        elif holder not in alive:  # it gave up; its retry inherits its turn, a replay does not
            heirs = (run.id for run in lined_up if run.retry_of == holder and run.origin is Origin.RETRY)
            if heir := next(heirs, None):
                given[key] = heir
        else:
            found = alive[holder]
            if found.can_wait and (first.fire_time, first.id) < (found.fire_time, holder):
                given[key], displaced[holder] = first.id, key
    if displaced:
        stepped_back = {run_id for (run_id,) in await tx.fetch(STEP_BACK, b=sorted(displaced))}
        for holder, key in displaced.items():
            if holder not in stepped_back:  # it was claimed in the last moment
                del given[key]
        await _let_earlier_go(tx, given, [displaced[holder] for holder in stepped_back], newcomers)
    await _write(tx, given)
    return {run.id for key, lined_up in newcomers.items() for run in lined_up if given.get(key) != run.id}


async def _let_earlier_go(
    tx: Tx,
    given: dict[OrderingKey, str],
    keys: Sequence[OrderingKey],
    newcomers: Mapping[OrderingKey, Sequence[NewRun]],
) -> None:
    """A turn that is taken away from somebody goes to the earliest, who need not be the newcomer."""
    earlier = []
    for key, head in (await _heads(tx, keys) if keys else {}).items():
        first = min((run.fire_time, run.id) for run in newcomers[key])
        if head.run_id is not None and (head.fire_time, head.run_id) < first:
            given[key] = head.run_id
            earlier.append(head.run_id)
    if earlier:
        await tx.execute(GIVE_TURN, b=sorted(earlier))


async def reconsider(tx: Tx, given_back: Sequence[Gone]) -> None:
    """Runs came back from a worker as if they had never been claimed: an earlier one may have come meanwhile, and goes
    first unless it waits for a run of the same job, since that is the one that came back. The turns are locked."""
    holders = await lock(tx, (each.key for each in given_back))
    mine = {each.run_id: each.key for each in given_back if holders[each.key] == each.run_id}
    movable = [each for each in (await _live_holders(tx, sorted(mine))).values() if each.can_wait] if mine else []
    heads = await _heads(tx, [mine[each.run_id] for each in movable])
    late = []
    for each in movable:
        head = heads[mine[each.run_id]]
        if head.run_id != each.run_id and head.awaited_job != each.job_id:
            late.append(each.run_id)
    if late:
        stepped_back = {run_id for (run_id,) in await tx.fetch(STEP_BACK, b=sorted(late))}
        await advance(tx, [mine[run_id] for run_id in stepped_back])


async def swap_with_waiting(tx: Tx, runs: Sequence[tuple[NewRun, int]], waiting: Container[str]) -> set[str]:
    """Runs that are about to be inserted, with what holds each, may wait for a run of their own job that waits behind
    them under their key: these change places. Answers those that nothing of their job holds any more. `waiting` are
    those that have to wait for their turn. The jobs and turns are locked."""
    taken = {run.job_id for run, holds in runs if not holds & Hold.OVERLAP}
    first: dict[str, _Place] = {}
    for run, holds in runs:
        if run.ordering_key is not None and holds & Hold.OVERLAP and run.job_id not in taken:
            place = _Place(run.fire_time if run.id in waiting else FIRST, run.id, plain(run.ordering_key))
            first[run.job_id] = min(first.get(run.job_id, place), place)
    if not first:
        return set()
    places = [(job_id, place.ordering_key, place.after, place.run_id) for job_id, place in first.items()]
    moved = {job_id for (job_id,) in await tx.fetch(STEP_ASIDE, b=places)}
    freed = await tx.fetch(ALL_WAIT, b=sorted(moved)) if moved else []
    return {first[job_id].run_id for (job_id,) in freed}


async def release(tx: Tx, gone: Sequence[Gone]) -> None:
    """Pass the turns of runs on that are not in `runs` any more. The turns are locked."""
    if not gone:
        return
    holders = await lock(tx, (each.key for each in gone))
    ended = {each.run_id: each for each in gone}
    free = [key for key, holder in holders.items() if holder in ended and not ended[holder].stays]
    await advance(tx, free)


async def advance(tx: Tx, keys: Sequence[OrderingKey]) -> None:
    """Give the turn to the next run under each key, if there is one. The turns are locked."""
    if not keys:
        return
    heads = {key: head.run_id for key, head in (await _heads(tx, keys)).items()}
    await _write(tx, heads)
    if chosen := sorted(run_id for run_id in heads.values() if run_id is not None):
        await tx.execute(GIVE_TURN, b=chosen)


async def kept_by_dead(tx: Tx, job_ids: Sequence[str]) -> dict[OrderingKey, tuple[str, str]]:
    """The turns that finished runs of these jobs keep, each with that run and its job."""
    rows = await tx.fetch(DEAD_HOLDERS, b=list(job_ids)) if job_ids else []
    return {(tenant, key): (holder, job_id) for tenant, key, holder, job_id in rows}


async def drop_holder(tx: Tx, run_ids: Sequence[str]) -> None:
    """Somebody dealt with finished runs: those of them that kept the turn do so no longer."""
    held = [(tenant, key) for tenant, key in await tx.fetch(TURNS_HELD, b=list(run_ids))]
    holders = await lock(tx, held)
    dealt_with = set(run_ids)
    await advance(tx, [key for key, holder in holders.items() if holder in dealt_with])


async def _live_holders(tx: Tx, run_ids: Sequence[str]) -> dict[str, _LiveHolder]:
    return {each.run_id: each for each in starmap(_LiveHolder, await tx.fetch(TURN_HOLDERS, b=run_ids))}


async def _heads(tx: Tx, keys: Sequence[OrderingKey]) -> dict[OrderingKey, _Head]:
    """The first live run under each key."""
    found = starmap(_Head, await tx.fetch(NEXT_IN_TURN, b=sorted(keys)))
    return {(each.tenant, each.ordering_key): each for each in found}


async def _write(tx: Tx, holders: dict[OrderingKey, str] | dict[OrderingKey, str | None]) -> None:
    if holders:
        await tx.execute(WRITE_TURNS, b=[(*key, holder) for key, holder in sorted(holders.items())])
