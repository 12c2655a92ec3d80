"""Amendments: update, pause, resume or cancel stored jobs, under the lock on each job.

A batch is loaded, decided by a pure function, and written, in one transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from itertools import starmap
from typing import Final

from msgspec import Struct, structs

from timeball.domain import ids
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobState, OffloadedSpec, is_overdue
from timeball.domain.planning import planning
from timeball.domain.planning.planning import Span
from timeball.domain.run import follow
from timeball.domain.run.ledger import DUE, Origin
from timeball.domain.run.lifecycle import Hold, State
from timeball.domain.run.run import NewRun, new_run
from timeball.domain.schedule.schedule import Window
from timeball.ports.store.jobs import Amended, Amendment, Fired, Outdated
from timeball.stores.sql.changes import record_amendments, record_holds
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.jobs import job_versions, window_slots
from timeball.stores.sql.jobs.job_versions import ReplacedSpec
from timeball.stores.sql.jobs.large_values import require_fresh
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.planning import calendars, ledger_spans
from timeball.stores.sql.planning.ledger_spans import Tail
from timeball.stores.sql.planning.plans import NOW, UNBLOCK
from timeball.stores.sql.rows.jobs import job_row, read_jobs, tag_rows
from timeball.stores.sql.rows.runs import unstarted
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.runs import follows, ordering_keys, runs, settling
from timeball.stores.sql.runs.follows import WaitingEvents
from timeball.stores.sql.runs.ordering_keys import OrderingKey
from timeball.stores.sql.runs.overlap import MAKE_SERIAL
from timeball.stores.sql.runs.settling import DELETE_RUNS
from timeball.stores.sql.schema.jobs import TAGS
from timeball.stores.sql.schema.runs import RunRow
from timeball.stores.sql.statements import query
from timeball.stores.sql.tenants.quotas import require_quotas

LOCK_JOBS = query("lock_jobs")
RUNS_OF_JOBS = query("runs_of_jobs")
JOBS_WITH_MANY_RUNS = query("jobs_with_many_runs")
RUNS_TO_AMEND = query("runs_to_amend")
FUTURE_VERDICTS = query("future_verdicts")
WRITE_JOBS = query("write_jobs")
DROP_TAGS = query("drop_tags")
KEEP_SPECS = query("keep_specs")
KEYS_OF_JOBS = query("keys_of_jobs")
END_BACKFILLS = query("end_backfills")

MAX_LIVE: Final = 2_000
"""If a job has this many live runs or more, an amendment reads only those that it has to decide on one by one: a
million rows would take more than a gigabyte of memory."""


class Writes(Struct):
    """The rows that a batch of amendments writes, by kind of write."""

    jobs: list[Job] = []
    dropped: list[RunRow] = []
    kept_specs: list[tuple[str, str, str | None]] = []
    versions: list[ReplacedSpec] = []
    serial: list[str] = []
    """Jobs whose runs may not overlap from now on: their runs become serial and end under the lock on the job."""
    free: list[str] = []
    cancelled: list[RunRow] = []
    retagged: list[Job] = []
    rebound: list[Job] = []
    """Jobs whose list of calendars changed."""
    moved: list[tuple[Job, Job]] = []
    """Jobs whose window slot changes, each after and before the change."""


class Loaded(Struct, frozen=True):
    """The rows from which a batch of amendments is decided. The rows of the jobs, of their ordering keys and of their
    live runs are locked."""

    now: Micros
    jobs: dict[str, Job]
    live: dict[str, list[RunRow]]
    """The live runs of each job, with the limit of `MAX_LIVE`."""
    waiting: dict[str, WaitingEvents] = {}
    """Upstream events that are not planned yet, by the id of the following job."""
    closed: frozenset[tuple[str, Micros]] = frozenset()
    """Future fires that already have a verdict, as job id and fire time."""
    slots: tuple[int, ...] = ()
    """The window slots that were chosen, in the order of the amendments that need one."""
    dead_holders: dict[OrderingKey, tuple[str, str]] = {}
    """The ordering keys that a finished run still holds, each with the ids of that run and its job."""
    holders: dict[OrderingKey, str | None] = {}


class Decided(Struct, frozen=True):
    """The writes and the answers for a batch of amendments."""

    writes: Writes
    tails: dict[str, Tail]
    """The ledger rows that the amendments add, by job."""
    changes: list[tuple[Amendment, Job, Job]]
    """The amendments that take effect, each with the job before and after."""
    answers: list[Amended | Outdated | Fired]


class Amendments(StorePart):
    async def amend(self, amendments: Sequence[Amendment]) -> list[Amended | Outdated | Fired]:
        async def work(tx: Tx) -> list[Amended | Outdated | Fired]:
            await follows.check(tx, amendments)
            await calendars.check(tx, amendments)
            loaded = await _load(tx, amendments, self._db.now())
            decided = decide(amendments, loaded)
            await _write(tx, loaded, decided)
            await require_quotas(tx, self._quotas, decided.changes, loaded.now)
            record_amendments(tx, [(before, after) for _, before, after in decided.changes])
            return decided.answers

        return await self._db.write(work) if amendments else []


async def _load(tx: Tx, amendments: Sequence[Amendment], store_time: Micros) -> Loaded:
    windows = [each.spec.schedule for each in amendments if window_slots.needs_slot(each)]
    slots = await window_slots.choose(tx, [each for each in windows if isinstance(each, Window)], store_time)
    named = list({each.job.id for each in amendments})
    jobs = {job.id: job for job in await read_jobs(tx, await tx.fetch(LOCK_JOBS, b=named))}
    jobs |= await follows.apply_upstream_events(
        tx, {job.id: job for job in jobs.values() if job.spec.follows is not None}
    )
    waiting = await follows.waiting_of(tx, jobs.values())
    keys = {(tenant, key) for tenant, key in await tx.fetch(KEYS_OF_JOBS, b=list(jobs))}
    cancelled = [each.job.id for each in amendments if each.state is JobState.CANCELLED]
    dead_holders = await ordering_keys.kept_by_dead(tx, cancelled)
    holders = await ordering_keys.lock(tx, keys | dead_holders.keys())
    cancelling = {each.job.id for each in amendments if each.cancel_runs}
    live = await _live_runs(tx, jobs, cancelling)
    ((now,),) = await tx.fetch(NOW)
    await require_fresh(tx, [each.spec for each in amendments if not _at_the_same_place(each)])
    closed: frozenset[tuple[str, Micros]] = frozenset()
    if renewed := [each.job.id for each in amendments if not each.keep_schedule]:
        closed = frozenset((job_id, at) for job_id, at in await tx.fetch(FUTURE_VERDICTS, b=renewed))
    return Loaded(now, jobs, live, waiting, closed, tuple(slots), dead_holders, holders)


def decide(amendments: Sequence[Amendment], loaded: Loaded) -> Decided:
    """Decide on each amendment in turn; the second amendment of a job is applied to the result of the first. A pure
    function."""
    now, jobs, slots = loaded.now, dict(loaded.jobs), iter(loaded.slots)
    decided = Decided(Writes(), {job_id: Tail(None) for job_id in jobs}, [], [])
    for each in amendments:
        slot = next(slots) if window_slots.needs_slot(each) else window_slots.kept_slot(each)
        job = jobs.get(each.job.id)
        if job is None or job.version != each.job.version or _came_too_late(each, job, loaded.live[job.id], now):
            decided.answers.append(Outdated())
        elif held := [run.fire_time for run in loaded.live[job.id] if _is_held_ahead(run, now)]:
            decided.answers.append(Fired(max(held)))
        elif (
            (events := loaded.waiting.get(job.id)) is not None and job.state is JobState.ACTIVE and not each.unplannable
        ):
            decided.answers.append(Fired(events.last))
        else:
            each, job = _with_waiting(each, job, events)
            tail = decided.tails[job.id]
            amended = _amend(decided.writes, each, job, loaded.live[job.id], tail, loaded.closed, now, slot)
            decided.changes.append((each, job, amended.job))
            jobs[job.id] = amended.job
            decided.answers.append(amended)
    return decided


async def _write(tx: Tx, loaded: Loaded, decided: Decided) -> None:
    writes = decided.writes
    await persist(tx, writes, loaded.now)
    await job_versions.trim(tx, [job for _, before, job in decided.changes if job.spec != before.spec])
    await follows.rewire(tx, decided.changes)
    # A finished run of a cancelled job is never retried, so it must not keep its ordering key.
    over = {job.id for job in writes.jobs if job.state is JobState.CANCELLED}
    freed = [key for key, (run, job) in loaded.dead_holders.items() if job in over and loaded.holders[key] == run]
    await ordering_keys.advance(tx, freed)
    if over:
        await tx.execute(END_BACKFILLS, b=sorted(over), reason="its job was cancelled")
    await ledger_spans.write(tx, decided.tails.values())
    await window_slots.add(tx, (job for job, _ in writes.moved), (job for _, job in writes.moved))


async def _live_runs(tx: Tx, job_ids: Collection[str], all_runs_of: Container[str] = ()) -> dict[str, list[RunRow]]:
    """Lock and return the live runs of jobs. Of a job with `MAX_LIVE` live runs or more, return only those that an
    amendment decides on one by one (see the statement `runs_to_amend`), unless the job is in `all_runs_of`."""
    with_many_runs = {job_id for (job_id,) in await tx.fetch(JOBS_WITH_MANY_RUNS, b=list(job_ids), limit=MAX_LIVE)}
    some = sorted(job_id for job_id in with_many_runs if job_id not in all_runs_of)
    rows = await tx.fetch(RUNS_OF_JOBS, b=sorted(set(job_ids) - set(some)))
    rows += await tx.fetch(RUNS_TO_AMEND, b=some) if some else []
    live: dict[str, list[RunRow]] = {job_id: [] for job_id in job_ids}
    for run in starmap(RunRow, rows):
        live[run.job_id].append(run)
    return live


def _with_waiting(amendment: Amendment, job: Job, waiting: WaitingEvents | None) -> tuple[Amendment, Job]:
    """Return the amendment and the job with the upstream events that are not planned yet: the job with the first of
    their fires, and an amendment that changes the schedule with a span that closes all of them."""
    if waiting is None:
        return amendment, job
    if not amendment.keep_schedule:
        amendment = structs.replace(amendment, closing=(*amendment.closing, waiting.forgone))
    return amendment, job.with_(upstream_events=(waiting.first,))


def _at_the_same_place(amendment: Amendment) -> bool:
    """True if the parameters are offloaded to object storage and the amendment keeps that object."""
    old, new = amendment.job.spec, amendment.spec
    return isinstance(old, OffloadedSpec) and isinstance(new, OffloadedSpec) and old.parameters_at == new.parameters_at


def _came_too_late(amendment: Amendment, job: Job, live: Sequence[RunRow], now: Micros) -> bool:
    """True if a fire fell due after the amendment was computed: a fire of the old schedule, which has to be planned
    under the old version first, or a fire of the new schedule, at which the old one may have fired already."""
    if is_overdue(job, now) and not amendment.unplannable:
        undecided = any(run.holds & Hold.OVERLAP and run.fire_time <= now for run in live)
        if undecided or (job.next_fire_at is not None and job.next_fire_at <= now):
            return True
    if amendment.unclosed is not None and amendment.unclosed <= now:
        return True
    first = amendment.next_fire_at
    is_new = not amendment.keep_schedule and not amendment.spec.one_shot
    return is_new and first is not None and first <= now


def _is_future(run: RunRow, now: Micros) -> bool:
    """True if the run belongs to a fire of the schedule that is in the future. A run that a user requested is always
    due, and so is a run that started before the clock was set back."""
    return run.fire_time > now and run.due > now and run.origin in DUE


def _is_held_ahead(run: RunRow, now: Micros) -> bool:
    return run.state == State.RUNNING and _is_future(run, now)


def _amend(
    writes: Writes,
    amendment: Amendment,
    job: Job,
    live: Sequence[RunRow],
    tail: Tail,
    closed: Container[tuple[str, Micros]],
    now: Micros,
    slot: int | None,
) -> Amended:
    """Decide one amendment: add its rows to `writes` and `tail`, and return the changed job with the number of its runs
    that are cancelled. Precondition: no worker holds a run for a future fire of the job."""
    future = [run for run in live if _is_future(run, now)]
    due = [run for run in live if not _is_future(run, now)]
    writes.dropped += future
    deferred_fire = job.deferred_fire if amendment.keep_schedule and amendment.spec.excluded == "next_open" else None
    if amendment.keep_schedule:
        next_fire_at, anchor = _given_back(job, future), job.anchor
        if deferred_fire != job.deferred_fire and job.deferred_fire is not None:
            next_fire_at = next(planning.fires(job.with_(spec=amendment.spec), job.deferred_fire), None)
    else:
        anchor = job.anchor if amendment.anchor is None else amendment.anchor
        edited = job.with_(spec=amendment.spec, anchor=anchor, slot=slot)
        first = amendment.next_fire_at
        if slot is not None and slot != job.slot:
            first = next(planning.fires(edited, now), None)
        next_fire_at = _first_open(edited, first, closed)
    if amendment.spec != job.spec:
        old = job_row(job)
        writes.versions.append((job.id, job.version, old.spec, now, amendment.by))
        if due:
            writes.kept_specs.append((job.id, old.spec, old.task_id))
    if amendment.cancel_runs:
        writes.cancelled += due
    else:
        if amendment.spec.overlap is Overlap.ALLOW:
            writes.free += [run.id for run in due if run.holds & Hold.OVERLAP]
        elif any(not run.serial for run in due):
            writes.serial.append(job.id)
    if (set(amendment.spec.tags), amendment.spec.is_workflow) != (set(job.spec.tags), job.spec.is_workflow):
        writes.retagged.append(job.with_(spec=amendment.spec))
    if set(amendment.spec.calendars) != set(job.spec.calendars):
        writes.rebound.append(job.with_(spec=amendment.spec))
    for at, span in enumerate(amendment.closing):
        tail.add(
            unstarted(_closed(job, span, at, now), span.verdict, span.reason, now, until=span.last, fires=span.count)
        )
    changed = job.with_(
        spec=amendment.spec,
        state=amendment.state,
        version=job.version + 1,
        anchor=anchor,
        updated_at=now,
        pause_reason=plain(amendment.pause_reason),
        paused_until=amendment.paused_until,
        fired=max(0, job.fired - len(future)),
        last_span=tail.last,
        deferred_fire=deferred_fire,
        slot=slot,
    )
    if slot != job.slot:
        writes.moved.append((changed, job))
    next_fire_at = None if changed.exhausted else next_fire_at
    fires = next_fire_at is not None or (follow.goes_on(changed) and changed.spec.ends is not None)
    plan_at = now if amendment.state is JobState.ACTIVE and fires else None
    changed = changed.with_(next_fire_at=next_fire_at, plan_at=plan_at)
    writes.jobs.append(changed)
    return Amended(changed, len(due) if amendment.cancel_runs else 0)


def _given_back(job: Job, future: Sequence[RunRow]) -> Micros | None:
    """Return the next fire of a job after the runs that were planned for its future fires are deleted."""
    fires = [*(run.fire_time for run in future), job.next_fire_at]
    return min((at for at in fires if at is not None), default=None)


async def withdraw(tx: Tx, job_ids: Sequence[str], now: Micros) -> None:
    """Delete the runs that were planned for future fires, and move each job back to the first of these fires. A job is
    not changed if it is not active, or if a worker already holds such a run. The jobs are locked."""
    if not job_ids:
        return
    jobs = {job.id: job for job in await read_jobs(tx, await tx.fetch(LOCK_JOBS, b=list(job_ids)))}
    await ordering_keys.lock(tx, {(tenant, key) for tenant, key in await tx.fetch(KEYS_OF_JOBS, b=list(jobs))})
    live = await _live_runs(tx, jobs)
    writes = Writes()
    for job in jobs.values():
        future = [run for run in live[job.id] if _is_future(run, now)]
        if job.state is JobState.ACTIVE and not any(_is_held_ahead(run, now) for run in future):
            writes.dropped += future
            fired = max(0, job.fired - len(future))
            writes.jobs.append(job.with_(next_fire_at=_given_back(job, future), plan_at=now, fired=fired))
    await persist(tx, writes, now)


def _first_open(job: Job, first: Micros | None, closed: Container[tuple[str, Micros]]) -> Micros | None:
    """Return the first fire, from `first` on, without a verdict: an executed or cancelled fire must not run again."""
    while first is not None and (job.id, first) in closed:
        first = next(planning.fires(job, first), None)
    return first


def _closed(job: Job, span: Span, at: int, now: Micros) -> NewRun:
    run_id = ids.run(now, ids.Digest(f"{job.id}/{job.version}/{at}"))
    return new_run(job, run_id, Origin.SCHEDULE, span.first, now)


async def persist(tx: Tx, writes: Writes, now: Micros) -> None:
    if writes.dropped:
        await tx.execute(DELETE_RUNS, b=[run.id for run in writes.dropped])
        # A dropped run may have blocked another run of its job.
        await settling.release(tx, [job.id for job in writes.jobs])
        gone = [key for run in writes.dropped if (key := ordering_keys.gone(run)) is not None]
        await ordering_keys.release(tx, gone)
    if writes.kept_specs:
        await tx.execute(KEEP_SPECS, b=writes.kept_specs)
    await job_versions.keep(tx, writes.versions)
    if writes.serial:
        await tx.execute(MAKE_SERIAL, b=writes.serial)
    if writes.free:
        record_holds(tx, await tx.fetch(UNBLOCK, b=writes.free))
    if writes.cancelled:
        await runs.cancel(tx, writes.cancelled, now)
    if writes.jobs:
        newest = {job.id: job for job in writes.jobs}.values()  # a job may have been amended twice
        await tx.execute(WRITE_JOBS, b=[_values(job) for job in newest])
    await _retag(tx, writes.retagged)
    await calendars.rebind(tx, writes.rebound)


def _values(job: Job) -> tuple[str | int | None, ...]:
    row = job_row(job)
    return (
        row.id,
        row.name,
        row.spec,
        row.task_id,
        row.user_id,
        row.version,
        row.state,
        row.anchor,
        row.next_fire_at,
        row.plan_at,
        row.updated_at,
        row.pause_reason,
        row.last_span,
        row.fired,
        row.paused_until,
        row.owed,
        row.slot,
    )


async def _retag(tx: Tx, jobs: Iterable[Job]) -> None:
    if changed := list(jobs):
        await tx.execute(DROP_TAGS, b=[job.id for job in changed])
        if tags := [tag for job in changed for tag in tag_rows(job)]:
            await tx.insert(TAGS, tags)
