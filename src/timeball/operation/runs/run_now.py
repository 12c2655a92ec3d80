"""Run a job now, outside of its schedule, under its overlap policy."""

from __future__ import annotations

from timeball.domain import ids
from timeball.domain.errors import Conflict
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobState
from timeball.domain.run.ledger import Origin
from timeball.domain.run.run import NewRun, new_run
from timeball.domain.run.status import Status
from timeball.operation.context import OperationContext
from timeball.operation.find import find_job
from timeball.operation.runs.wake_for_new_runs import wake_for_new_runs


async def run_now(context: OperationContext, tenant: str, job_id: str) -> tuple[str, Status]:
    """Run a job. Return the id of the new run, and whether it is queued, waits for an earlier run, or was skipped for
    one."""
    job = (await find_job(context, tenant, job_id)).job
    run = manual_run(context, job, context.store.now(), Origin.MANUAL)
    [status] = await context.store.trigger([run])
    if status is None:
        raise Conflict(f"job {job_id} was cancelled; it cannot run any more")
    wake_for_new_runs(context, [job])
    return run.id, status


def manual_run(context: OperationContext, job: Job, now: Micros, origin: Origin, retry_of: str | None = None) -> NewRun:
    if job.state is JobState.CANCELLED:
        raise Conflict(f"job {job.id} was cancelled; it cannot run any more")
    return new_run(job, ids.run(now, context.dice), origin, now, now, retry_of=retry_of)
