"""Backfills in worlds of their own, the theme `backfills`: the requests of users, and the checks of their results.

Other worlds have no backfills, and their servers do not run the backfiller, so the traces of their seeds stay the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from tests.simulation import oracle
from tests.simulation.records import JobRecord, Micros, Request, Violation
from tests.simulation.weather import S
from timeball.domain.job.job import JobState
from timeball.domain.planning.backfill import Backfill, BackfillProgress, BackfillState
from timeball.domain.run.ledger import Origin
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.schedule.schedule import Interval
from timeball.operation.schedules.backfill import Begun, NewBackfill, begin, cancel_backfill
from timeball.server.server import Server

if TYPE_CHECKING:
    from tests.simulation.checker import Case, Checker
    from tests.simulation.client import Clients
    from tests.simulation.world import World

THEME = "backfills"
TOO_MANY = "SELECT retry_of, COUNT(*) FROM runs WHERE origin = 'backfill' GROUP BY retry_of"


# --- what users do ------------------------------------------------------------------------------------------------


async def do_something(clients: Clients, world: World, record: JobRecord) -> None:
    begun = [each for each in record.others if each.kind == "backfill" and each.outcome == "ok"]
    if begun and world.rng.random() < 0.2:
        backfill_id = world.rng.choice(begun).answer.backfill_id
        await clients.ask(
            "cancel_backfill",
            record.uid,
            lambda server: cancel_backfill(server.context, record.tenant, backfill_id),
            run_id=backfill_id,
        )
    else:
        await _begin(clients, world, record)


async def _begin(clients: Clients, world: World, record: JobRecord) -> None:
    """Request a backfill of a past range, possibly several times with one key, at the same time and again later."""
    job_id, rng = world.find(record), world.rng
    assert job_id is not None
    until = world.now - rng.randrange(100 * S)
    key = f"backfill-{rng.getrandbits(40)}" if rng.random() < 0.5 else None
    new = NewBackfill(
        tenant=record.tenant,
        job_id=job_id,
        since=until - rng.choice((5, 15, 40)) * S,
        until=until,
        parallelism=rng.choice((1, 1, 2, 5)),
        key=key,
        fingerprint="same",
    )

    async def ask() -> Request:
        async def handler(server: Server) -> Begun:
            return await begin(server.context, new, lambda progress: progress.backfill.id.encode())

        return await clients.ask("backfill", record.uid, handler, backfill=new)

    await asyncio.gather(*(ask() for _ in range(rng.choice((1, 2, 3)) if key else 1)))
    if key and rng.random() < 0.5:
        await world.sleep(rng.randrange(4 * S))
        await ask()


def unfinished(world: World) -> list[Backfill]:
    """Return the backfills that must end by themselves."""
    blocked = world.blocked_keys()
    return [
        each.backfill
        for each in _all(world)
        if each.backfill.state is BackfillState.ACTIVE
        and each.job_state is JobState.ACTIVE
        and (each.backfill.tenant, each.backfill.spec.ordering_key) not in blocked
    ]


def _all(world: World) -> list[BackfillProgress]:
    return [
        progress
        for tenant in world.tenants.names
        for progress in world.read("list_backfills", tenant, None, None, 100_000).items
    ]


# --- what must hold -----------------------------------------------------------------------------------------------


def within_parallelism(world: World) -> None:
    """I18: when runs are created, no more runs of a backfill are alive than its parallelism allows."""
    alive = dict(world.rows(TOO_MANY))
    for each in _all(world):
        if alive.get(each.backfill.id, 0) > each.backfill.parallelism:
            raise Violation("I18", f"{alive[each.backfill.id]} runs of {each.backfill} are alive")


def each_fire_once(checker: Checker) -> None:
    """I2, I5, I23: the runs of a backfill are its first fires, oldest first, each once, and its counts are right."""
    runs: dict[str, list[Run]] = defaultdict(list)
    for case in checker.backfilled:
        for run in case.runs.values():
            assert run.retry_of is not None
            runs[run.retry_of].append(run)
    for progress in _all(checker.world):
        asked = progress.backfill
        meant = _instants(asked)
        fires = sorted(run.fire_time for run in runs[asked.id])
        doubled = [at for at, times in Counter(fires).items() if times > 1]
        if doubled:
            raise Violation("I5", f"{asked}: {len(doubled)} fires became two runs, first {doubled[0]}")
        if fires != meant[: len(fires)]:
            missing = sorted({at for at in meant if fires and at < fires[-1]} - set(fires))
            raise Violation("I2", f"{asked}: skipped {missing[:3]}, or ran what was never meant: {fires[:3]}")
        if asked.total != len(meant) or asked.made != len(fires):
            raise Violation("I23", f"{asked}: {len(meant)} fires are meant, and {len(fires)} are runs")
        if asked.state is BackfillState.COMPLETED and len(fires) < len(meant):
            raise Violation("I2", f"{asked}: completed, but only {len(fires)} fires became runs")
        ended = Counter(run.status for run in runs[asked.id] if run.is_terminal)
        recounted = (ended[Status.SUCCEEDED], ended[Status.FAILED] + ended[Status.DEAD], ended[Status.CANCELLED])
        if (progress.succeeded, asked.failed, asked.cancelled) != recounted:
            raise Violation("I23", f"{progress}: its runs ended as {ended}")


def _instants(asked: Backfill) -> list[Micros]:
    """Return the fires of a backfill, computed independently of the code under test."""
    spec = asked.spec
    starts, ends = (None if text is None else oracle.micros(text) for text in (spec.start_at, spec.end_at))
    last = asked.until - 1 if ends is None else min(asked.until - 1, ends)
    if isinstance(spec.schedule, Interval):
        step = int(str(spec.schedule.expression).removesuffix("s")) * S
        grid = asked.anchor if starts is None else starts
        first = asked.since + (grid - asked.since) % step
        return [at for at in range(first, last + 1, step) if starts is None or at > starts]
    return oracle.instants(spec.schedule, asked.since - 1, last, starts)


def as_asked(checker: Checker) -> None:
    """I1, I14: a backfill that was acknowledged exists, once per idempotency key, and no other exists."""
    known = {each.backfill.id: each.backfill for each in _all(checker.world)}
    for record in checker.records:
        asked = [each for each in record.others if each.kind == "backfill"]
        by_key: dict[Any, set[str]] = defaultdict(set)
        for request in asked:
            if request.outcome == "ok":
                if request.answer.backfill_id not in known:
                    raise Violation("I1", f"{request} was acknowledged and is gone")
                by_key[request.backfill.key].add(request.answer.backfill_id)
        for key, ids in by_key.items():
            if key is not None and len(ids) > 1:
                raise Violation("I14", f"{len(ids)} backfills with the key {key}: {ids}")
        limit = len({each.backfill.key or id(each) for each in asked if each.possible})
        there = [each for each in known.values() if each.job_id == record.job_id]
        if len(there) > limit:
            raise Violation("I14", f"job {record.uid} has {len(there)} backfills; {limit} were asked for")


def nothing_of_paused_or_cancelled(checker: Checker) -> None:
    """I10, I11: after a cancel of the backfill, or a pause of its job, was acknowledged, no run of it is created."""
    for case in checker.backfilled:
        changes = [each for each in case.record.changes if each.possible]
        resumes = [(each.lo, each.lo) for each in changes if each.kind == "resume"]
        resumes += [(each.lo, each.until) for each in changes if each.kind == "pause" and each.until is not None]
        for change in (*case.record.changes, *case.record.others):
            if change.outcome != "ok" or change.kind not in ("pause", "cancel_backfill") or change.until is not None:
                continue
            for run in _made_after(case, change):
                if change.kind == "pause" and any(change.lo <= by and at <= run.created_at for by, at in resumes):
                    continue
                raise Violation("I11" if change.kind == "pause" else "I10", f"{case}: {run} was made after {change}")


def _made_after(case: Case, change: Request) -> list[Run]:
    of_it = [run for run in case.runs.values() if change.kind == "pause" or run.retry_of == change.run_id]
    return [run for run in of_it if run.created_at > change.hi]


def is_backfilled(run: Run) -> bool:
    return run.origin is Origin.BACKFILL


PROMISES = (each_fire_once, as_asked, nothing_of_paused_or_cancelled)
