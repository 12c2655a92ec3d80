"""Jobs: submitting and reading them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Container, Mapping, Sequence
from functools import partial
from itertools import starmap

import msgspec

from timeball.domain.audit_log.change import AuditedRequest
from timeball.domain.dispatch.fair_share import FairShares
from timeball.domain.errors import Invalid
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobState, OffloadedSpec
from timeball.domain.planning import planning
from timeball.domain.quota import KnownQuotas
from timeball.domain.run import follow
from timeball.domain.run.run import NewRun
from timeball.domain.schedule.schedule import Window
from timeball.ports.store.jobs import (
    Accepted,
    Idempotency,
    JobStatus,
    Mismatched,
    NeverFires,
    OverQuota,
    Replayed,
    Submission,
    Submitted,
)
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.stores.sql.audit_log.appending import ClosedChain, append
from timeball.stores.sql.audit_log.recording import job_change
from timeball.stores.sql.changes import record_claims, record_submissions
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.inserts import insert_jobs
from timeball.stores.sql.jobs import window_slots
from timeball.stores.sql.jobs.deleted_tenants import refusals
from timeball.stores.sql.jobs.large_values import require_fresh
from timeball.stores.sql.new_runs import insert_runs
from timeball.stores.sql.page_bytes import MAX_PAGE_BYTES
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.planning import calendars
from timeball.stores.sql.pool_queues import PoolQueues
from timeball.stores.sql.rows.jobs import new_job_row, read_jobs, readable, tag_rows
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.runs import follows
from timeball.stores.sql.runs.assign_on_submit import assign_on_submit
from timeball.stores.sql.runs.claiming import claim
from timeball.stores.sql.schema.jobs import IDEMPOTENCY, TAGS, IdempotencyRow, NewJobRow
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.statements import query
from timeball.stores.sql.tenants.quotas import open_quotas

JOBS_THAT_EXIST = query("jobs_that_exist")
KEYS_THAT_EXIST = query("keys_that_exist")
JOBS_BY_ID = query("jobs_by_id")
LIVE_OF_JOBS = query("live_of_jobs")

ROWS_TOGETHER = 8
"""Number of jobs of a large batch that are encoded in one go. After each such group the event loop may execute other
tasks."""
ROW_BYTES = 1_024
"""Cost of encoding one job beside its spec, expressed as bytes of spec."""


class Jobs(StorePart):
    async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]:
        answers, _ = await self.submit_and_claim(submissions, ())
        return answers

    async def submit_and_claim(
        self, submissions: Sequence[Submission], wants: Sequence[SlotRequest]
    ) -> tuple[list[Submitted], list[Claim]]:
        self._db.require_space()
        # Jobs are encoded before the transaction: on SQLite one thread executes all writes, and the other writes would
        # wait.
        ids = [each.job.id for each in submissions]
        rows = await _new_job_rows(submissions)
        accepted: list[Submitted] = [Accepted(job_id) for job_id in ids]
        unplaced = window_slots.unplaced(submissions)
        stowed = [each.job.spec for each in submissions if type(each.job.spec) is OffloadedSpec]

        audited = [each for each in submissions if each.audited is not None]
        now = self._db.now()

        async def work(tx: Tx) -> tuple[list[Submitted], list[Claim]]:
            if stowed:
                await require_fresh(tx, stowed)
            refused = await refusals(tx, submissions) | await calendars.missing(tx, submissions)
            placed, fireless = await _placed(tx, submissions) if unplaced else ({}, {})
            refused |= fireless
            sent = [placed.get(at, each) for at, each in enumerate(submissions)] if placed else submissions
            known: set[str] | None = None
            if self._quotas.by_tenant:
                known = await _known(tx, ids)
                refused |= await _over_quota(tx, self._quotas, sent, {*refused, *_places(ids, known)}, now)
            repeated = refused | await _repeated_keys(tx, sent, refused)
            answers = [repeated.get(at, answer) for at, answer in enumerate(accepted)] if repeated else accepted
            known = await _known(tx, ids) if known is None else known
            new = {job_id: at for at, job_id in enumerate(ids) if at not in repeated and job_id not in known}.values()
            new_rows = [new_job_row(sent[at].job) if at in placed else rows[at] for at in new]
            news = [sent[at] for at in new]
            claims = await _insert(tx, news, new_rows, wants, self._credit, self._sharing, self._pool_queues)
            if placed:
                await window_slots.add(tx, (sent[at].job for at in new))
                answers = await _with_slots(tx, answers, placed, known)
            if audited:
                await _append_audited(tx, [sent[at] for at in new])
            return answers, claims

        if not submissions:
            return [], []
        try:
            return await self._db.write(work, once=bool(wants))
        except ClosedChain:  # the deletion of a tenant began after `refusals`, which the second try sees
            return await self._db.write(work, once=bool(wants))

    async def answered(self, keys: Sequence[tuple[str, str, str]]) -> list[Replayed | Mismatched | None]:
        wanted = [(tenant, plain(key)) for tenant, key, _ in keys]

        async def work(tx: Tx) -> list[Replayed | Mismatched | None]:
            first = await _first_requests(tx, wanted)
            return [
                _repetition(first[key], fingerprint) if key in first else None
                for key, (_, _, fingerprint) in zip(wanted, keys, strict=True)
            ]

        return await self._db.read(work) if keys else []

    async def slot_for(self, window: Window) -> int:
        async def work(tx: Tx) -> int:
            (slot,) = await window_slots.choose(tx, [window], self._db.now(), keep=False)
            return slot

        return await self._db.read(work, slow=True)

    async def jobs(self, ids: Sequence[str]) -> dict[str, JobStatus]:
        async def work(tx: Tx) -> dict[str, JobStatus]:
            rows = await tx.fetch(JOBS_BY_ID, b=list(dict.fromkeys(ids)))
            return {each.job.id: each for each in await with_status(tx, await read_jobs(tx, rows))}

        return await self._db.read(work) if ids else {}


async def _known(tx: Tx, ids: Sequence[str]) -> set[str]:
    """Return the ids of the jobs that are stored already, because their submissions were sent twice."""
    return {job_id for (job_id,) in await tx.fetch(JOBS_THAT_EXIST, b=ids)} if tx.may_be_done else set()


def _places(ids: Sequence[str], known: Container[str]) -> list[int]:
    return [at for at, job_id in enumerate(ids) if job_id in known]


async def _over_quota(
    tx: Tx, known: KnownQuotas, submissions: Sequence[Submission], left_out: Container[int], now: Micros
) -> dict[int, Submitted]:
    """Return the refusals of jobs that a quota has no room for, by their positions in the batch. Jobs at the positions
    in `left_out` are not counted, and neither is a repeated request: it gets the answer to the first one."""
    quotas = await open_quotas(tx, known, (each.job.tenant for each in submissions), now, of_jobs=True, of_bytes=True)
    if quotas is None:
        return {}
    keys = [
        None if each.idempotency is None else (each.job.tenant, plain(each.idempotency.key)) for each in submissions
    ]
    keyed = [key for key in keys if key is not None]
    first: dict[tuple[str, str], int | None] = dict.fromkeys(await _first_requests(tx, keyed)) if keyed else {}
    again: list[tuple[int, int]] = []
    new: list[tuple[int, Submission]] = []
    for at, (each, key) in enumerate(zip(submissions, keys, strict=True)):
        if at in left_out:
            continue
        if key is None or key not in first:
            new.append((at, each))
            if key is not None:
                first[key] = at
        elif (earlier := first[key]) is not None:
            again.append((at, earlier))
    errors = await quotas.refused(new, now)
    errors |= {at: errors[earlier] for at, earlier in again if earlier in errors}
    await quotas.write()
    return {at: OverQuota(error) for at, error in errors.items()}


async def _new_job_rows(submissions: Sequence[Submission]) -> list[NewJobRow]:
    """Encode jobs as rows. A large batch yields to the event loop each time it has encoded `MAX_PAGE_BYTES`."""
    if len(submissions) <= ROWS_TOGETHER:
        return [new_job_row(each.job) for each in submissions]
    rows: list[NewJobRow] = []
    size = 0
    for start in range(0, len(submissions), ROWS_TOGETHER):
        some = [new_job_row(each.job) for each in submissions[start : start + ROWS_TOGETHER]]
        rows += some
        size += ROWS_TOGETHER * ROW_BYTES + sum([len(row.spec) for row in some])
        if size > MAX_PAGE_BYTES:
            size = 0
            await asyncio.sleep(0)
    return rows


async def _placed(tx: Tx, submissions: Sequence[Submission]) -> tuple[dict[int, Submission], dict[int, Submitted]]:
    """Choose slots for jobs with a window. Return the submissions with their slots, and the refusals of those whose
    slot leaves no fire, both by position in the batch."""
    wanted = window_slots.unplaced(submissions)
    windows = [when for at in wanted if isinstance(when := submissions[at].job.spec.schedule, Window)]
    first, *_ = wanted
    slots = await window_slots.choose(tx, windows, submissions[first].job.created_at)
    work = partial(_place, {at: (submissions[at], slot) for at, slot in zip(wanted, slots, strict=True)})
    return work() if len(wanted) <= ROWS_TOGETHER else await tx.compute(work)


def _place(chosen: Mapping[int, tuple[Submission, int]]) -> tuple[dict[int, Submission], dict[int, Submitted]]:
    """Give each job its slot and compute its first fire, which takes 30 µs per job."""
    found: dict[int, Submission] = {}
    fireless: dict[int, Submitted] = {}
    for at, (each, slot) in chosen.items():
        try:
            job = planning.placed(each.job, slot, each.job.created_at)
        except Invalid as error:
            fireless[at] = NeverFires(error)
            continue
        key = each.idempotency
        if key is not None and each.render is not None:
            key = msgspec.structs.replace(key, answer=each.render(job))
        found[at] = msgspec.structs.replace(each, job=job, idempotency=key)
    return found, fireless


async def _with_slots(
    tx: Tx, answers: Sequence[Submitted], placed: Mapping[int, Submission], known: Collection[str]
) -> list[Submitted]:
    """Return the answers with the window slots of the jobs. For a repeated request, the answer has the slot that the
    job already has.
    """
    again = [each.job.id for each in placed.values() if each.job.id in known]
    stored = {job.id: job for job in readable(await tx.fetch(JOBS_BY_ID, b=again))} if again else {}
    return [
        Accepted(answer.job_id, stored.get(answer.job_id, placed[at].job))
        if at in placed and isinstance(answer, Accepted)
        else answer
        for at, answer in enumerate(answers)
    ]


async def _repeated_keys(tx: Tx, submissions: Sequence[Submission], refused: Container[int]) -> dict[int, Submitted]:
    """Insert the idempotency keys of a batch. Return the answers to repeated requests, by position in the batch."""
    rows: dict[tuple[str, str], IdempotencyRow] = {}
    for at, each in enumerate(submissions):
        if (key := each.idempotency) is not None and at not in refused:
            row = IdempotencyRow(
                each.job.tenant, plain(key.key), key.fingerprint, each.job.id, key.answer, each.job.created_at
            )
            rows.setdefault((row.tenant, row.key), row)
    if not rows:
        return {}
    # Sorted, so that two servers that insert the same keys cannot deadlock.
    await tx.insert_missing(IDEMPOTENCY, [as_tuple(rows[key]) for key in sorted(rows)])
    first = await _first_requests(tx, list(rows))
    answers: dict[int, Submitted] = {}
    for at, each in enumerate(submissions):
        if (key := each.idempotency) is not None and at not in refused:
            known = first[each.job.tenant, plain(key.key)]
            if known.fingerprint != key.fingerprint or known.job_id != each.job.id:
                answers[at] = _repetition(known, key.fingerprint)
    return answers


async def repeated_key(tx: Tx, tenant: str, key: Idempotency, ident: str, now: Micros) -> Replayed | Mismatched | None:
    """Insert the idempotency key of a request that creates something other than a job. Return the answer to a repeated
    request; None if the request is the first with its key."""
    row = IdempotencyRow(tenant, plain(key.key), key.fingerprint, ident, key.answer, now)
    await tx.insert_missing(IDEMPOTENCY, [as_tuple(row)])
    known = (await _first_requests(tx, [(tenant, row.key)]))[tenant, row.key]
    return None if known.job_id == ident else _repetition(known, key.fingerprint)


async def _first_requests(tx: Tx, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], IdempotencyRow]:
    found = starmap(IdempotencyRow, await tx.fetch(KEYS_THAT_EXIST, b=keys))
    return {(each.tenant, each.key): each for each in found}


def _repetition(first: IdempotencyRow, fingerprint: str) -> Replayed | Mismatched:
    if first.fingerprint != fingerprint:
        return Mismatched(first.job_id)
    return Replayed(first.job_id, bytes(first.answer))


async def _insert(
    tx: Tx,
    submissions: Sequence[Submission],
    rows: Sequence[NewJobRow],
    wants: Sequence[SlotRequest],
    credit: Micros,
    sharing: FairShares,
    queues: PoolQueues,
) -> list[Claim]:
    """Insert jobs and their runs. Return the claims for the workers in `wants`: of the new runs, or of runs that were
    ready before."""
    if not submissions:
        return []
    # No other transaction sees the new jobs before the commit, so that their runs may be assigned before the insert.
    claims: dict[str, Claim] | None = {}
    if wants:
        limited = sharing.limits([each.job.tenant for each in submissions])
        claims = None if limited else await assign_on_submit(tx, submissions, [row.spec for row in rows], wants, credit)
    await insert_jobs(tx, rows)
    record_submissions(tx, submissions, claims or {})
    jobs = [each.job for each in submissions]
    if tags := [tag for job in jobs if job.spec.tags or job.spec.is_workflow for tag in tag_rows(job)]:
        await tx.insert(TAGS, tags)
    await calendars.bind(tx, jobs)
    await follows.begin(tx, jobs)
    if claims is None:
        await insert_runs(tx, [(run, 0, run.serial) for run in _queued(submissions, queues)])
        assigned = await claim(tx, wants, 0, credit, 0, sharing)
        record_claims(tx, assigned.runs, assigned.now)
        return assigned.claimed().claims
    if len(claims) < sum([len(each.runs) for each in submissions]):
        await insert_runs(tx, [(run, 0, run.serial) for run in _queued(submissions, queues) if run.id not in claims])
    return list(claims.values())


def _queued(submissions: Sequence[Submission], queues: PoolQueues) -> list[NewRun]:
    """Return the runs of jobs, each in the queue that it has to join."""
    if not queues:
        return [run for each in submissions for run in each.runs]
    return [queues.join(run, each.job.spec) for each in submissions for run in each.runs]


async def _append_audited(tx: Tx, created: Sequence[Submission]) -> None:
    """Append one entry to the audit log for each request that created recurring jobs."""
    requests: dict[int, tuple[AuditedRequest, list[Job]]] = {}
    for each in created:
        if each.audited is not None:
            requests.setdefault(id(each.audited), (each.audited, []))[1].append(each.job)
    await append(
        tx,
        [
            (request, [job_change(None, job, is_only=len(jobs) == 1) for job in jobs])
            for request, jobs in requests.values()
        ],
    )


async def with_status(tx: Tx, jobs: Sequence[Job]) -> list[JobStatus]:
    if not jobs:
        return []
    alive: dict[str, Micros | None] = dict(await tx.fetch(LIVE_OF_JOBS, b=[job.id for job in jobs]))
    return [_status(job, job.id in alive, alive.get(job.id)) for job in jobs]


def _status(job: Job, alive: bool, earliest: Micros | None) -> JobStatus:
    next_fire = job.next_fire_at if job.state is JobState.ACTIVE else None
    next_run = earliest if earliest is not None else next_fire
    match job.state:
        case JobState.PAUSED:
            return JobStatus(job, "paused", next_run)
        case JobState.CANCELLED:
            return JobStatus(job, "cancelled", next_run)
        case JobState.ACTIVE:
            goes_on = alive or next_fire is not None or follow.is_awake(job)
            return JobStatus(job, "scheduled" if goes_on else "completed", next_run)
