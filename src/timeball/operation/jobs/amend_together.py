"""Change several jobs in one transaction, by the rules of a change of one job (`operation/jobs/amend.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from timeball.domain.errors import Invalid, TimeballError
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobState, is_overdue
from timeball.operation.context import OperationContext
from timeball.operation.jobs.amend import Decide
from timeball.operation.jobs.job_result import JobResult, one_by_one
from timeball.ports.store.jobs import Amended, Amendment
from timeball.ports.wakeups import Topic

BUSY: Final = 10
"""A job with this number of live runs is changed in a transaction of its own: a change reads its live runs, and may end
all of them."""


async def amend_together(
    context: OperationContext,
    tenant: str,
    job_ids: Sequence[str],
    decide: Decide,
    alone: Callable[[str], Awaitable[object]],
) -> tuple[list[JobResult], list[Amended]]:
    """Return the result of each job, in order, and the changes that were made in the common transaction.

    Some jobs are changed by `alone` instead: a job that is not found, that has a due fire to plan, that has at least
    `BUSY` live runs, that is paused and loses its schedule, or that another request changed at the same time; and all
    jobs if the store refuses the common transaction because of one of them.
    """
    results: dict[str, JobResult] = {}
    together: list[Amendment] = []
    found = await context.store.jobs(job_ids)
    busy = await context.store.busy_jobs(job_ids, BUSY)
    now = context.store.now()
    for job_id in job_ids:
        status = found.get(job_id)
        if status is None or status.job.tenant != tenant or job_id in busy or _has_due_fire(status.job, now):
            continue
        try:
            amendment = decide(status.job, now)
        except TimeballError as error:
            results[job_id] = JobResult(job_id, error)
            continue
        if amendment is None:
            results[job_id] = JobResult(job_id)
        elif amendment.keep_schedule or status.job.state is not JobState.PAUSED:
            together.append(amendment)
    amended = await _amend(context, together)
    results |= {each.job.id: JobResult(each.job.id) for each in amended}
    rest = await one_by_one([job_id for job_id in job_ids if job_id not in results], alone)
    results |= {result.job_id: result for result in rest}
    return [results[job_id] for job_id in job_ids], amended


def _has_due_fire(job: Job, now: Micros) -> bool:
    is_due = job.state is JobState.ACTIVE and job.next_fire_at is not None and job.next_fire_at <= now
    return is_due or is_overdue(job, now)


async def _amend(context: OperationContext, amendments: Sequence[Amendment]) -> list[Amended]:
    """Change the jobs in one transaction. Return the changes that took effect; an empty list if the store refuses one
    of the jobs (`Invalid`), because it then changes none."""
    try:
        answers = await context.store.amend(amendments)
    except Invalid:
        return []
    amended = [answer for answer in answers if isinstance(answer, Amended)]
    if amended:
        context.wakeups.wake(Topic.PLAN)
        context.wakeups.wake(Topic.READY)
    if any(amendment.cancel_runs for amendment in amendments):
        context.wakeups.wake(Topic.CANCEL)
        context.wakeups.wake(Topic.WORKFLOW)
    return amended
