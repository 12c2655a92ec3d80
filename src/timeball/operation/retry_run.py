"""Retry by hand: hurry a waiting retry, or follow a finished run with a new one that is linked to it."""

from __future__ import annotations

from timeball.domain.errors import Conflict
from timeball.domain.ledger import Origin
from timeball.domain.run import Run, Status
from timeball.operation.context import Context
from timeball.operation.find import find_job, find_run
from timeball.operation.run_now import manual_run
from timeball.ports.hints import Topic


async def retry_run(context: Context, tenant: str, run_id: str) -> Run:
    """The run that will execute now: the same one if it waited for its backoff, else a new one."""
    run = await find_run(context, tenant, run_id)
    if run.retried_as is not None:
        return await find_run(context, tenant, run.retried_as)
    if run.status is Status.RETRYING:
        await context.store.hurry(run_id)
        context.hints.give(Topic.READY)
        return await find_run(context, tenant, run_id)
    if run.status not in (Status.DEAD, Status.FAILED, Status.CANCELLED, Status.SKIPPED):
        raise Conflict(f"run {run_id} is {run.status}; only a run that did not succeed can be retried")
    job = (await find_job(context, tenant, run.job_id)).job
    again = manual_run(context, job, context.store.now(), Origin.RETRY, retry_of=run_id)
    if await context.store.repeat(run_id, again) is None:
        run = await find_run(context, tenant, run_id)
        if run.retried_as is None:
            raise Conflict(f"run {run_id} can no longer be retried")
        return await find_run(context, tenant, run.retried_as)
    context.hints.give(Topic.READY)
    context.hints.give(Topic.PLAN)
    return await find_run(context, tenant, again.id)
