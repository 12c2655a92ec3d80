"""Cancel jobs and runs. After the acknowledgement the run can only end as `cancelled`, and no attempt starts, unless an
unreachable worker had already received one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from timeball.domain.errors import Conflict, NotFound
from timeball.domain.instant import MILLISECOND, SECOND, Micros
from timeball.domain.job.job import Job, JobState
from timeball.domain.run.run import Run
from timeball.domain.run.status import LIVE, TERMINAL, Status
from timeball.operation.context import OperationContext
from timeball.operation.find import find_job, find_run
from timeball.operation.jobs.amend import amend
from timeball.operation.jobs.amend_together import amend_together
from timeball.operation.jobs.job_result import JobResult
from timeball.operation.runs.bulk_item_result import BulkItemResult
from timeball.ports.store.jobs import Amendment, JobStatus
from timeball.ports.store.queries import Match, RunFilter
from timeball.ports.store.runs import Cancelling
from timeball.ports.wakeups import Topic

CONFIRMATION: Final = SECOND
"""Maximum time to wait for a worker to confirm that an attempt that it just received will not start."""
CANCELLED_AT_ONCE: Final = 500
"""Maximum number of runs of a cancelled job that end in one transaction."""
_HELD: Final = frozenset({Status.RUNNING, Status.SCHEDULED})
"""The live statuses of runs that a worker may hold."""
_WAITING: Final = frozenset(LIVE) - _HELD


async def cancel_job(context: OperationContext, tenant: str, job_id: str) -> JobStatus:
    """Stop the schedule of a job and cancel its live runs. The history stays. Repeating it changes nothing."""

    await _thin_out(context, tenant, job_id)
    await amend(context, tenant, job_id, _cancellation)
    await _confirmed(context, await _held_runs(context, tenant, job_id))
    return await find_job(context, tenant, job_id)


async def cancel_jobs(context: OperationContext, tenant: str, job_ids: Sequence[str]) -> list[JobResult]:
    """Cancel jobs in one transaction, except those that `amend_together` changes one by one, such as jobs with many
    live runs."""
    results, amended = await amend_together(
        context, tenant, job_ids, _cancellation, lambda job_id: cancel_job(context, tenant, job_id)
    )
    held = [await _held_runs(context, tenant, each.job.id) for each in amended if each.cancelled]
    await _confirmed(context, [run_id for some in held for run_id in some])
    return results


def _cancellation(job: Job, now: Micros) -> Amendment | None:
    if job.state is JobState.CANCELLED:
        return None
    return Amendment(
        job=job,
        spec=job.spec,
        state=JobState.CANCELLED,
        keep_schedule=False,
        cancel_runs=True,
    )


async def _held_runs(context: OperationContext, tenant: str, job_id: str) -> list[str]:
    held = RunFilter(tenant=tenant, job_id=job_id, status=_HELD)
    return [run.id for run in (await context.store.list_runs(held, None, 1_000)).items]


async def _thin_out(context: OperationContext, tenant: str, job_id: str) -> None:
    """End the waiting runs of a job in several transactions, until the remaining runs can end in one transaction with
    the job."""
    waiting = RunFilter(tenant=tenant, job_id=job_id, status=_WAITING)
    while len(some := await context.store.match_runs(waiting, None, CANCELLED_AT_ONCE)) == CANCELLED_AT_ONCE:
        job = (await find_job(context, tenant, job_id)).job
        if job.state is JobState.CANCELLED or job.spec.is_workflow:  # runs of tasks end with their workflow run
            return
        await context.store.request_cancel([match.run_id for match in some])


async def cancel_run(context: OperationContext, tenant: str, run_id: str) -> Run:
    """Cancel a run. A waiting run ends at once. A running one stays `running` until its worker confirms or its lease
    lapses."""
    await find_run(context, tenant, run_id)
    await context.store.request_cancel([run_id])
    context.wakeups.wake(Topic.CANCEL)
    context.wakeups.wake(Topic.WORKFLOW)
    context.wakeups.wake(Topic.READY)
    context.run_events.changed([run_id])
    await _confirmed(context, [run_id])
    return await find_run(context, tenant, run_id)


async def cancel_runs(context: OperationContext, matches: Sequence[Match]) -> list[BulkItemResult]:
    """Cancel runs in one transaction: waiting ones end, and the workers of running ones are asked to stop."""
    run_ids = [match.run_id for match in matches]
    answers = await context.store.request_cancel(run_ids)
    context.wakeups.wake(Topic.CANCEL)
    context.wakeups.wake(Topic.WORKFLOW)
    context.wakeups.wake(Topic.READY)
    context.run_events.changed(run_ids)
    await _confirmed(context, [each.run_id for each in answers if each and each.token and not each.started])
    return [_result(run_id, answer) for run_id, answer in zip(run_ids, answers, strict=True)]


def _result(run_id: str, answer: Cancelling | None) -> BulkItemResult:
    if answer is None:
        return BulkItemResult(run_id, error=NotFound("run", run_id))
    if answer.status in TERMINAL and answer.status is not Status.CANCELLED:
        return BulkItemResult(
            run_id, error=Conflict(f"run {run_id} is {answer.status}; it cannot be cancelled any more")
        )
    return BulkItemResult(run_id)


async def _confirmed(context: OperationContext, run_ids: Sequence[str]) -> None:
    """Wait until the workers have confirmed for each run that it started or will not start, for at most 1 second.

    A run that has started needs no confirmation: nothing new can start.
    """
    deadline = context.clock.monotonic() + CONFIRMATION
    while run_ids and (left := deadline - context.clock.monotonic()) > 0:
        runs = await context.store.runs(run_ids)
        run_ids = [run.id for run in runs.values() if not run.is_terminal and run.token and not run.attempt_started_at]
        if run_ids:
            await context.wakeups.wait(Topic.ENDED, min(left, 20 * MILLISECOND))
