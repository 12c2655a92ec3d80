"""Changes of jobs, and runs that people ask for: both under the job's lock."""

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
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.jobs import window_slots
from timeball.stores.sql.jobs.large_values import require_fresh
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.planning import calendars, ledger_spans
from timeball.stores.sql.planning.ledger_spans import Tail
from timeball.stores.sql.planning.plans import NOW, UNBLOCK
from timeball.stores.sql.rows import job_row, plain, read_jobs, tag_rows, unstarted
from timeball.stores.sql.runs import follows, ordering_keys, runs, settling
from timeball.stores.sql.runs.follows import WaitingEvents
from timeball.stores.sql.runs.overlap import MAKE_SERIAL
from timeball.stores.sql.runs.settling import DELETE_RUNS
from timeball.stores.sql.schema import TAGS, VERSIONS, RunRow
from timeball.stores.sql.statements import query

LOCK_JOBS = query("lock_jobs")
RUNS_OF_JOBS = query("runs_of_jobs")
CROWDED_JOBS = query("crowded_jobs")
RUNS_THAT_MATTER = query("runs_that_matter")
FUTURE_VERDICTS = query("future_verdicts")
WRITE_JOBS = query("write_jobs")
DROP_TAGS = query("drop_tags")
KEEP_SPECS = query("keep_specs")
KEYS_OF_JOBS = query("keys_of_jobs")
END_BACKFILLS = query("end_backfills")

MAX_LIVE: Final = 2_000
"""Live runs of a job that are read when the job changes. Of a job with more, those that have to be decided one by one:
a million of them would be more than a gigabyte."""


class Writes(Struct):
    """What a batch of amendments comes to."""

    jobs: list[Job] = []
    dropped: list[RunRow] = []
    kept_specs: list[tuple[str, str, str | None]] = []
    versions: list[tuple[str, int, str, Micros]] = []
    serial: list[str] = []
    """Jobs whose runs have to look at each other from now on."""
    free: list[str] = []
    cancelled: list[RunRow] = []
    retagged: list[Job] = []
    rebound: list[Job] = []
    """Jobs that refer to other calendars."""
    moved: list[tuple[Job, Job]] = []
    """Jobs with other slots than before."""


