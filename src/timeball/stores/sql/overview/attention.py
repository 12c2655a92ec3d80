"""Facts about what needs attention: dead letters, failing jobs, runs that wait, lost workers, paused jobs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Final

from msgspec import structs

from timeball.domain.diagnosis.worker_match import WorkerOffer
from timeball.domain.instant import DAY, HOUR, Micros
from timeball.domain.overview.attention import (
    MAX_PER_KIND,
    AttentionFacts,
    LostWorker,
    PausedJob,
    Trouble,
    profiles_without_worker,
)
from timeball.domain.run.ledger import TOLERANCE
from timeball.domain.run.lifecycle import LEASE
from timeball.domain.run.status import GAVE_UP, RAN, Status
from timeball.domain.workflow.definition import WORKFLOW_PROFILE
from timeball.ports.store.overview import MAX_COUNTED
from timeball.stores.sql.day_ranges import day_range
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.runs.workers import alive, serves
from timeball.stores.sql.statements import literals, query
from timeball.stores.sql.tenants.scope import profiles_of, serving

DEAD_OF_JOBS = query("dead_of_jobs")
COUNT_DEAD = query("count_dead")
NEWEST_FAILURES = tuple(query("newest_failures", failed=literals([status])) for status in GAVE_UP)
LAST_ENDS = query("last_ends")
OVERDUE_RUNS = query("overdue_runs")
RUNS_OF_PROFILES = query("runs_of_profiles")
FUNCTIONS_OF_JOBS = query("functions_of_jobs")
LOST_WORKERS = query("lost_workers")
PAUSED_JOBS = query("paused_jobs")

MAX_DEAD_LETTERS: Final = 1_000
"""Maximum number of dead letters that are read for the attention list."""
MAX_FAILURES: Final = 200
"""Maximum number of runs of each status of failure that are read, newest first, to find the failing jobs."""
MAX_FAILING_JOBS: Final = 20
"""Maximum number of jobs with recent failures whose newest runs are read."""
MAX_LAST_ENDS: Final = 20
MAX_OVERDUE: Final = 1_000
MAX_LOST_WORKERS: Final = 50
MAX_PROFILES: Final = 200
MAX_FUNCTIONS: Final = 20
"""Maximum number of jobs with waiting runs whose Python function is looked up. The jobs with the most waiting runs come
first."""
MAX_RUNS_OF_PROFILE: Final = 100
FAILURE_AGE: Final = DAY
"""Microseconds. Only a failed run that fired within this time makes its job count as failing."""
LOSS_AGE: Final = HOUR
"""Microseconds for which a lost worker is listed."""


class AttentionReads(StorePart):
    async def attention_facts(self, tenant: str) -> AttentionFacts:
        async def work(tx: Tx) -> AttentionFacts:
            now = self._db.now()
            dead = await tx.fetch(DEAD_OF_JOBS, tenant=tenant, limit=MAX_DEAD_LETTERS)
            letters = sum(count for _, _, count, _, _ in dead)
            if letters >= MAX_DEAD_LETTERS:
                ((letters,),) = await tx.fetch(COUNT_DEAD, tenant=tenant, limit=MAX_COUNTED)
            failing = await _failing(tx, tenant, now)
            waiting, workers = await _waiting(tx, tenant, now)
            lost = await tx.fetch(LOST_WORKERS, since=now - LOSS_AGE, lease=LEASE, limit=MAX_LOST_WORKERS)
            paused = await tx.fetch(PAUSED_JOBS, tenant=tenant, limit=MAX_PER_KIND)
            return AttentionFacts(
                now=now,
                dead_letters=letters,
                dead=[
                    Trouble(job_id=job_id, job_name=name or "", count=count, run_id=newest, since=since)
                    for job_id, name, count, newest, since in dead
                ],
                failing=failing,
                waiting=waiting,
                lost=[LostWorker(name, seen_at) for name, seen_at, *stored in lost if serves(tenant, *stored)],
                paused=[
                    PausedJob(job_id=job_id, job_name=name, reason=reason, since=since, until=until)
                    for job_id, name, reason, since, until in paused
                ],
                workers=workers,
            )

        return await self._db.read(work, slow=True, may_lag=True)


async def _failing(tx: Tx, tenant: str, now: Micros) -> list[Trouble]:
    """Return the jobs whose newest executed run failed, each with its number of failures in a row, among the jobs of
    the newest failures."""
    since = now - FAILURE_AGE
    failed: dict[str, Micros] = {}
    for each in NEWEST_FAILURES:
        made = day_range(now, fires_from=since)._asdict()
        for job_id, at in await tx.fetch(each, tenant=tenant, since=since, limit=MAX_FAILURES, **made):
            failed[job_id] = max(at, failed.get(job_id, 0))
    newest = sorted(failed, key=lambda job_id: (-failed[job_id], job_id))[:MAX_FAILING_JOBS]
    made = day_range(now, fires_from=since - DAY)._asdict()
    ends = await tx.fetch(LAST_ENDS, b=newest, limit=MAX_LAST_ENDS, **made) if newest else []
    return [
        trouble
        for _, rows in groupby(ends, key=itemgetter(0))
        if (trouble := _failures_in_a_row(list(rows))) is not None
    ]


def _failures_in_a_row(newest_first: Iterable[Row]) -> Trouble | None:
    found: Trouble | None = None
    for job_id, name, run_id, status, finished_at in newest_first:
        if Status(status) not in RAN:
            continue
        if Status(status) not in GAVE_UP:
            break
        count, newest = (1, run_id) if found is None else (found.count + 1, found.run_id)
        found = Trouble(job_id=job_id, job_name=name, count=count, run_id=newest, since=finished_at)
    return found


async def _waiting(tx: Tx, tenant: str, now: Micros) -> tuple[list[Trouble], list[WorkerOffer]]:
    """Return the overdue runs that wait for a worker, counted by job and placement profile, and the live workers that
    serve the tenant. The workers are not read if there are neither overdue runs nor placement profiles of the
    tenant."""
    before = now - TOLERANCE
    rows = await tx.fetch(OVERDUE_RUNS, tenant=tenant, before=before, limit=MAX_OVERDUE)
    profiles = await profiles_of(tx, tenant, MAX_PROFILES)
    if not rows and not profiles:
        return [], []
    workers = [
        WorkerOffer(name=worker.name, idle=worker.offer, left=worker.offer, functions=frozenset(worker.tasks))
        for worker in serving(await alive(tx), tenant)
    ]
    if without := profiles_without_worker(profiles, workers):
        rows += await tx.fetch(RUNS_OF_PROFILES, b=without, tenant=tenant, before=before, limit=MAX_RUNS_OF_PROFILE)
    found: dict[tuple[str, str | None], Trouble] = {}
    for job_id, name, profile, count, run_id, since in rows:
        if profile != WORKFLOW_PROFILE:
            found[job_id, profile] = Trouble(
                job_id=job_id, job_name=name, count=count, run_id=run_id, since=since, profile=profile
            )
    limit = sorted(found.values(), key=lambda each: -each.count)[:MAX_FUNCTIONS]
    functions = dict(await tx.fetch(FUNCTIONS_OF_JOBS, b=[each.job_id for each in limit])) if limit else {}
    return [structs.replace(each, function=functions.get(each.job_id)) for each in found.values()], workers
