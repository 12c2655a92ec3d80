"""Assigns due runs to idle workers in the transaction that submits them.

A run that is inserted as already claimed needs no claim later, which saves half of its cost. The transaction does this
only if no other ready run is due, because that run would have to be claimed first, and only if no run of the batch has
special requirements. Otherwise the same transaction inserts them as ready, and then claims in rank order.
"""

from __future__ import annotations

from collections.abc import Sequence

from timeball.domain.dispatch.priority import rank
from timeball.domain.dispatch.slot_pools import PoolRoom
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobSpec
from timeball.domain.run.run import NewRun
from timeball.domain.task.task import Http, Python, Task, host_of, kind_of
from timeball.domain.workflow.definition import Workflow
from timeball.ports.store.jobs import Submission
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.rows.runs import assigned, assigned_run_row
from timeball.stores.sql.runs.claimants import interleaved
from timeball.stores.sql.runs.gates import failing_hosts
from timeball.stores.sql.schema.runs import HANDED_RUNS
from timeball.stores.sql.statements import query

WAITING_NOW = query("waiting_now")
THERE_FOR_ALL = query("there_for_all")


async def assign_on_submit(
    tx: Tx, submissions: Sequence[Submission], specs: Sequence[str], wants: Sequence[SlotRequest], credit: Micros
) -> dict[str, Claim] | None:
    """Insert due runs as claimed by idle workers. Return the claims by run id; None if a normal claim has to decide.
    `specs` are the encoded specs of the jobs."""
    ((now, has_to_choose, failing_host, spare),) = await tx.fetch_unlocked(WAITING_NOW)
    if has_to_choose or (failing_host and await _call_failing_hosts(tx, submissions)):
        return None
    ranked: list[tuple[Micros, Micros, str, NewRun, str, Job]] = []
    for submission, spec in zip(submissions, specs, strict=True):
        for run in submission.runs:
            if not run.is_simple or submission.job.spec.task_id is not None:
                return None
            if run.eligible_at <= now:
                ranks = rank(run.eligible_at, run.priority, credit), run.fire_time, run.id
                ranked.append((*ranks, run, spec, submission.job))
    workers = dict(await tx.fetch_unlocked(THERE_FOR_ALL, b=[want.session for want in wants]))
    there = [want for want in wants if want.session in workers]
    slots = interleaved(there, len(ranked))
    ranked.sort()
    due = ranked[: len(slots)]
    if (pools := _pools([job.spec.task for *_, job in due], slots)) is None:
        return None
    tokens: Sequence[int] = ()
    if due:
        tokens = [spare] if spare is not None and len(due) == 1 else await tx.tokens(len(due))
    claims: dict[str, Claim] = {}
    rows: dict[str, list[Row]] = {want.session: [] for want in slots[: len(due)]}
    for (*_, run_id, run, spec, job), token, want, pool in zip(due, tokens, slots, pools, strict=False):
        rows[want.session].append(assigned_run_row(run, token))
        claims[run_id] = _claim(run, spec, token, want, pool, job.traceparent)
    for want in there:
        if theirs := rows.get(want.session):
            await tx.insert(HANDED_RUNS, theirs, **assigned(want.session, workers[want.session], want.poll, now))
    return claims


async def _call_failing_hosts(tx: Tx, submissions: Sequence[Submission]) -> bool:
    """True if one of the jobs calls a host with recent failures. Then the claim must check the circuit breaker of that
    host.
    """
    calls = [(each.job.tenant, host) for each in submissions if (host := _host(each.job.spec)) is not None]
    if not calls:
        return False
    failing = await failing_hosts(tx)
    return any(failing.includes(*call) for call in calls)


def _host(spec: JobSpec) -> str | None:
    return host_of(spec.task) if isinstance(spec.task, Http) else None


def _pools(tasks: Sequence[Task | Workflow | None], slots: Sequence[SlotRequest]) -> list[str | None] | None:
    """Return, for each run, the slot pool that it is in at the worker whose slot it gets; None in its place if it is in
    no pool. Return None instead of a list if a pool has too few free slots: a normal claim then finds other slots."""
    pools: list[str | None] = []
    rooms: dict[str, PoolRoom] = {}
    for task, want in zip(tasks, slots, strict=False):
        if want.room is None or task is None or isinstance(task, Workflow):
            pools.append(None)
            continue
        pool = want.room.pools.of(kind_of(task), task.function if isinstance(task, Python) else None)
        pools.append(pool)
        if pool is not None:
            room = rooms.get(want.session)
            if room is None:
                room = rooms[want.session] = want.room.copy()
            if not room.has(pool):
                return None
            room.take(pool)
    return pools


def _claim(run: NewRun, spec: str, token: int, want: SlotRequest, pool: str | None, traceparent: str | None) -> Claim:
    return Claim(
        session=want.session,
        poll=want.poll,
        run_id=run.id,
        job_id=run.job_id,
        attempt=1,
        token=token,
        fire_time=run.fire_time,
        eligible_at=run.eligible_at,
        serial=False,
        spec=spec.encode(),
        task=None,
        tenant=run.tenant,
        pool=pool,
        traceparent=traceparent,
    )