class Amendments(StorePart):
    async def amend(self, amendments: Sequence[Amendment]) -> list[Amended | Outdated | Fired]:
        async def work(tx: Tx) -> list[Amended | Outdated | Fired]:
            await follows.check(tx, amendments)
            await calendars.check(tx, amendments)
            windows = [each.spec.schedule for each in amendments if window_slots.needs_slot(each)]
            chosen = await window_slots.choose(
                tx, [each for each in windows if isinstance(each, Window)], self._db.now()
            )
            places = iter(chosen)
            named = list({each.job.id for each in amendments})
            jobs = {job.id: job for job in await read_jobs(tx, await tx.fetch(LOCK_JOBS, b=named))}
            jobs |= await follows.apply_upstream_events(
                tx, {job.id: job for job in jobs.values() if job.spec.follows is not None}
            )
            waiting = await follows.waiting_of(tx, jobs.values())
            keys = {(tenant, key) for tenant, key in await tx.fetch(KEYS_OF_JOBS, b=list(jobs))}
            dying = [each.job.id for each in amendments if each.state is JobState.CANCELLED]
            kept = await ordering_keys.kept_by_dead(tx, dying)
            holders = await ordering_keys.lock(tx, keys | kept.keys())
            cancelling = {each.job.id for each in amendments if each.cancel_runs}
            live = await _live_runs(tx, jobs, cancelling)
            ((now,),) = await tx.fetch(NOW)
            await require_fresh(tx, [each.spec for each in amendments if not _at_the_same_place(each)])
            closed: set[tuple[str, Micros]] = set()
            if renewed := [each.job.id for each in amendments if not each.keep_schedule]:
                closed = {(job_id, at) for job_id, at in await tx.fetch(FUTURE_VERDICTS, b=renewed)}
            tails = {job_id: Tail(None) for job_id in jobs}
            writes = Writes()
            changes: list[tuple[Amendment, Job, Job]] = []
            answers: list[Amended | Outdated | Fired] = []
            for each in amendments:
                slot = next(places) if window_slots.needs_slot(each) else window_slots.kept_slot(each)
                job = jobs.get(each.job.id)
                if job is None or job.version != each.job.version or _came_too_late(each, job, live[job.id], now):
                    answers.append(Outdated())
                elif held := [run.fire_time for run in live[job.id] if _is_held_ahead(run, now)]:
                    answers.append(Fired(max(held)))
                elif (heard := waiting.get(job.id)) is not None and job.state is JobState.ACTIVE:
                    answers.append(Fired(heard.last))
                else:
                    each, job = _with_waiting(each, job, waiting.get(job.id))
                    amended = _amend(writes, each, job, live[job.id], tails[job.id], closed, now, slot)
                    changes.append((each, job, amended.job))
                    jobs[job.id] = amended.job
                    answers.append(amended)
            await persist(tx, writes, now)
            await follows.rewire(tx, changes)
            # Nobody will deal with what gave up and kept the turn.
            over = {job.id for job in writes.jobs if job.state is JobState.CANCELLED}
            await ordering_keys.advance(
                tx, [key for key, (run, job) in kept.items() if job in over and holders[key] == run]
            )
            if over:
                await tx.execute(END_BACKFILLS, b=sorted(over), reason="its job was cancelled")
            await ledger_spans.write(tx, tails.values())
            await window_slots.add(tx, (job for job, _ in writes.moved), (job for _, job in writes.moved))
            return answers

        return await self._db.write(work) if amendments else []


async def _live_runs(tx: Tx, job_ids: Collection[str], wanted_whole: Container[str] = ()) -> dict[str, list[RunRow]]:
    """The live runs of jobs, locked; of a crowded job those that matter, unless all of them are wanted."""
    crowded = {job_id for (job_id,) in await tx.fetch(CROWDED_JOBS, b=list(job_ids), most=MAX_LIVE)}
    some = sorted(job_id for job_id in crowded if job_id not in wanted_whole)
    rows = await tx.fetch(RUNS_OF_JOBS, b=sorted(set(job_ids) - set(some)))
    rows += await tx.fetch(RUNS_THAT_MATTER, b=some) if some else []
    live: dict[str, list[RunRow]] = {job_id: [] for job_id in job_ids}
    for run in starmap(RunRow, rows):
        live[run.job_id].append(run)
    return live


def _with_waiting(amendment: Amendment, job: Job, waiting: WaitingEvents | None) -> tuple[Amendment, Job]:
    """The same for a job that follows another and has heard of ends that wait: a new schedule closes their instants,
    which nobody can tell but who holds the lock."""
    if waiting is None:
        return amendment, job
    if not amendment.keep_schedule:
        amendment = structs.replace(amendment, closing=(*amendment.closing, waiting.forgone))
    return amendment, job.with_(upstream_events=(waiting.first,))


def _at_the_same_place(amendment: Amendment) -> bool:
    """Whether the parameters stay where they are, if they are elsewhere."""
    old, new = amendment.job.spec, amendment.spec
    return isinstance(old, OffloadedSpec) and isinstance(new, OffloadedSpec) and old.parameters_at == new.parameters_at


def _came_too_late(amendment: Amendment, job: Job, live: Sequence[RunRow], now: Micros) -> bool:
    """Whether an instant passed between the decision and now: of the old schedule, which has to be planned under its
    own version first, or of the new one, which the old one may have fired."""
    if is_overdue(job, now):
        undecided = any(run.holds & Hold.OVERLAP and run.fire_time <= now for run in live)
        if undecided or (job.next_fire_at is not None and job.next_fire_at <= now):
            return True
    if amendment.unclosed is not None and amendment.unclosed <= now:
        return True
    first = amendment.next_fire_at
    is_new = not amendment.keep_schedule and not amendment.spec.one_shot
    return is_new and first is not None and first <= now


