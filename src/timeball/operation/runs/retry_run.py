"""Retry by a user: start a waiting retry at once, or create a new run that takes the place of a finished one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET

from timeball.domain import ids
from timeball.domain.errors import Conflict, Invalid, NotFound, TimeballError
from timeball.domain.instant import Micros
from timeball.domain.job.edit import Edit
from timeball.domain.job.job import Job, JobSpec, JobState
from timeball.domain.run.ledger import Origin
from timeball.domain.run.run import NewRun, Run, new_run
from timeball.domain.run.status import SUCCESSFUL, TERMINAL, Status
from timeball.operation.context import OperationContext
from timeball.operation.find import find_run
from timeball.operation.jobs.check_tasks import refused_task
from timeball.operation.runs.bulk_item_result import BulkItemResult
from timeball.operation.runs.wake_for_new_runs import wake_for_new_runs
from timeball.ports.store.queries import Match
from timeball.ports.wakeups import Topic

RETRYABLE: Final = TERMINAL - SUCCESSFUL | {Status.RETRYING}


async def retry_run(context: OperationContext, tenant: str, run_id: str, edit: Edit | None = None) -> Run:
    """Retry a run. Return the run that takes over: the same one if it waited for its retry delay, which ends now, or
    else a new one. Without an edit, a second retry of a run returns the run of the first retry."""
    run = await find_run(context, tenant, run_id)
    [result] = await retry_runs(context, tenant, [Match(run_id, run.job_id, run.fire_time, run.status)], edit)
    if result.successor is not None:
        return await find_run(context, tenant, result.successor)
    run = await find_run(context, tenant, run_id)
    if run.retried_as is not None and edit is None:
        return await find_run(context, tenant, run.retried_as)
    assert result.error is not None
    raise result.error


async def retry_runs(
    context: OperationContext,
    tenant: str,
    matches: Sequence[Match],
    edit: Edit | None = None,
    *,
    only_dead_letters: bool = False,
) -> list[BulkItemResult]:
    """Retry runs: one transaction ends the retry delays of waiting runs, another creates the new runs. Return one
    result per run, in order. The result is an error for a run that is alive or succeeded, was retried already, is
    discarded (with `only_dead_letters`), belongs to a cancelled job, or has no room by the overlap policy. A retry with
    an edit executes the old spec with the changes; a run that was edited before keeps that edit."""
    await check_task(context, tenant, edit)
    results: dict[str, BulkItemResult] = {}
    waiting = [match.run_id for match in matches if match.status is Status.RETRYING and edit is None]
    for run_id, retried in zip(waiting, await context.store.retry_now(waiting), strict=True):
        if retried:
            results[run_id] = BulkItemResult(run_id, run_id)
    over = [match for match in matches if match.status in RETRYABLE and match.status is not Status.RETRYING]
    results.update(
        (result.run_id, result) for result in await _repeat(context, over, edit, only_dead_letters=only_dead_letters)
    )
    context.wakeups.wake(Topic.READY)
    return [results.get(match.run_id) or BulkItemResult(match.run_id, error=_unready(match, edit)) for match in matches]


async def check_task(context: OperationContext, tenant: str, edit: Edit | None) -> None:
    if edit is not None and edit.task_id and await context.store.task(tenant, edit.task_id) is None:
        raise Invalid(f"there is no registered task {edit.task_id!r}", "/edit/taskId")
    if edit is not None and edit.task is not UNSET and (refused := refused_task(edit.task, "/edit/task")) is not None:
        raise refused


async def _repeat(
    context: OperationContext, matches: Sequence[Match], edit: Edit | None, *, only_dead_letters: bool
) -> list[BulkItemResult]:
    jobs = await context.store.jobs([match.job_id for match in matches])
    specs = await context.store.specs([match.run_id for match in matches])
    runs = await context.store.runs([match.run_id for match in matches])
    now = context.store.now()
    pairs: list[tuple[str, NewRun]] = []
    results: list[BulkItemResult] = []
    for match, run_id in zip(matches, in_order(context, len(matches), now), strict=True):
        found = jobs.get(match.job_id)
        old = specs.get(match.run_id)
        if found is None or old is None or match.run_id not in runs:
            results.append(
                BulkItemResult(match.run_id, error=Conflict(f"what run {match.run_id} executed cannot be read"))
            )
        elif found.job.state is JobState.CANCELLED:
            results.append(
                BulkItemResult(
                    match.run_id, error=Conflict(f"job {match.job_id} was cancelled; it cannot run any more")
                )
            )
        else:
            # The retry of a workflow run has the tasks that the run had, even if its job has changed.
            own = edit is not None or old.edited or old.spec.is_workflow
            try:
                edited = await edited_spec(context, run_id, old.spec if own else None, edit)
            except Invalid as error:
                results.append(BulkItemResult(match.run_id, error=error))
                continue
            pairs.append((match.run_id, _successor(found.job, run_id, runs[match.run_id], edited, now)))
    repeat = context.store.repeat_dead_letters if only_dead_letters else context.store.repeat
    statuses = await repeat(pairs)
    wake_for_new_runs(context, (found.job for found in jobs.values()))
    refused = [old_id for (old_id, _), status in zip(pairs, statuses, strict=True) if status is None]
    unchanged = await context.store.runs(refused)
    for (old_id, run), status in zip(pairs, statuses, strict=True):
        if status is None:
            results.append(BulkItemResult(old_id, error=_refusal(old_id, unchanged.get(old_id))))
        elif status is Status.SKIPPED:
            results.append(BulkItemResult(old_id, error=_overlap(old_id)))
        else:
            results.append(BulkItemResult(old_id, run.id))
    return results


def in_order(context: OperationContext, count: int, now: Micros) -> list[str]:
    """Return ids for runs that are created at the same time, in the order in which they execute if they must wait for
    each other."""
    return sorted(ids.run(now, context.rng) for _ in range(count))


async def edited_spec(
    context: OperationContext, run_id: str, spec: JobSpec | None, edit: Edit | None
) -> JobSpec | None:
    """Return the spec of an edited run, with a copy of its large parameters: the object of the job may be deleted
    before the run ends."""
    if spec is None:
        return None
    whole = await context.large_value_store.whole(spec)
    edited = whole if edit is None else edit.apply(whole)
    return (await context.large_value_store.offload({run_id: edited}))[run_id]


def _successor(job: Job, run_id: str, old: Run, edited: JobSpec | None, now: Micros) -> NewRun:
    """Create the run that takes the place of an old one. It fires now, but a retry of a backfilled run keeps the fire
    time of that run."""
    is_for_the_past = old.origin is Origin.BACKFILL or (old.origin is Origin.RETRY and old.due_at is not None)
    fire_time = old.fire_time if is_for_the_past else now
    return new_run(job, run_id, Origin.RETRY, fire_time, now, due_at=now, retry_of=old.id, edited=edited)


def _unready(match: Match, edit: Edit | None) -> TimeballError:
    if match.status is Status.RETRYING and edit is not None:
        return Conflict(f"run {match.run_id} has attempts left; edit it when it has ended, or update its job")
    if match.status is Status.RETRYING:
        return Conflict(f"run {match.run_id} no longer waits for a retry")
    return Conflict(f"run {match.run_id} is {match.status}; only a run that did not succeed can be retried")


def _refusal(run_id: str, run: Run | None) -> TimeballError:
    if run is None:
        return NotFound("run", run_id)
    if run.origin is Origin.TASK:
        return Conflict(
            f"run {run_id} is a task of a workflow run; retry that run: it continues with the tasks that failed"
        )
    if run.retried_as is not None:
        return Conflict(f"run {run_id} was already retried, as {run.retried_as}")
    if run.discarded_at is not None:
        return Conflict(f"run {run_id} was discarded; retry it by its id if that was wrong")
    return Conflict(f"run {run_id} can no longer be retried")


def _overlap(run_id: str) -> TimeballError:
    return Conflict(
        f"run {run_id} cannot be retried now: its job's overlap policy leaves no room beside the runs that are alive;"
        " try again when they have ended"
    )
