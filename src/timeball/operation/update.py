"""Update a live job. Fires up to now follow the old version, every later one the new."""

from __future__ import annotations

from collections.abc import Callable

from timeball.domain import schedule
from timeball.domain.errors import Conflict, Invalid, InvalidSchedule, PreconditionFailed
from timeball.domain.instant import Micros
from timeball.domain.job import Job, JobSpec, JobState
from timeball.operation.amend import amend
from timeball.operation.context import Context
from timeball.operation.find import find_job
from timeball.ports.store import Amendment, JobStatus


async def update(
    context: Context,
    tenant: str,
    job_id: str,
    change: Callable[[JobSpec], JobSpec],
    *,
    if_match: int | None = None,
) -> JobStatus:
    """Replace the job's spec by what `change` makes of it. An update that changes nothing is no new version."""
    task_id = change((await find_job(context, tenant, job_id)).job.spec).task_id
    if task_id is not None and await context.store.task(tenant, task_id) is None:
        raise Invalid(f"there is no registered task {task_id!r}", "/taskId")

    def decide(job: Job, now: Micros) -> Amendment | None:
        if if_match is not None and job.version != if_match:
            raise PreconditionFailed(f"job {job_id} is at version {job.version}, not {if_match}; read it again")
        if job.state is JobState.CANCELLED:
            raise Conflict(f"job {job_id} was cancelled; that is final. Create a new one")
        spec = change(job.spec)
        return None if spec == job.spec else _amendment(job, spec, now)

    await amend(context, tenant, job_id, decide)
    return await find_job(context, tenant, job_id)


def _amendment(job: Job, spec: JobSpec, now: Micros) -> Amendment:
    renamed = job.with_(spec=spec)
    if schedule.same_instants(spec.schedule, job.spec.schedule, renamed.spread, job.spread):
        return Amendment(job=job, spec=spec, state=job.state, keep_schedule=True, pause_reason=job.pause_reason)
    first = schedule.first(spec.schedule, now, renamed.spread)
    if first is None:
        raise InvalidSchedule("this schedule never fires", "/schedule/expression")
    return Amendment(
        job=job,
        spec=spec,
        state=job.state,
        keep_schedule=False,
        next_fire_at=first,
        anchor=now,
        pause_reason=job.pause_reason,
    )