def _is_future(run: RunRow, now: Micros) -> bool:
    """Whether it is for an instant of the schedule that has not come. What people asked for is always due, and so is
    what began before a clock that was ahead was set back."""
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
    """Change one job. No run of it is held for a fire time that has not come."""
    future = [run for run in live if _is_future(run, now)]
    due = [run for run in live if not _is_future(run, now)]
    writes.dropped += future
    owed = job.owed if amendment.keep_schedule and amendment.spec.excluded == "next_open" else None
    if amendment.keep_schedule:
        next_fire_at, anchor = _given_back(job, future), job.anchor
        if owed != job.owed and job.owed is not None:
            next_fire_at = next(planning.fires(job.with_(spec=amendment.spec), job.owed), None)
    else:
        anchor = job.anchor if amendment.anchor is None else amendment.anchor
        edited = job.with_(spec=amendment.spec, anchor=anchor, slot=slot)
        first = amendment.next_fire_at
        if slot is not None and slot != job.slot:
            first = next(planning.fires(edited, now), None)
        next_fire_at = _first_open(edited, first, closed)
    if amendment.spec != job.spec:
        old = job_row(job)
        writes.versions.append((job.id, job.version, old.spec, now))
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
        owed=owed,
        slot=slot,
    )
    if slot != job.slot:
        writes.moved.append((changed, job))
    if changed.exhausted:
        next_fire_at = None
    fires = next_fire_at is not None or (follow.goes_on(changed) and changed.spec.ends is not None)
    plan_at = now if amendment.state is JobState.ACTIVE and fires else None
    changed = changed.with_(next_fire_at=next_fire_at, plan_at=plan_at)
    writes.jobs.append(changed)
    return Amended(changed, len(due) if amendment.cancel_runs else 0)


def _given_back(job: Job, future: Sequence[RunRow]) -> Micros | None:
    """The next fire, when there is no run any more for these instants."""
    return min(
        [*(run.fire_time for run in future), *(at for at in (job.next_fire_at,) if at is not None)], default=None
    )


async def withdraw(tx: Tx, job_ids: Sequence[str], now: Micros) -> None:
    """Give the instants of jobs that have not come back to their schedules, but for those whose runs are already in a
    worker's hands. The jobs are locked."""
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
    """The first instant that has no verdict yet: what was cancelled does not come back with a new schedule."""
    while first is not None and (job.id, first) in closed:
        first = next(planning.fires(job, first), None)
    return first


def _closed(job: Job, span: Span, at: int, now: Micros) -> NewRun:
    run_id = ids.run(now, ids.Digest(f"{job.id}/{job.version}/{at}"))
    return new_run(job, run_id, Origin.SCHEDULE, span.first, now)


async def persist(tx: Tx, writes: Writes, now: Micros) -> None:
    if writes.dropped:
        await tx.execute(DELETE_RUNS, b=[run.id for run in writes.dropped])
        await settling.release(tx, [job.id for job in writes.jobs])  # one of them may have been in another's way
        await ordering_keys.release(
            tx, [gone for run in writes.dropped if (gone := ordering_keys.gone(run)) is not None]
        )
    if writes.kept_specs:
        await tx.execute(KEEP_SPECS, b=writes.kept_specs)
    if writes.versions:
        await tx.insert(VERSIONS, writes.versions)
    if writes.serial:
        await tx.execute(MAKE_SERIAL, b=writes.serial)
    if writes.free:
        await tx.execute(UNBLOCK, b=writes.free)
    if writes.cancelled:
        await runs.cancel(tx, writes.cancelled, now)
    if writes.jobs:
        await tx.execute(WRITE_JOBS, b=[_values(job) for job in writes.jobs])
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
