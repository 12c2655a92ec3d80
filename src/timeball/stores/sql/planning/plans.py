"""Commits the plans of the planner: each fire becomes a run or part of a ledger row, exactly once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from typing import assert_never

from msgspec import Struct, structs

from timeball.domain.dispatch.overlap import TAKEN_OVER, Admission, Overlap
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.planning.planning import JobPlan, PlannedFire, Span
from timeball.domain.planning.planning_failure import reason_of
from timeball.domain.quota import QUOTA_OF_DAY
from timeball.domain.run.ledger import DUE, Origin, Verdict
from timeball.domain.run.lifecycle import Hold
from timeball.domain.run.run import NewRun, new_run
from timeball.domain.run.status import Status
from timeball.stores.sql.changes import record_holds, record_planned
from timeball.stores.sql.driver import Row, Tx, scalar
from timeball.stores.sql.inserts import insert_history
from timeball.stores.sql.new_runs import HeldRun, insert_runs
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.planning import calendars, ledger_spans, planning_failures
from timeball.stores.sql.planning.ledger_spans import Tail
from timeball.stores.sql.rows.jobs import read_jobs
from timeball.stores.sql.rows.runs import ended, of_span, unstarted
from timeball.stores.sql.runs import follows, ordering_keys
from timeball.stores.sql.runs.overlap import LiveRuns, OverlappingRun, live_runs
from timeball.stores.sql.runs.runs import LOCK_RUNS, replace
from timeball.stores.sql.runs.settling import DELETE_RUNS
from timeball.stores.sql.schema.jobs import JobRow
from timeball.stores.sql.schema.runs import LockedRunRow, NewHistoryRow, RunRow
from timeball.stores.sql.statements import many, query
from timeball.stores.sql.tenants.quotas import QuotaBatch, open_quotas

DUE_JOBS = many(query("due_jobs"))
NEXT_PLAN_AT = query("next_plan_at")
CANCELLED_AHEAD = query("cancelled_ahead")
PAUSES_OVER = query("pauses_over")
NEXT_RESUME_AT = query("next_resume_at")
NOW = query("now")
LOCK_PLANNED = many(query("lock_planned"))
MOVE_JOBS = query("move_jobs")
UNBLOCK = query("unblock")
PLAN_NO_LATER = query("plan_no_later")


class _Writes(Struct):
    """The rows that a batch of plans writes, by kind of write."""

    runs: list[HeldRun] = []
    history: list[NewHistoryRow] = []
    gone: list[RunRow] = []
    """Blocked runs that are skipped. Their rows are deleted, and a ledger row counts their fires."""
    free: list[str] = []
    jobs: list[tuple[str, Micros | None, Micros | None, str | None, int, Micros | None]] = []


class Plans(StorePart):
    async def due_jobs(self, limit: int) -> list[Job]:
        async def work(tx: Tx) -> list[Job]:
            unread.clear()
            return await read_jobs(tx, await tx.fetch(DUE_JOBS, limit=limit), unread)

        async def put_off(tx: Tx) -> None:
            failed = [planning_failures.unreadable(row, reason_of(error)) for row, error in unread]
            await planning_failures.put_off(tx, failed)

        unread: list[tuple[Row, Exception]] = []
        jobs = await self._db.read(work)
        if unread:  # else these jobs would fill every batch of due jobs
            await self._db.write(put_off)
        return jobs

    async def next_plan_at(self) -> Micros | None:
        async def work(tx: Tx) -> Micros | None:
            at: Micros | None = scalar(await tx.fetch(NEXT_PLAN_AT))
            return at

        return await self._db.read(work)

    async def cancelled_ahead(self, jobs: Sequence[Job]) -> dict[str, frozenset[Micros]]:
        async def work(tx: Tx) -> dict[str, frozenset[Micros]]:
            rows = await tx.fetch(CANCELLED_AHEAD, b=[(job.id, job.next_fire_at) for job in jobs])
            found: dict[str, set[Micros]] = {}
            for job_id, at in rows:
                found.setdefault(job_id, set()).add(at)
            return {job_id: frozenset(instants) for job_id, instants in found.items()}

        return await self._db.read(work) if jobs else {}

    async def pauses_over(self, limit: int) -> list[Job]:
        async def work(tx: Tx) -> list[Job]:
            ended, last_id = 0, ""
            while True:
                rows = await tx.fetch(PAUSES_OVER, limit=limit, ended=ended, id=last_id)
                if (jobs := await read_jobs(tx, rows)) or len(rows) < limit:
                    return jobs
                last = JobRow(*rows[-1])
                ended, last_id = last.paused_until or 0, last.id

        return await self._db.read(work)

    async def next_resume_at(self) -> Micros | None:
        async def work(tx: Tx) -> Micros | None:
            at: Micros | None = scalar(await tx.fetch(NEXT_RESUME_AT))
            return at

        return await self._db.read(work)

    async def commit_plans(self, plans: Sequence[JobPlan], run_ids: Sequence[Sequence[str]]) -> list[str]:
        async def work(tx: Tx) -> list[str]:
            outdated = await calendars.outdated(tx, plans)
            made_from = [
                (each.job.id, each.job.version, each.job.next_fire_at, each.job.deferred_fire)
                for each in plans
                if each.job.id not in outdated
            ]
            current: dict[str, str | None] = dict(await tx.fetch(LOCK_PLANNED, b=made_from))
            chosen: dict[str, tuple[JobPlan, Sequence[str]]] = {}
            for plan, ids in zip(plans, run_ids, strict=True):
                if plan.job.id in current:
                    chosen.setdefault(plan.job.id, (plan, ids))
            if not chosen:
                return []
            ((now,),) = await tx.fetch(NOW)
            following = [plan for plan, _ in chosen.values() if plan.job.spec.follows is not None]
            moved, causes = await follows.use(tx, following, now) if following else ({}, {})
            for job_id, plan in moved.items():
                _, ids = chosen[job_id]
                chosen[job_id] = (plan, ids)
            await ordering_keys.lock(tx, (ordering_keys.key_of_job(plan.job) for plan, _ in chosen.values()))
            exclusive = [plan.job for plan, _ in chosen.values() if plan.job.spec.overlap is not Overlap.ALLOW]
            by_job = await live_runs(tx, [(job.id, job.spec.overlap, job.serial) for job in exclusive], now)
            tails = await ledger_spans.tails(tx, current.items())
            await ordering_keys.lock(tx, set().union(*(live.keys for live in by_job.values())))
            writes = _Writes()
            await _decide_blocked(tx, writes, by_job, tails, {key: plan for key, (plan, _) in chosen.items()}, now)
            quotas = None
            if self._quotas.by_tenant:
                quotas = await open_quotas(tx, self._quotas, (plan.job.tenant for plan, _ in chosen.values()), now)
            for job_id, (plan, ids) in chosen.items():
                _decide(writes, plan, ids, by_job.get(job_id), tails[job_id], now, causes, quotas)
            if quotas is not None:
                await quotas.write()
            record_planned(tx, (plan.job for plan, _ in chosen.values()))
            await _persist(tx, writes)
            await _replace(tx, by_job.values())
            await tx.execute(MOVE_JOBS, b=writes.jobs)
            await ledger_spans.write(tx, tails.values())
            return list(chosen)

        return await self._db.write(work) if plans else []


async def _decide_blocked(
    tx: Tx, writes: _Writes, by_job: dict[str, LiveRuns], tails: dict[str, Tail], plans: dict[str, JobPlan], now: Micros
) -> None:
    """Decide about blocked runs that fell due since the last plan: unblock them, leave them, or skip them."""
    reasons: dict[str, str] = {}
    for job_id, live in by_job.items():
        skipped = live.settle_waiting(newer=_newest_due(plans[job_id], now) is not None)
        if live.free:
            tails[job_id].close()
        tails[job_id].close_before(waiting.fire_time for waiting in live.waiting)
        reasons.update((blocked.id, TAKEN_OVER if live.replaces else live.skip_reason) for blocked in skipped)
    if not reasons:
        return
    locked = starmap(LockedRunRow, await tx.fetch(LOCK_RUNS, b=list(reasons)))
    for run in sorted(locked, key=lambda run: (run.fire_time, run.id)):
        row = ended(run, Status.SKIPPED, now, reason=reasons[run.id])
        if run.origin in DUE:
            tails[run.job_id].add(of_span(row))
            if by_job[run.job_id].replaces:  # later fires may have been closed while this run waited
                tails[run.job_id].close()
        else:
            writes.history.append(row)
        writes.gone.append(run)


def _decide(
    writes: _Writes,
    plan: JobPlan,
    ids: Sequence[str],
    live: LiveRuns | None,
    tail: Tail,
    now: Micros,
    causes: Mapping[tuple[str, Micros], str],
    quotas: QuotaBatch | None,
) -> None:
    """Add the rows of one plan to `writes` and to `tail`. `live` has the live runs of the job; None if runs of the job
    may overlap. `causes` has the upstream run of each fire of a job that follows another, by job and fire."""
    job, next_fire_at, plan_at, runs = plan.job, plan.next_fire_at, plan.plan_at, plan.runs
    newest = _newest_due(plan, now)
    for step, run_id in zip(plan.steps, ids, strict=True):
        match step:
            case Span(first, last, count, verdict, reason):
                run = new_run(job, run_id, Origin.SCHEDULE, first, now)
                tail.add(unstarted(run, verdict, reason, now, until=last, fires=count))
            case PlannedFire(fire_time, origin, eligible_at):
                cause = causes.get((job.id, fire_time))
                run = new_run(job, run_id, origin, fire_time, now, eligible_at=eligible_at, retry_of=cause)
                room = run.eligible_at if quotas is None else _room(quotas, run, is_recurring=not job.spec.one_shot)
                serial = run.serial or (live is not None and not live.alone)
                if live is not None and live.replaces and newest is not None and fire_time < newest:
                    tail.add(unstarted(run, Verdict.SKIPPED, TAKEN_OVER, now))
                elif room is None and fire_time > now:
                    next_fire_at = plan_at = fire_time  # decided when it is due: until then, the quota may be raised
                    runs -= 1
                elif room is None:
                    tail.add(unstarted(run, Verdict.SKIPPED, QUOTA_OF_DAY, now))
                elif (holds := _admit(run, live, tail, now)) is not None:
                    if quotas is not None:
                        run = structs.replace(run, eligible_at=room)
                        quotas.take_run(run.tenant, room)
                    writes.runs.append((run, holds, serial))
            case _:
                assert_never(step)
    if live is not None:
        writes.free += live.free
        # Whether a blocked run is skipped is decided when it falls due: the job is planned again then.
        looks = [plan_at, *(blocked.fire_time for blocked in live.future)]
        plan_at = min((at for at in looks if at is not None), default=None)
    writes.jobs.append((job.id, next_fire_at, plan_at, tail.last, runs, plan.deferred_fire))


def _room(quotas: QuotaBatch, run: NewRun, *, is_recurring: bool) -> Micros | None:
    """Return the first instant at which its tenant's quota of runs per day lets a run begin. It is None for a run of a
    recurring job whose day has no room, because another fire follows; the run of any other job waits for the first day
    with room."""
    days = quotas.runs_of(run.tenant)
    if days is None or days.has_room(run.eligible_at):
        return run.eligible_at
    return None if is_recurring else days.first_room(run.eligible_at)


def _newest_due(plan: JobPlan, now: Micros) -> Micros | None:
    """Return the latest due fire of a plan that is to become a run; None if there is none."""
    return max(
        (step.fire_time for step in plan.steps if isinstance(step, PlannedFire) and step.fire_time <= now), default=None
    )


def _admit(run: NewRun, live: LiveRuns | None, tail: Tail, now: Micros) -> int | None:
    """Apply the overlap policy to a new run. Return `Hold.OVERLAP` if the run waits for an earlier one, 0 if it does
    not, and None if the policy skips it: its fire is then counted in a ledger row."""
    if live is None:
        tail.close()
        return 0
    if run.fire_time > now:
        if live.empty:
            tail.close()
            return 0
        live.future.append(OverlappingRun(run.id, run.fire_time))
        return Hold.OVERLAP
    admission = live.admit()
    match admission:
        case Admission.RUN | Admission.WAIT | Admission.REPLACE:
            tail.close()
            live.join(run.id, admission, run.fire_time)
            return 0 if admission is Admission.RUN else Hold.OVERLAP
        case Admission.SKIP:
            tail.add(unstarted(run, Verdict.SKIPPED, live.skip_reason, now))
            return None
        case _:
            assert_never(admission)


async def _persist(tx: Tx, writes: _Writes) -> None:
    if writes.gone:
        await tx.execute(DELETE_RUNS, b=[run.id for run in writes.gone])
        await ordering_keys.release(tx, [gone for run in writes.gone if (gone := ordering_keys.gone(run)) is not None])
    if writes.history:
        await insert_history(tx, writes.history)
    if writes.free:
        record_holds(tx, await tx.fetch(UNBLOCK, b=writes.free))
    await insert_runs(tx, writes.runs)


async def _replace(tx: Tx, live_by_job: Iterable[LiveRuns]) -> None:
    """Cancel the runs that a newer run of their job replaces. Their jobs and ordering keys are locked."""
    for live in live_by_job:
        if live.successor is not None and live.active:
            await replace(tx, live)
