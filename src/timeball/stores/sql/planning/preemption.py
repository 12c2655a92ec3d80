"""Preemption: the decision which running attempt gives its slots to which waiting run, checked by id, attempt, token
and state.

Free capacity is read without a lock. In the worst case an attempt is suspended for a run that finds a slot elsewhere,
and resumes a moment later. Under the lock of the attempt the store checks that it may be suspended, and that no other
attempt is suspended for the same run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import Any, Final

from msgspec import Struct, structs

from timeball.domain.dispatch import placement, preemption
from timeball.domain.dispatch.claim_rooms import TaskSort
from timeball.domain.dispatch.fair_share import FairShares
from timeball.domain.dispatch.placement import PLAIN, Need
from timeball.domain.dispatch.preemption import PreemptingRun, Preemption, Running
from timeball.domain.dispatch.priority import rank
from timeball.domain.dispatch.slot_pools import SlotPools
from timeball.domain.instant import Micros
from timeball.ports.worker_protocol import Pausing
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.planning.plans import NOW
from timeball.stores.sql.rows.values import bounded
from timeball.stores.sql.runs import claim_kinds
from timeball.stores.sql.runs.runs import LOCK_HOLDERS
from timeball.stores.sql.runs.workers import alive
from timeball.stores.sql.schema.runs import PreemptionRow
from timeball.stores.sql.statements import query
from timeball.stores.sql.tenants import running_quota

PREEMPTIBLE = query("preemptible_runs")
ANY_OPEN = query("any_preemption_open")
FIRST_WAITING = query("first_waiting")
LOCK_PREEMPTED = query("lock_preempted")
ADD_PREEMPTION = query("add_preemption")
COUNT_PREEMPTION = query("count_preemption")
PAUSE_ORDERS = query("pause_orders")
CLOSE = query("close_preemptions")
NOTE_PAUSED = query("note_paused")
NOTE_RESUMED = query("note_resumed")
TAKE_BACK = query("take_back")
PROFILES_OF_RUNS = query("profiles_of_runs")
PREEMPTIONS_OF = query("preemptions_of")
PREEMPTIONS_FOR = query("preemptions_for")

MAX_LOOKED_AT: Final = 1_000


class _Snapshot(Struct, frozen=True):
    """The result of one search for a preemption: the waiting run and the attempt to suspend for it, if there are
    any."""

    watched: bool
    """True if a running attempt allows preemption, or a preemption is open: the caller has to search again soon."""
    chosen: tuple[PreemptingRun, Running] | None = None
    some_open: bool = False


class _FirstWaiting(Struct, frozen=True):
    """A row of the statement `first_waiting`."""

    id: str
    priority: int
    profile: str | None
    eligible_at: Micros
    fire_time: Micros
    gated: int

    @property
    def tenant(self) -> str:
        return placement.tenant_of(self.profile)


class Preempting(StorePart):
    async def preempt(self) -> bool:
        async def look(tx: Tx) -> _Snapshot:
            return await _look(tx, self._credit, self._sharing)

        async def ask(tx: Tx) -> None:
            if snapshot.some_open:
                await tx.execute(CLOSE)
            if snapshot.chosen is not None:
                await _ask(tx, *snapshot.chosen)

        snapshot = await self._db.read(look)
        if snapshot.some_open or snapshot.chosen is not None:
            await self._db.write(ask)
        return snapshot.watched

    async def pause_orders(self) -> list[tuple[str, int, int]]:
        async def work(tx: Tx) -> list[tuple[str, int, int]]:
            return [(session, token, number) for session, token, number in await tx.fetch(PAUSE_ORDERS)]

        return await self._db.read(work)

    async def note_pauses(self, session: str, pauses: Sequence[tuple[Pausing, Micros]]) -> list[int]:
        async def work(tx: Tx) -> list[int]:
            rows = await tx.fetch(LOCK_HOLDERS, b=sorted({each.run_id for each, _ in pauses}))
            held = {(run_id, token) for run_id, _, token, holder in rows if holder == session}
            accepted = [(each, at) for each, at in pauses if (each.run_id, each.token) in held]
            paused = [_noted(each, at) for each, at in accepted if each.what == "paused"]
            over = [_noted(each, at) for each, at in accepted if each.what != "paused"]
            if paused:
                await tx.execute(NOTE_PAUSED, b=paused)
            if over:
                await tx.execute(NOTE_RESUMED, b=over)
                profiles = dict(await tx.fetch(PROFILES_OF_RUNS, b=sorted({run_id for run_id, *_ in over})))
                refused = {each.run_id for each, _ in accepted if each.what == "refused"}
                await tx.execute(
                    TAKE_BACK,
                    b=[
                        (run_id, _share(_need(profile)), 0 if run_id in refused else preemption.MAX_PREEMPTIONS)
                        for run_id, profile in sorted(profiles.items())
                    ],
                )
            return [each.token for each, _ in pauses if (each.run_id, each.token) not in held]

        return await self._db.write(work) if pauses else []

    async def preemptions(self, run_id: str) -> list[Preemption]:
        async def work(tx: Tx) -> list[Preemption]:
            return [_preemption(row) for row in await tx.fetch(PREEMPTIONS_OF, id=run_id)]

        return await self._db.read(work)


async def making_room(tx: Tx, run_id: str) -> Preemption | None:
    """Return the open preemption in favour of a run; None if there is none."""
    return next(map(_preemption, await tx.fetch(PREEMPTIONS_FOR, id=run_id)), None)


async def made_room(tx: Tx, run_id: str, token: int | None) -> Preemption | None:
    """Return the open preemption that suspends an attempt; None if there is none."""
    found = [_preemption(row) for row in await tx.fetch(PREEMPTIONS_OF, id=run_id)]
    return next((each for each in found if each.is_open and each.token == token), None)


async def _look(tx: Tx, credit: Micros, sharing: FairShares) -> _Snapshot:
    rows = await tx.fetch(PREEMPTIBLE, limit=MAX_LOOKED_AT)
    some_open = bool(await tx.fetch(ANY_OPEN))
    if not rows:
        return _Snapshot(some_open, some_open=some_open)
    running: list[Running] = []
    freed: list[tuple[str, Need]] = []
    for run_id, session, attempt, token, priority, profile, started_at, times, cancelling, making in rows:
        if started_at is None:
            continue
        tenant = placement.tenant_of(profile)
        each = Running(run_id, session, attempt, token, priority, _need(profile), started_at, tenant)
        if making:
            freed.append((session, each.freed_resources))
        elif times > 0 and not cancelling:
            running.append(each)
    if not running:
        return _Snapshot(True, some_open=some_open)
    waiting = sorted(
        starmap(_FirstWaiting, await tx.fetch(FIRST_WAITING)),
        key=lambda run: (rank(run.eligible_at, run.priority, credit), run.fire_time, run.id),
    )
    if limits := sharing.limits(sorted({run.tenant for run in waiting})):
        count = await running_quota.running(tx, list(limits))
        full = {tenant for tenant, limit in limits.items() if count.get(tenant, 0) >= limit}
        waiting = [run for run in waiting if run.tenant not in full]
    if not waiting:
        return _Snapshot(True, some_open=some_open)
    ((now,),) = await tx.fetch(NOW)
    workers = [worker for worker in await alive(tx) if worker.draining_since is None]
    restricted = any(worker.offer.kinds is not None for worker in workers)
    sorts = await claim_kinds.sorts_of(tx, [run.id for run in waiting]) if restricted else {}
    pools = {worker.session: SlotPools(worker.pools) for worker in workers if worker.pools}
    if pools and any(_need(run.profile).pool is not None for run in waiting):
        running = _in_pools(running, pools, await claim_kinds.sorts_of(tx, [run.run_id for run in running]))
    left = {worker.session: worker.offer for worker in workers}
    for worker in workers:
        left[worker.session].take(worker.used)
    for session, need in freed:
        if session in left:
            left[session].take(Need(-need.slots, -need.cpu))
    chosen = preemption.choose(
        [
            PreemptingRun(
                run.id,
                run.priority,
                run.profile,
                _need(run.profile).of_kind(sorts[run.id][0] if run.id in sorts else None),
                run.eligible_at,
                bool(run.gated),
                run.tenant,
            )
            for run in waiting
        ],
        running,
        left,
        {worker.session: worker.offer for worker in workers},
        now,
        pools,
    )
    return _Snapshot(True, chosen, some_open)


def _in_pools(
    running: Sequence[Running], pools: Mapping[str, SlotPools], sorts: Mapping[str, TaskSort]
) -> list[Running]:
    """Return running attempts, each with the slot pool of its worker that it is in, if there is one."""
    return [
        structs.replace(each, pool=pools[each.session].of(*sorts[each.run_id]))
        if each.session in pools and each.run_id in sorts
        else each
        for each in running
    ]


async def _ask(tx: Tx, waiting: PreemptingRun, running: Running) -> None:
    attempt: dict[str, Any] = {"id": running.run_id, "attempt": running.attempt, "token": running.token}
    found = await tx.fetch(LOCK_PREEMPTED, **attempt)
    if not found:
        return
    ((left, needs),) = found
    number = preemption.MAX_PREEMPTIONS - left + 1
    if await tx.fetch(ADD_PREEMPTION, **attempt, number=number, by_run=waiting.run_id):
        await tx.execute(
            COUNT_PREEMPTION, id=running.run_id, needs=None if needs is None else _share(_resources_kept(running.need))
        )


def _resources_kept(need: Need) -> Need:
    """Return the resources of the worker that a suspended process still uses: memory, but no slot and no CPU."""
    return Need(0, 0, need.memory)


def _share(need: Need) -> str | None:
    return f"{need.cpu}|{need.memory}" if need.cpu or need.memory else None


def _need(profile: str | None) -> Need:
    return PLAIN if profile is None else placement.need_of(profile)


def _noted(each: Pausing, at: Micros) -> tuple[str, int, int, Micros | None]:
    return each.run_id, each.token, each.number, bounded(at)


def _preemption(row: Row) -> Preemption:
    found = PreemptionRow(*row)
    return Preemption(
        run_id=found.run_id,
        number=found.number,
        by_run=found.by_run,
        token=found.token,
        asked_at=found.asked_at,
        paused_at=found.paused_at,
        ended_at=found.ended_at,
    )
