"""The facts that explain the state of a run or a job (`timeball why`), collected in one read."""

from __future__ import annotations

from itertools import starmap
from typing import Any, Final

import msgspec

from timeball.domain.diagnosis.snapshot import (
    MAX_COUNTED,
    CalledHost,
    DayQuota,
    DiagnosisSnapshot,
    Followed,
    Permits,
    RunsAhead,
    Standing,
    TenantQuota,
    Tokens,
    Turn,
    WorkflowPosition,
)
from timeball.domain.diagnosis.worker_match import WorkerOffer, able
from timeball.domain.dispatch import placement
from timeball.domain.dispatch.overlap import QUEUE_DEPTH
from timeball.domain.dispatch.placement import PLAIN, Need
from timeball.domain.dispatch.priority import LEVELS, rank
from timeball.domain.instant import DAY, Micros
from timeball.domain.job.job import Job, JobSpec, decode_spec
from timeball.domain.run.circuit_breaker import Circuit
from timeball.domain.run.ledger import Origin
from timeball.domain.run.lifecycle import Hold, State
from timeball.domain.run.run import Attempt, Run
from timeball.domain.task.task import Task, host_of, kind_of
from timeball.domain.tenant import DEFAULT_TENANT, NO_QUOTAS
from timeball.domain.workflow.definition import Workflow
from timeball.ports.store.workers import WorkerRecord
from timeball.stores.sql.day_ranges import day_range
from timeball.stores.sql.driver import Tx, scalar
from timeball.stores.sql.jobs.jobs import JOBS_BY_ID
from timeball.stores.sql.names import WEAVER
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.planning import planning_failures
from timeball.stores.sql.planning.preemption import made_room, making_room
from timeball.stores.sql.reading.runs import FINISHED_RUNS, FIRST_ATTEMPTS, LIVE_RUNS, attempt_of
from timeball.stores.sql.rows.jobs import readable
from timeball.stores.sql.rows.runs import finished_run, live_run, shown_run
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.runs.gates import host_gate, limit_gate, rate_gate
from timeball.stores.sql.runs.workers import alive
from timeball.stores.sql.schema.runs import AttemptRow, GateRow, ListedRunRow, RunRow
from timeball.stores.sql.schema.workflows import WorkflowRunRow
from timeball.stores.sql.statements import query
from timeball.stores.sql.tenants import running_quota
from timeball.stores.sql.tenants.quotas import runs_of_today
from timeball.stores.sql.tenants.scope import profiles_of, serving

FLOW_BY_ID = query("flow_by_id")
RUNNING_TASKS = query("running_tasks")
FLOWS_OF_TASKS = query("flows_of_tasks")
LIVE_OF_JOB = query("live_of_job")
NEWEST_OF_JOB = query("newest_of_job")
EXCEPTIONS = query("exceptions")
SPECS_OF_RUNS = query("specs_of_runs")
TASK = query("task")
TURN_HOLDER = query("turn_holder")
BEFORE_IN_TURN = query("before_in_turn")
BEFORE_AT_GATE = query("before_at_gate")
GATES = query("gates")
PERMITS = query("permits")
PERMIT_HOLDERS = query("permit_holders")
AHEAD_FOR_ALL_KINDS = query("ahead_for_all_kinds")
AHEAD_FOR_SOME_KINDS = query("ahead_for_some_kinds")

MAX_RUNS_OF_JOB: Final = QUEUE_DEPTH + 2
MAX_HOLDERS: Final = 5
MAX_KINDS: Final = 200
MAX_EXCEPTIONS: Final = 5
LOOKED_AT: Final = 1_000
"""Number of newest fires of a job among which the snapshot looks for fires that were not on time."""

_decode_task: Any = msgspec.json.Decoder(Task).decode


async def _followed(tx: Tx, job: Job) -> Followed | None:
    if job.spec.follows is None:
        return None
    found = await _job(tx, job.spec.follows.job)
    return Followed("", None) if found is None else Followed(found.spec.name, found.state)


