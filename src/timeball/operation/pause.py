"""Pause a job's schedule, and resume it. Runs that already fell due are not touched."""

from __future__ import annotations

from timeball.domain.errors import Conflict
from timeball.domain.instant import Micros
from timeball.domain.job import Job, JobState
from timeball.operation.amend import amend
from timeball.operation.context import Context
from timeball.operation.find import find_job
from timeball.ports.store import Amendment, JobStatus


async def pause(context: Context, tenant: str, job_id: str, *, reason: str = "") -> JobStatus:
    """No fire after the acknowledgement; what falls due meanwhile is for the catch-up rule when it is resumed."""
    return await _switch(context, tenant, job_id, JobState.PAUSED, reason)


async def resume(context: Context, tenant: str, job_id: str) -> JobStatus:
    return await _switch(context, tenant, job_id, JobState.ACTIVE, "")


async def _switch(context: Context, tenant: str, job_id: str, to: JobState, reason: str) -> JobStatus:
    def decide(job: Job, now: Micros) -> Amendment | None:
        if job.state is JobState.CANCELLED:
            raise Conflict(f"job {job_id} was cancelled; that is final")
        if job.state is to and job.pause_reason == reason:
            return None
        return Amendment(job=job, spec=job.spec, state=to, keep_schedule=True, pause_reason=reason)

    await amend(context, tenant, job_id, decide)
    return await find_job(context, tenant, job_id)
