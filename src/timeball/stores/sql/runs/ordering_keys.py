"""Ordering keys: runs with the same key execute one after the other, in the order of their fire times.

The row of a key names the run that holds the key: a live run, or a failed one that blocks the key until a user retries
or discards it. All other runs with the key are BLOCKED by `Hold.TURN`. A transaction that adds or ends a run with a key
locks that row first. Locks are taken in this order: jobs, ordering keys, runs.
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
from timeball.stores.sql.changes import record_holds
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.schema.runs import RunRow
from timeball.stores.sql.statements import literals, query

LOCK_TURNS = query("lock_turns")
TURN_HOLDERS = query("turn_holders")
STEP_BACK = query("step_back")
SWAP_PLACES = query("swap_places")
ALL_WAIT = query("all_wait")
NEXT_IN_TURN = query("next_in_turn")
GIVE_KEY = query("give_key")
WRITE_TURNS = query("write_turns")
TURNS_HELD = query("turns_held")
DEAD_HOLDERS = query("dead_holders", gave_up=literals(GAVE_UP))

FIRST: Final[Micros] = -1
"""A fire time that sorts before every other one."""

OrderingKey = tuple[str, str]
"""The tenant of a job, and the ordering key."""


class EndedRun(Struct, frozen=True):
    """A run with an ordering key that ended, was deleted, or was released by its worker."""

    key: OrderingKey
    run_id: str
    keeps_key: bool = False
    """True if the run failed and keeps its ordering key until a user retries or discards the run."""


class LiveHolder(Struct, frozen=True):
    """A live run that holds an ordering key: a row of `turn_holders`."""

    run_id: str
    fire_time: Micros
    can_wait: int
    """1 if an earlier run may take the key from this one, because this run has had no attempt and is not a retry."""
    job_id: str


class _Head(Struct, frozen=True):
    """The first live run under a key: a row of `next_in_turn`."""

    tenant: str
    ordering_key: str
    run_id: str | None
    fire_time: Micros
    awaited_job: str | None
    """The id of the job of this run, if an earlier run of that job blocks it; None otherwise."""


class _Place(NamedTuple):
    """The place in the queue of an ordering key that a new run takes. Runs with a later fire time than `after`, or the
    same fire time and a greater id, come after it."""

    after: Micros
    run_id: str
    ordering_key: str


def key_of(run: NewRun) -> OrderingKey | None:
    return None if run.ordering_key is None else (run.tenant, plain(run.ordering_key))


def key_of_job(job: Job) -> OrderingKey | None:
    key = job.spec.ordering_key
    return None if key is None else (job.tenant, plain(key))


def gone(run: RunRow) -> EndedRun | None:
    """Return a run that ends or is deleted as one that gives up its ordering key (see `release`); None if it has no
    ordering key."""
    return None if run.ordering_key is None else EndedRun((run.tenant, run.ordering_key), run.id)


async def lock(tx: Tx, keys: Iterable[OrderingKey | None]) -> dict[OrderingKey, str | None]:
    """Lock the rows of ordering keys. Return the run that holds each; None for a key without a holder."""
    wanted = {key for key in keys if key is not None}
    if not wanted:
        return {}
    return {(tenant, key): holder for tenant, key, holder in await tx.fetch(LOCK_TURNS, b=sorted(wanted))}


async def enqueue(tx: Tx, runs: Iterable[NewRun]) -> set[str]:
    """Queue new runs under their ordering keys, before they are inserted. Return the ids of those that have to wait."""
    new_runs: dict[OrderingKey, list[NewRun]] = {}
    for run in runs:
        if run.ordering_key is not None and (key := key_of(run)) is not None:
            new_runs.setdefault(key, []).append(run)
    if not new_runs:
        return set()
    holders = await lock(tx, new_runs)
    alive = await _live_holders(tx, [each for each in holders.values() if each])
    given, displaced = new_holders(new_runs, holders, alive)
    if displaced:
        stepped_back = {run_id for (run_id,) in await tx.fetch(STEP_BACK, b=sorted(displaced))}
        for holder, key in displaced.items():
            if holder not in stepped_back:  # a worker claimed the run since it was read
                del given[key]
        await _pass_to_earlier(tx, given, [displaced[holder] for holder in stepped_back], new_runs)
    await _write(tx, given)
    return {run.id for key, lined_up in new_runs.items() for run in lined_up if given.get(key) != run.id}


def new_holders(
    new_runs: Mapping[OrderingKey, Sequence[NewRun]],
    holders: Mapping[OrderingKey, str | None],
    alive: Mapping[str, LiveHolder],
) -> tuple[dict[OrderingKey, str], dict[str, OrderingKey]]:
    """Return the ordering keys that new runs get, each with its run, and the live runs that lose a key for that. A pure
    function."""
    given: dict[OrderingKey, str] = {}
    displaced: dict[str, OrderingKey] = {}
    for key, lined_up in new_runs.items():
        first = min(lined_up, key=lambda run: (run.fire_time, run.id))
        holder = holders[key]
        if holder is None:
            given[key] = first.id
        elif holder not in alive:  # the holder failed: its retry inherits the key, a replay does not
            successors = (run.id for run in lined_up if run.retry_of == holder and run.origin is Origin.RETRY)
            if successor := next(successors, None):
                given[key] = successor
        else:
            found = alive[holder]
            if found.can_wait and (first.fire_time, first.id) < (found.fire_time, holder):
                given[key], displaced[holder] = first.id, key
    return given, displaced


async def _pass_to_earlier(
    tx: Tx,
    given: dict[OrderingKey, str],
    keys: Sequence[OrderingKey],
    new_runs: Mapping[OrderingKey, Sequence[NewRun]],
) -> None:
    """Give a key that its holder lost to the earliest run in the queue, if that run is earlier than the new runs."""
    earlier = []
    for key, head in (await _heads(tx, keys) if keys else {}).items():
        first = min((run.fire_time, run.id) for run in new_runs[key])
        if head.run_id is not None and (head.fire_time, head.run_id) < first:
            given[key] = head.run_id
            earlier.append(head.run_id)
    if earlier:
        record_holds(tx, await tx.fetch(GIVE_KEY, b=sorted(earlier)))


async def reconsider(tx: Tx, given_back: Sequence[EndedRun]) -> None:
    """Decide again which run holds the key, for keys of runs that workers released. An earlier run may have been queued
    under the same key after the claim: it gets the key, unless the released run blocks it as an earlier run of the same
    job. The keys are locked."""
    holders = await lock(tx, (each.key for each in given_back))
    held = {each.run_id: each.key for each in given_back if holders[each.key] == each.run_id}
    movable = [each for each in (await _live_holders(tx, sorted(held))).values() if each.can_wait] if held else []
    heads = await _heads(tx, [held[each.run_id] for each in movable])
    late = []
    for each in movable:
        head = heads[held[each.run_id]]
        if head.run_id != each.run_id and head.awaited_job != each.job_id:
            late.append(each.run_id)
    if late:
        stepped_back = {run_id for (run_id,) in await tx.fetch(STEP_BACK, b=sorted(late))}
        await advance(tx, [held[run_id] for run_id in stepped_back])


async def swap_with_waiting(tx: Tx, runs: Sequence[tuple[NewRun, int]], waiting: Container[str]) -> set[str]:
    """Exchange the places of two runs of one job that would wait for each other forever: the new run waits for the
    earlier run to end (overlap), and the earlier run waits behind the new one for their ordering key. Return the ids of
    the new runs that no run of their job blocks any more. `runs` are about to be inserted, each with its holds; those
    in `waiting` wait for their key. The jobs and keys are locked."""
    taken = {run.job_id for run, holds in runs if not holds & Hold.OVERLAP}
    first: dict[str, _Place] = {}
    for run, holds in runs:
        if run.ordering_key is not None and holds & Hold.OVERLAP and run.job_id not in taken:
            place = _Place(run.fire_time if run.id in waiting else FIRST, run.id, plain(run.ordering_key))
            first[run.job_id] = min(first.get(run.job_id, place), place)
    if not first:
        return set()
    places = [(job_id, place.ordering_key, place.after, place.run_id) for job_id, place in first.items()]
    moved = {job_id for (job_id,) in await tx.fetch(SWAP_PLACES, b=places)}
    freed = await tx.fetch(ALL_WAIT, b=sorted(moved)) if moved else []
    return {first[job_id].run_id for (job_id,) in freed}


async def release(tx: Tx, gone: Sequence[EndedRun]) -> None:
    """Give each key that one of these runs holds to the next run with that key, unless the run keeps it (`keeps_key`).
    The keys are locked."""
    if not gone:
        return
    holders = await lock(tx, (each.key for each in gone))
    ended = {each.run_id: each for each in gone}
    free = [key for key, holder in holders.items() if holder in ended and not ended[holder].keeps_key]
    await advance(tx, free)


async def advance(tx: Tx, keys: Sequence[OrderingKey]) -> None:
    """Give each key to the earliest live run with that key, if there is one. The keys are locked."""
    if not keys:
        return
    heads = {key: head.run_id for key, head in (await _heads(tx, keys)).items()}
    await _write(tx, heads)
    if chosen := sorted(run_id for run_id in heads.values() if run_id is not None):
        record_holds(tx, await tx.fetch(GIVE_KEY, b=chosen))


async def kept_by_dead(tx: Tx, job_ids: Sequence[str]) -> dict[OrderingKey, tuple[str, str]]:
    """Return the ordering keys that failed or dead runs of these jobs still hold, each with that run and its job."""
    rows = await tx.fetch(DEAD_HOLDERS, b=list(job_ids)) if job_ids else []
    return {(tenant, key): (holder, job_id) for tenant, key, holder, job_id in rows}


async def drop_holder(tx: Tx, run_ids: Sequence[str]) -> None:
    """Release the keys that finished runs still hold: a user has retried or discarded these runs."""
    held = [(tenant, key) for tenant, key in await tx.fetch(TURNS_HELD, b=list(run_ids))]
    holders = await lock(tx, held)
    finished = set(run_ids)
    await advance(tx, [key for key, holder in holders.items() if holder in finished])


async def _live_holders(tx: Tx, run_ids: Sequence[str]) -> dict[str, LiveHolder]:
    return {each.run_id: each for each in starmap(LiveHolder, await tx.fetch(TURN_HOLDERS, b=run_ids))}


async def _heads(tx: Tx, keys: Sequence[OrderingKey]) -> dict[OrderingKey, _Head]:
    """Return the earliest live run with each key."""
    found = starmap(_Head, await tx.fetch(NEXT_IN_TURN, b=sorted(keys)))
    return {(each.tenant, each.ordering_key): each for each in found}


async def _write(tx: Tx, holders: dict[OrderingKey, str] | dict[OrderingKey, str | None]) -> None:
    if holders:
        await tx.execute(WRITE_TURNS, b=[(*key, holder) for key, holder in sorted(holders.items())])