class DiagnosisSnapshots(StorePart):
    async def circumstances(self, run_id: str) -> DiagnosisSnapshot | None:
        async def work(tx: Tx) -> DiagnosisSnapshot | None:
            live = next(starmap(ListedRunRow, await tx.fetch(LIVE_RUNS, b=[run_id])), None)
            done = None if live is not None else await _finished_run(tx, run_id)
            if (found := live or done) is None or (job := await _job(tx, found.job_id)) is None:
                return None
            if live is not None:
                return await self._live(tx, job, live)
            return None if done is None else await self._finished(tx, job, done)

        return await self._db.read(work, slow=True)

    async def standing(self, job_id: str) -> Standing | None:
        async def work(tx: Tx) -> Standing | None:
            job = await _job(tx, job_id)
            if job is None:
                return None
            now = self._db.now()
            live = list(starmap(ListedRunRow, await tx.fetch(LIVE_OF_JOB, job_id=job_id, limit=MAX_RUNS_OF_JOB)))
            made = day_range(now, job_id=job_id)._asdict()
            done = map(finished_run, [] if live else await tx.fetch(NEWEST_OF_JOB, job_id=job_id, **made))
            run = None
            if live:
                run = await self._live(tx, job, min(live, key=_is_backfilled))
            elif (newest := next(done, None)) is not None:
                run = await self._finished(tx, job, newest)
            exceptions = await tx.fetch(EXCEPTIONS, job_id=job_id, looked_at=LOOKED_AT, limit=MAX_EXCEPTIONS, **made)
            future = [each.fire_time for each in live if each.fire_time > now]
            return Standing(
                now=now,
                job=job,
                alive=len(live),
                next_fire=min(future, default=job.next_fire_at),
                run=run,
                followed=await _followed(tx, job),
                planning_failure=(await planning_failures.current(tx, [job_id])).get(job_id),
                exceptions=tuple(finished_run(row) for row in exceptions),
            )

        return await self._db.read(work, slow=True)

    async def _finished(self, tx: Tx, job: Job, run: Run) -> DiagnosisSnapshot:
        ((_, edited, spec),) = await tx.fetch(SPECS_OF_RUNS, b=[run.id])
        flows = await tx.fetch(FLOWS_OF_TASKS, b=[run.id]) if run.origin is Origin.TASK else []
        return DiagnosisSnapshot(
            now=self._db.now(),
            job=job,
            run=run,
            spec=decode_spec(edited or spec),
            first_attempt=await _first_attempt(tx, run),
            part_of=min((flow_id for _, flow_id in flows), default=None),
        )

    async def _live(self, tx: Tx, job: Job, found: ListedRunRow) -> DiagnosisSnapshot:
        now = self._db.now()
        run = shown_run(found, now)
        spec = job.spec if found.spec is None else decode_spec(found.spec)
        task = await _task(tx, found.tenant, spec)
        workers = serving(await alive(tx), found.tenant)
        offers = [_offer(worker) for worker in workers if worker.draining_since is None]
        facts = DiagnosisSnapshot(
            now=now,
            job=job,
            run=run,
            spec=spec,
            task=task,
            priority=found.priority,
            credit=self._credit,
            first_attempt=await _first_attempt(tx, run),
            leased=any(worker.session == found.session for worker in workers),
            workers=tuple(offers),
            draining=len(workers) - len(offers),
        )
        if found.session == WEAVER:
            return msgspec.structs.replace(facts, leased=True, advancing=await _advancing(tx, run.id))
        if found.state == State.RUNNING:
            if found.preemptible is None:
                return facts
            return msgspec.structs.replace(facts, makes_room=await made_room(tx, run.id, run.token))
        more: dict[str, Any] = await _gates(tx, found, spec, task, now)
        if run.holds & Hold.OVERLAP:
            more |= await _rivals(tx, run, now)
        if run.holds & Hold.TURN:
            more["turn"] = await _turn(tx, run, now)
        if found.state == State.READY and found.due <= now < found.eligible_at and not found.attempt:
            more["day_quota"] = await self._day_quota(tx, found, now)
        if found.state == State.READY and found.eligible_at <= now:
            more["quota"] = await self._quota(tx, found.tenant)
            more["ahead"] = await self._ahead(
                tx, found, spec.need.of_kind(None if task is None else kind_of(task)), offers
            )
            more["room_made"] = await making_room(tx, run.id)
        return msgspec.structs.replace(facts, **more)

    async def _quota(self, tx: Tx, tenant: str) -> TenantQuota | None:
        limit = self._sharing.limits([tenant]).get(tenant)
        if limit is None:
            return None
        return TenantQuota(limit, (await running_quota.running(tx, [tenant])).get(tenant, 0))

    async def _day_quota(self, tx: Tx, run: RunRow, now: Micros) -> DayQuota | None:
        """Return the quota of runs per day if it may be what a run waits for; None otherwise. A run that the quota
        delays becomes eligible at midnight UTC."""
        limit = self._quotas.by_tenant.get(run.tenant, NO_QUOTAS).runs_per_day
        if limit is None or run.eligible_at % DAY:
            return None
        return DayQuota(limit, await runs_of_today(tx, run.tenant, now))

    async def _ahead(self, tx: Tx, run: RunRow, need: Need, offers: list[WorkerOffer]) -> RunsAhead:
        """Count the waiting runs of the same tenant with a better rank than this run, as far as a worker that can
        execute this run could execute them, too.
        """
        mine = rank(run.eligible_at, run.priority, self._credit)
        place = {"fire_time": run.fire_time, "id": run.id, "limit": MAX_COUNTED + 1}
        rivals = able(need, offers)
        counted: dict[int, int] = {}
        if run.tenant == DEFAULT_TENANT and any(worker.idle.suits(PLAIN) for worker in rivals):
            levels = [(level, mine + level * self._credit) for level in LEVELS]
            counted = dict(await tx.fetch(AHEAD_FOR_ALL_KINDS, b=levels, **place))
        levels_of = {
            profile: int(profile.partition("|")[0])
            for profile in await profiles_of(tx, run.tenant, MAX_KINDS)
            if any(worker.idle.fits(placement.need_of(profile)) for worker in rivals)
        }
        if levels_of:
            kinds = [(profile, mine + level * self._credit) for profile, level in levels_of.items()]
            for profile, count in await tx.fetch(AHEAD_FOR_SOME_KINDS, b=kinds, **place):
                counted[levels_of[profile]] = counted.get(levels_of[profile], 0) + count
        higher = sum(count for level, count in counted.items() if level > run.priority)
        return RunsAhead(higher, sum(counted.values()) - higher)


