"""Runs that users request: triggers, retries and replays, and the discarding of failed and dead runs.

These runs are inserted under the lock on the job. The overlap policy of the job decides whether they run, wait or are
skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from itertools import starmap
from typing import assert_never

import msgspec
from msgspec import Struct

from timeball.domain.dispatch.overlap import REPLACING, TAKEN_OVER, Admission, Overlap
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobState, encode_spec
from timeball.domain.quota import KnownQuotas
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.lifecycle import Hold
from timeball.domain.run.run import NewRun, new_run
from timeball.domain.run.status import GAVE_UP, Status
from timeball.stores.sql.audit_log.recording import record_runs
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.inserts import insert_history
from timeball.stores.sql.jobs.amend import LOCK_JOBS
from timeball.stores.sql.jobs.large_values import require_fresh
from timeball.stores.sql.new_runs import HeldRun, insert_runs
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.planning.plans import NOW, PLAN_NO_LATER
from timeball.stores.sql.rows.jobs import read_jobs
from timeball.stores.sql.rows.runs import shown_as, unstarted
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.runs import ordering_keys, settling
from timeball.stores.sql.runs.overlap import MAKE_SERIAL, LiveRuns, live_runs
from timeball.stores.sql.runs.runs import RUN_STATUSES, replace
from timeball.stores.sql.schema.runs import EDITED, NewHistoryRow
from timeball.stores.sql.statements import literals, query
from timeball.stores.sql.tenants.quotas import open_quotas

LIVE_STATES = query("live_states")
BLOCK_FUTURE = query("block_future")
TO_FOLLOW = query("runs_to_follow")
MARK_RETRIED = query("mark_retried")
KEYS_OF_JOBS = query("keys_of_jobs")
MARK_REPLAYED = query("mark_replayed")
JOBS_OF_FINISHED = query("jobs_of_finished")
DISCARD = query("discard", gave_up=literals(sorted(GAVE_UP)))
OWN_SPECS = query("own_specs")


class _Finished(Struct, frozen=True):
    """A finished run that a user wants to retry or replay: a row of `runs_to_follow`."""

    id: str
    job_id: str
    status: str
    retried_as: str | None
    discarded_at: Micros | None
    replayed_as: str | None


class ManualRuns(StorePart):
    async def trigger(self, runs: Sequence[NewRun]) -> list[Status | None]:
        async def work(tx: Tx) -> list[Status | None]:
            statuses, new = await _trigger(tx, runs, self._quotas)
            found = dict(zip((run.id for run in runs), statuses, strict=True))
            record_runs(tx, {run_id: {"status": status} for run_id, status in found.items() if run_id in new})
            return statuses

        self._db.require_space()
        return await self._db.write(work) if runs else []

    async def repeat(self, pairs: Sequence[tuple[str, NewRun]]) -> list[Status | None]:
        def is_free(old: _Finished, run: NewRun) -> bool:
            return old.retried_as is None or old.retried_as == run.id

        async def work(tx: Tx) -> list[Status | None]:
            return await _follow(tx, pairs, is_free, MARK_RETRIED, self._quotas)

        self._db.require_space()
        return await self._db.write(work) if pairs else []

    async def repeat_dead_letters(self, pairs: Sequence[tuple[str, NewRun]]) -> list[Status | None]:
        def is_free(old: _Finished, run: NewRun) -> bool:
            if old.retried_as is None:
                return old.status == Status.DEAD and old.discarded_at is None
            return old.retried_as == run.id

        async def work(tx: Tx) -> list[Status | None]:
            return await _follow(tx, pairs, is_free, MARK_RETRIED, self._quotas)

        self._db.require_space()
        return await self._db.write(work) if pairs else []

    async def replay(self, pairs: Sequence[tuple[str, NewRun]], since: str) -> list[Status | None]:
        def is_free(old: _Finished, run: NewRun) -> bool:
            return old.replayed_as is None or old.replayed_as < since or old.replayed_as == run.id

        async def work(tx: Tx) -> list[Status | None]:
            return await _follow(tx, pairs, is_free, MARK_REPLAYED, self._quotas)

        self._db.require_space()
        return await self._db.write(work) if pairs else []

    async def discard(self, run_ids: Sequence[str]) -> list[bool]:
        async def work(tx: Tx) -> list[bool]:
            ids = list(dict.fromkeys(run_ids))
            await settling.lock_jobs(tx, [job_id for (job_id,) in await tx.fetch(JOBS_OF_FINISHED, b=ids)])
            discarded = {run_id for (run_id,) in await tx.fetch(DISCARD, b=ids)}
            if discarded:
                await ordering_keys.drop_holder(tx, sorted(discarded))
            record_runs(tx, {run_id: {"discarded": True} for run_id in sorted(discarded)})
            return [run_id in discarded for run_id in run_ids]

        return await self._db.write(work) if run_ids else []


async def _follow(
    tx: Tx,
    pairs: Sequence[tuple[str, NewRun]],
    is_free: Callable[[_Finished, NewRun], bool],
    mark: Query,
    quotas: KnownQuotas,
) -> list[Status | None]:
    """Insert each new run if its finished run may still be retried or replayed (`is_free`), and store with the
    statement `mark` that the new run retries or replays the finished one. Return the status of each new run: SKIPPED if
    the overlap policy refused it, and None if it was not inserted for another reason."""
    await _locked(tx, [run.job_id for _, run in pairs])
    rows = await tx.fetch(TO_FOLLOW, b=[old_id for old_id, _ in pairs])
    finished = {old.id: old for old in starmap(_Finished, rows)}
    linked: dict[str, NewRun] = {}
    for old_id, run in pairs:
        old = finished.get(old_id)
        if old is not None and old.job_id == run.job_id and is_free(old, run):
            linked.setdefault(old_id, msgspec.structs.replace(run, retry_of=old_id))
    if not linked:
        return [None] * len(pairs)
    answers, new = await _trigger(tx, list(linked.values()), quotas, record_skips=False)
    statuses = {run.id: status for run, status in zip(linked.values(), answers, strict=True)}
    # If the overlap policy skipped the new run, the finished run is not marked, and can be retried later.
    if followed := [
        (old_id, run.id) for old_id, run in linked.items() if statuses[run.id] not in (None, Status.SKIPPED)
    ]:
        await tx.execute(mark, b=followed)
        record_runs(tx, {old_id: {"followedBy": run_id} for old_id, run_id in followed if run_id in new})
        if mark is MARK_RETRIED:  # the finished run may hold another ordering key than its retry
            await ordering_keys.drop_holder(tx, [old_id for old_id, _ in followed])
    return [statuses.get(run.id) for _, run in pairs]


async def _locked(tx: Tx, job_ids: Sequence[str]) -> dict[str, Job]:
    rows = await tx.fetch(LOCK_JOBS, b=list(dict.fromkeys(job_ids)))
    return {job.id: job for job in await read_jobs(tx, rows)}


async def _count(tx: Tx, known: KnownQuotas, runs: Sequence[NewRun], now: Micros) -> None:
    """Count runs, and the specs that users edited for them, for the quotas of their tenants. Raise `QuotaExceeded` or
    `DailyQuotaExceeded` if a quota has no room for all of them."""
    is_edited = any(run.spec is not None for run in runs)
    quotas = await open_quotas(tx, known, (run.tenant for run in runs), now, of_bytes=is_edited)
    if quotas is not None:
        quotas.require_runs(runs, now)
        await quotas.write()


async def _trigger(
    tx: Tx, runs: Sequence[NewRun], quotas: KnownQuotas, *, record_skips: bool = True
) -> tuple[list[Status | None], Collection[str]]:
    """Insert runs that do not exist yet. Return the status of each run, or None if its job does not exist or is
    cancelled, and the ids of the runs that this call inserted or skipped."""
    jobs = await _locked(tx, [run.job_id for run in runs])
    await require_fresh(tx, (run.spec for run in runs))
    ((now,),) = await tx.fetch(NOW)
    known = await _known(tx, [run.id for run in runs])
    wanted: dict[str, NewRun] = {}
    for run in runs:
        job = jobs.get(run.job_id)
        if run.id not in known and job is not None and job.state is not JobState.CANCELLED:
            # The job may have changed since the run was made: the run executes the current version.
            fresh = new_run(
                job,
                run.id,
                run.origin,
                run.fire_time,
                run.created_at,
                due_at=run.due_at,
                retry_of=run.retry_of,
                edited=run.spec,
            )
            wanted.setdefault(run.id, fresh)
    concerned = [jobs[job_id] for job_id in {run.job_id for run in wanted.values()}]
    successors = await _lock_turns(tx, concerned, wanted.values())
    by_job = await _make_way(tx, {run.job_id: jobs[run.job_id] for run in wanted.values()}, now)
    live, skipped = admit(list(wanted.values()), by_job, successors, now)
    if quotas.by_tenant:
        await _count(tx, quotas, [run for run, _, _ in live], now)
    known |= await insert(tx, live, now)
    known |= dict.fromkeys(skipped, Status.SKIPPED)
    if skipped and record_skips:
        await insert_history(tx, [*skipped.values()])
    known |= await _take_over(tx, [each for each in by_job.values() if each.successor is not None])
    return [known.get(run.id) for run in runs], wanted.keys()


def admit(
    runs: Sequence[NewRun], live_by_job: Mapping[str, LiveRuns], successors: Container[str], now: Micros
) -> tuple[list[HeldRun], dict[str, NewHistoryRow]]:
    """Decide by the overlap policies which runs are inserted, and which are skipped, by id. `live_by_job` has the
    live runs of jobs whose runs may not overlap; each inserted run is added to it. `successors` are retries of a run
    that still holds an ordering key. A pure function otherwise."""
    last = {run.job_id: run.id for run in runs}
    several = {job_id for job_id, count in Counter(run.job_id for run in runs).items() if count > 1}
    inserted: list[HeldRun] = []
    skipped: dict[str, NewHistoryRow] = {}
    for run in runs:
        others = live_by_job.get(run.job_id)
        if others is None:
            inserted.append((run, 0, run.serial))
            continue
        if others.replaces and run.id != last[run.job_id]:
            skipped[run.id] = unstarted(run, Verdict.SKIPPED, TAKEN_OVER, now)
            continue
        admission = others.admit()
        if admission is Admission.SKIP and run.id in successors and others.is_kept_back:
            admission = Admission.WAIT  # the live runs of its job wait for the ordering key that it holds
        serial = run.serial or not others.alone or run.job_id in several
        match admission:
            case Admission.RUN | Admission.WAIT | Admission.REPLACE:
                inserted.append((run, 0 if admission is Admission.RUN else Hold.OVERLAP, serial))
                others.join(run.id, admission, run.fire_time)
            case Admission.SKIP:
                skipped[run.id] = unstarted(run, Verdict.SKIPPED, others.skip_reason, now)
            case _:
                assert_never(admission)
    return inserted, skipped


async def _take_over(tx: Tx, taken: Sequence[LiveRuns]) -> dict[str, Status]:
    """Cancel all active runs of jobs in favour of their successors, and return the statuses of the successors: a
    successor may be READY at once."""
    for each in taken:
        await replace(tx, each)
    successors = [each.successor for each in taken if each.successor is not None]
    return await _known(tx, successors) if successors else {}


async def insert(tx: Tx, live: Sequence[HeldRun], now: Micros) -> dict[str, Status]:
    """Insert runs, with the specs that users edited, and return the first status of each."""
    rows = await insert_runs(tx, live, not_before=now)
    await _keep_edits(tx, [run for run, _, _ in live])
    return {row.id: Status.BLOCKED if row.holds else Status.QUEUED for row in rows}


async def _lock_turns(tx: Tx, jobs: Sequence[Job], runs: Collection[NewRun]) -> set[str]:
    """Lock the ordering keys of the new runs, and of runs that these may replace, before any run is locked. Return the
    ids of the new runs that retry a finished run which still holds its ordering key."""
    keys = {ordering_keys.key_of(run) for run in runs}
    if ordered := [job for job in jobs if job.spec.ordering_key is not None or job.spec.overlap in REPLACING]:
        keys.update((tenant, key) for tenant, key in await tx.fetch(KEYS_OF_JOBS, b=[job.id for job in ordered]))
    holders = await ordering_keys.lock(tx, keys)
    return {
        run.id
        for run in runs
        if run.origin is Origin.RETRY
        and (key := ordering_keys.key_of(run)) is not None
        and holders[key] == run.retry_of
    }


async def _keep_edits(tx: Tx, runs: Iterable[NewRun]) -> None:
    """Store the edited specs of runs: with the live run, and in a table that keeps them after the run has ended."""
    edited = [
        (run.id, encode_spec(run.spec).decode(), run.spec.task_id and plain(run.spec.task_id))
        for run in runs
        if run.spec is not None
    ]
    if edited:
        await tx.execute(OWN_SPECS, b=edited)
        await tx.insert(EDITED, [(run_id, spec) for run_id, spec, _ in edited])


async def _known(tx: Tx, run_ids: Sequence[str]) -> dict[str, Status]:
    """Return the statuses of those of the given runs that exist in the store, live or finished, by id."""
    known: dict[str, Status] = {}
    for run_id, state, attempt, due_at, eligible_at, now in await tx.fetch(LIVE_STATES, b=list(run_ids)):
        known[run_id] = shown_as(now, state, attempt, due_at, eligible_at)
    known.update((run_id, Status(status)) for run_id, status in await tx.fetch(RUN_STATUSES, b=list(run_ids)))
    return known


async def _make_way(tx: Tx, jobs: dict[str, Job], now: Micros) -> dict[str, LiveRuns]:
    """Block the runs of future fires that no worker holds, for jobs whose runs may not overlap, so that the requested
    run is executed before them. Return the live runs of these jobs."""
    exclusive = [job for job in jobs.values() if job.spec.overlap is not Overlap.ALLOW]
    if not exclusive:
        return {}
    await tx.execute(MAKE_SERIAL, b=[job.id for job in exclusive])
    if blocked := await tx.fetch(BLOCK_FUTURE, b=[job.id for job in exclusive]):
        await tx.execute(PLAN_NO_LATER, b=[tuple(row) for row in blocked])
    return await live_runs(tx, [(job.id, job.spec.overlap, True) for job in exclusive], now)
