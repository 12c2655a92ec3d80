"""Replay: execute a finished run once more, with the current spec of its job. The new run is linked to the old one and
does not affect the schedule."""

from __future__ import annotations

from collections.abc import Sequence

from timeball.domain import ids
from timeball.domain.errors import Conflict, Invalid, NotFound, TimeballError
from timeball.domain.instant import Micros
from timeball.domain.job.edit import Edit
from timeball.domain.job.job import Job, JobState
from timeball.domain.run.ledger import Origin
from timeball.domain.run.run import NewRun, Run, new_run
from timeball.domain.run.status import TERMINAL, Status
from timeball.operation.context import OperationContext
from timeball.operation.find import find_job, find_run_anywhere
from timeball.operation.runs.bulk_item_result import BulkItemResult
from timeball.operation.runs.retry_run import RETRYABLE, check_task, edited_spec, in_order
from timeball.operation.runs.wake_for_new_runs import wake_for_new_runs
from timeball.ports.store.queries import Match


async def replay_run(
    context: OperationContext, tenant: str, run_id: str, edit: Edit | None = None
) -> tuple[str, Status]:
    """Replay a run. Return the id and the status of the new run. By the overlap policy it is queued, waits for a live
    run, or is skipped because of one."""
    await check_task(context, tenant, edit)
    found = await find_run_anywhere(context, tenant, run_id)
    old = found.run
    if not old.is_terminal:
        raise Conflict(f"run {run_id} is {old.status}; only a run that has ended can be replayed")
    if old.origin is Origin.TASK:
        raise Conflict(f"run {run_id} is a task of a workflow run; replay that")
    try:
        job = (await find_job(context, tenant, old.job_id)).job
    except NotFound:
        if not found.is_archived:
            raise
        raise Conflict(
            f"run {run_id} is in the archive, and its job {old.job_id} is gone; create a new one to run it again"
        ) from None
    now = context.store.now()
    new_id = ids.run(now, context.rng)
    run = await _replay(context, job, new_id, run_id, edit, now)
    [status] = await context.store.trigger([run])
    if status is None:
        raise _cancelled(job.id)
    wake_for_new_runs(context, [job])
    return run.id, status


async def retry_archived(
    context: OperationContext, tenant: str, old: Run, edit: Edit | None = None
) -> tuple[str, Status]:
    """Retry an archived run by a replay: a run that has left the store cannot be marked as retried."""
    if old.status not in RETRYABLE:
        raise Conflict(f"run {old.id} is {old.status}; only a run that did not succeed can be retried")
    if old.retried_as is not None:
        raise Conflict(f"run {old.id} was already retried, as {old.retried_as}")
    return await replay_run(context, tenant, old.id, edit)


async def replay_runs(
    context: OperationContext, tenant: str, matches: Sequence[Match], since: str, edit: Edit | None = None
) -> list[BulkItemResult]:
    """Replay runs in one transaction. Return one result per run, in order. The result is an error for a run that has
    not ended, belongs to a cancelled job, was replayed since `since`, or has no room by the overlap policy."""
    await check_task(context, tenant, edit)
    jobs = await context.store.jobs([match.job_id for match in matches])
    now = context.store.now()
    results: dict[str, BulkItemResult] = {}
    pairs: list[tuple[str, NewRun]] = []
    for match, run_id in zip(matches, in_order(context, len(matches), now), strict=True):
        job = jobs[match.job_id].job if match.job_id in jobs else None
        if match.status not in TERMINAL:
            refused = Conflict(f"run {match.run_id} is {match.status}; only a run that has ended can be replayed")
            results[match.run_id] = BulkItemResult(match.run_id, error=refused)
        elif job is None or job.state is JobState.CANCELLED:
            results[match.run_id] = BulkItemResult(match.run_id, error=_cancelled(match.job_id))
        else:
            try:
                pairs.append((match.run_id, await _replay(context, job, run_id, match.run_id, edit, now)))
            except Invalid as error:
                results[match.run_id] = BulkItemResult(match.run_id, error=error)
    statuses = await context.store.replay(pairs, since)
    for (old_id, run), status in zip(pairs, statuses, strict=True):
        results[old_id] = _result(old_id, run.id, status)
    wake_for_new_runs(context, (found.job for found in jobs.values()))
    return [results[match.run_id] for match in matches]


async def _replay(
    context: OperationContext, job: Job, run_id: str, old_id: str, edit: Edit | None, now: Micros
) -> NewRun:
    if job.state is JobState.CANCELLED:
        raise _cancelled(job.id)
    edited = await edited_spec(context, run_id, None if edit is None else job.spec, edit)
    return new_run(job, run_id, Origin.REPLAY, now, now, retry_of=old_id, edited=edited)


def _result(old_id: str, run_id: str, status: Status | None) -> BulkItemResult:
    match status:
        case None:
            return BulkItemResult(
                old_id, error=Conflict(f"run {old_id} was replayed already, or its job was cancelled")
            )
        case Status.SKIPPED:
            detail = "its job's overlap policy leaves no room beside the runs that are alive"
            return BulkItemResult(old_id, error=Conflict(f"run {old_id} cannot be replayed now: {detail}"))
        case _:
            return BulkItemResult(old_id, run_id)


def _cancelled(job_id: str) -> TimeballError:
    return Conflict(f"job {job_id} was cancelled; it cannot run any more")