def _is_backfilled(run: RunRow) -> bool:
    """True if the run belongs to a backfill: a sort key, because the diagnosis of a job explains its other runs
    first."""
    return run.origin == Origin.BACKFILL


async def _finished_run(tx: Tx, run_id: str) -> Run | None:
    return next(map(finished_run, await tx.fetch(FINISHED_RUNS, b=[run_id])), None)


async def _job(tx: Tx, job_id: str) -> Job | None:
    return next(iter(readable(await tx.fetch(JOBS_BY_ID, b=[job_id]))), None)


async def _task(tx: Tx, tenant: str, spec: JobSpec) -> Task | None:
    if spec.task_id is None:
        return None if isinstance(spec.task, Workflow) else spec.task
    rows = await tx.fetch(TASK, tenant=tenant, id=plain(spec.task_id))
    return next((_decode_task(encoded) for _, _, encoded, _, _ in rows), None)


async def _advancing(tx: Tx, run_id: str) -> WorkflowPosition | None:
    flow = next(starmap(WorkflowRunRow, await tx.fetch(FLOW_BY_ID, id=run_id)), None)
    if flow is None:
        return None
    rows = await tx.fetch(RUNNING_TASKS, id=run_id, limit=MAX_HOLDERS)
    return WorkflowPosition(flow.tasks, flow.open, tuple((name, task_run) for name, task_run in rows))


