"""Run a job now, outside of its schedule, under its overlap policy."""

from __future__ import annotations

from collections.abc import Sequence

from timeball.domain import ids
from timeball.domain.errors import Conflict, NotFound
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobState
from timeball.domain.run.ledger import Origin
from timeball.domain.run.run import NewRun, new_run
from timeball.domain.run.status import Status
from timeball.operation.context import OperationContext
from timeball.operation.find import find_job
from timeball.operation.jobs.amend_together import BUSY
from timeball.operation.jobs.job_result import JobResult
from timeball.operation.runs.wake_for_new_runs import wake_for_new_runs


async def run_now(context: OperationContext, tenant: str, job_id: str) -> tuple[str, Status]:
    """Run a job. Return the id and the status of the new run. By the overlap policy it is queued, waits for a live run,
    or is skipped because of one."""
    job = (await find_job(context, tenant, job_id)).job
    now = context.store.now()
    run = _manual_run(job, ids.run(now, context.rng), now)
    [status] = await context.store.trigger([run])
    if status is None:
        raise _cancelled(job_id)
    wake_for_new_runs(context, [job])
    return run.id, status


async def run_jobs(
    context: OperationContext, tenant: str, job_ids: Sequence[str], stamp: Micros | None
) -> list[JobResult]:
    """Run jobs in one transaction, and each job with many live runs in one of its own. With a `stamp`, the ids of the
    runs are derived from it: a second call with the same stamp creates no further run of a job."""
    busy = await context.store.busy_jobs(job_ids, BUSY)
    found = await context.store.jobs(job_ids)
    now = context.store.now()
    results: dict[str, JobResult] = {}
    runs: list[NewRun] = []
    for job_id in job_ids:
        run_id = ids.run(now, context.rng) if stamp is None else ids.run(stamp, ids.Digest(f"{job_id}/{stamp}"))
        try:
            status = found.get(job_id)
            if status is None or status.job.tenant != tenant:
                status = await find_job(context, tenant, job_id)
            run = _manual_run(status.job, run_id, now)
        except (Conflict, NotFound) as error:
            results[job_id] = JobResult(job_id, error)
            continue
        if job_id in busy:
            results |= {run.job_id: _result(run, *await context.store.trigger([run]))}
        else:
            runs.append(run)
    answers = zip(runs, await context.store.trigger(runs), strict=True)
    results |= {run.job_id: _result(run, answer) for run, answer in answers}
    wake_for_new_runs(context, (status.job for status in found.values()))
    return [results[job_id] for job_id in job_ids]


def _result(run: NewRun, status: Status | None) -> JobResult:
    match status:
        case None:
            return JobResult(run.job_id, _cancelled(run.job_id))
        case Status.SKIPPED:
            detail = "its overlap policy leaves no room beside the runs that are alive"
            return JobResult(run.job_id, Conflict(f"job {run.job_id} cannot run now: {detail}"))
        case _:
            return JobResult(run.job_id)


def _manual_run(job: Job, run_id: str, now: Micros) -> NewRun:
    if job.state is JobState.CANCELLED:
        raise _cancelled(job.id)
    return new_run(job, run_id, Origin.MANUAL, now, now)


def _cancelled(job_id: str) -> Conflict:
    return Conflict(f"job {job_id} was cancelled; it cannot run any more")
