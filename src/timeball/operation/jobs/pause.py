"""Pause the schedule of a job, and resume it. Runs that are due already are not affected."""

from __future__ import annotations

from collections.abc import Sequence

from timeball.domain.errors import Conflict, Invalid
from timeball.domain.instant import Micros, render
from timeball.domain.job.job import Job, JobState
from timeball.operation.context import OperationContext
from timeball.operation.find import find_job
from timeball.operation.jobs.amend import Decide, amend
from timeball.operation.jobs.amend_together import amend_together
from timeball.operation.jobs.job_result import JobResult
from timeball.ports.store.jobs import Amendment, JobStatus
from timeball.ports.wakeups import Topic


async def pause(
    context: OperationContext, tenant: str, job_id: str, *, reason: str = "", until: Micros | None = None
) -> JobStatus:
    """Pause a job: no fire happens after the acknowledgement. The catch-up rule handles the fires of the pause when a
    user resumes the job, or when the pause ends at `until`."""

    await amend(context, tenant, job_id, _pausing(reason, until))
    if until is not None:
        context.wakeups.wake(Topic.PAUSE)
    return await find_job(context, tenant, job_id)


async def pause_jobs(
    context: OperationContext, tenant: str, job_ids: Sequence[str], *, reason: str, until: Micros | None
) -> list[JobResult]:
    decide = _pausing(reason, until)
    results, _ = await amend_together(
        context, tenant, job_ids, decide, lambda job_id: amend(context, tenant, job_id, decide)
    )
    if until is not None:
        context.wakeups.wake(Topic.PAUSE)
    return results


def _pausing(reason: str, until: Micros | None) -> Decide:
    def decide(job: Job, now: Micros) -> Amendment | None:
        _check_alive(job)
        if (job.state, job.pause_reason, job.paused_until) == (JobState.PAUSED, reason, until):
            return None
        if until is not None and until <= now:
            raise over(until)
        return Amendment(
            job=job,
            spec=job.spec,
            state=JobState.PAUSED,
            keep_schedule=True,
            pause_reason=reason,
            paused_until=until,
        )

    return decide


def over(until: Micros) -> Invalid:
    """Return the error for a pause whose end, `until`, has passed."""
    return Invalid(f"{render(until)} has passed; a pause ends in the future, or when the job is resumed", "/until")


async def resume(context: OperationContext, tenant: str, job_id: str) -> JobStatus:
    await amend(context, tenant, job_id, _resuming)
    context.wakeups.wake(Topic.BACKFILL)
    return await find_job(context, tenant, job_id)


async def resume_jobs(context: OperationContext, tenant: str, job_ids: Sequence[str]) -> list[JobResult]:
    results, _ = await amend_together(
        context, tenant, job_ids, _resuming, lambda job_id: amend(context, tenant, job_id, _resuming)
    )
    context.wakeups.wake(Topic.BACKFILL)
    return results


def _resuming(job: Job, now: Micros) -> Amendment | None:
    _check_alive(job)
    return None if job.state is JobState.ACTIVE else _resumption(job)


async def end_pauses(context: OperationContext, jobs: Sequence[Job]) -> None:
    """Resume jobs whose pause is over. A job that was changed at the same time is left as it is: the change wins."""
    await context.store.amend([_resumption(job) for job in jobs])
    context.wakeups.wake(Topic.PLAN)


def _check_alive(job: Job) -> None:
    if job.state is JobState.CANCELLED:
        raise Conflict(f"job {job.id} was cancelled; that is final")


def _resumption(job: Job) -> Amendment:
    return Amendment(job=job, spec=job.spec, state=JobState.ACTIVE, keep_schedule=True)