async def _first_attempt(tx: Tx, run: Run) -> Attempt | None:
    rows = await tx.fetch(FIRST_ATTEMPTS, b=[run.id]) if run.attempt else []
    return next((attempt_of(found) for found in starmap(AttemptRow, rows)), None)


def _offer(worker: WorkerRecord) -> WorkerOffer:
    left = worker.offer
    left.take(worker.used)
    return WorkerOffer(name=worker.name, idle=worker.offer, left=left, functions=frozenset(worker.tasks))


async def _rivals(tx: Tx, run: Run, now: int) -> dict[str, Any]:
    """Return two facts: the run of the same job that blocks this run, if there is one, and the number of the job's runs
    that wait before it."""
    others = [live_run(row, now) for row in await tx.fetch(LIVE_OF_JOB, job_id=run.job_id, limit=MAX_RUNS_OF_JOB)]
    held = [other for other in others if other.holds & Hold.OVERLAP]
    before = [other for other in held if (other.fire_time, other.id) < (run.fire_time, run.id)]
    rivals = (other for other in others if not other.holds & Hold.OVERLAP and other.origin is not Origin.BACKFILL)
    return {"rival": next(rivals, None), "waiting_before": len(before)}


async def _turn(tx: Tx, run: Run, now: int) -> Turn:
    place = {"tenant": run.tenant, "ordering_key": run.ordering_key}
    holder: str | None = scalar(await tx.fetch(TURN_HOLDER, **place))
    ((before,),) = await tx.fetch(BEFORE_IN_TURN, **place, fire_time=run.fire_time, id=run.id, limit=MAX_COUNTED + 1)
    if holder is None:
        return Turn(None, before)
    for row in await tx.fetch(LIVE_RUNS, b=[holder]):
        return Turn(live_run(row, now), before)
    return Turn(await _finished_run(tx, holder), before)


async def _gates(tx: Tx, run: RunRow, spec: JobSpec, task: Task | None, now: int) -> dict[str, Any]:
    """Return the state of the concurrency key, the rate limit and the target host of a run."""
    facts: dict[str, Any] = {}
    host = None if task is None else host_of(task)
    names = {
        "permits": None if spec.concurrency is None else limit_gate(spec.concurrency.key),
        "tokens": None if spec.rate_limit is None else rate_gate(spec.rate_limit.key),
        "target": None if host is None else host_gate(host),
    }
    wanted = [(run.tenant, name) for name in names.values() if name is not None]
    found = starmap(GateRow, await tx.fetch(GATES, b=wanted) if wanted else [])
    rows = {row.gate: row for row in found}
    if spec.concurrency is not None and (gate := names["permits"]) is not None:
        ((_, _, taken),) = await tx.fetch(PERMITS, b=[(run.tenant, gate)])
        holders = await tx.fetch(PERMIT_HOLDERS, tenant=run.tenant, permit=gate, limit=MAX_HOLDERS)
        ids = tuple(run_id for (run_id,) in holders)
        facts["permits"] = Permits(spec.concurrency.key, spec.concurrency.limit, taken, ids)
    if spec.rate_limit is not None and (row := rows.get(names["tokens"] or "")) is not None:
        facts["tokens"] = Tokens(spec.rate_limit.key, spec.rate_limit.bucket(row.spent_until, now))
    if host is not None and (row := rows.get(names["target"] or "")) is not None:
        facts["target"] = CalledHost(host, Circuit(row.failures, row.open_until, row.rests, row.probe))
    if run.gate is not None and run.gate_rank is not None:
        place = {"gate": run.gate, "gate_rank": run.gate_rank, "id": run.id}
        ((before,),) = await tx.fetch(BEFORE_AT_GATE, tenant=run.tenant, **place, limit=MAX_COUNTED + 1)
        facts["gate_before"] = before
    return facts
