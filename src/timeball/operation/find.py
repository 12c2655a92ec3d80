"""Find the job or the run that a request names. Raise `NotFound` if it does not exist or belongs to another tenant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct, structs

from timeball.domain.errors import Conflict, NotFound
from timeball.domain.job.job import JobState
from timeball.domain.planning.planning_failure import warning
from timeball.domain.run.run import Attempt, Run
from timeball.operation.context import OperationContext
from timeball.ports.store.jobs import JobStatus
from timeball.ports.store.queries import LogLine


async def find_job(context: OperationContext, tenant: str, job_id: str) -> JobStatus:
    found = (await context.store.jobs([job_id])).get(job_id)
    if found is None:
        await _refuse_unreadable(context, tenant, job_id)
    if found is None or found.job.tenant != tenant:
        raise NotFound("job", job_id)
    return found


async def _refuse_unreadable(context: OperationContext, tenant: str, job_id: str) -> None:
    """Raise `Conflict` for a job that exists but that this version of Timeball cannot decode."""
    failure = (await context.store.planning_failures([job_id])).get(job_id)
    if failure is not None and failure.tenant == tenant:
        raise Conflict(f"job {job_id} cannot be read by this version of Timeball: {failure.reason}")


async def find_scheduled(context: OperationContext, tenant: str, job_id: str) -> JobStatus:
    """Return the job, like `find_job`, with a warning if the job cannot be planned."""
    found = await find_job(context, tenant, job_id)
    if found.job.state is not JobState.ACTIVE or found.job.plan_at is None:
        return found
    failure = (await context.store.planning_failures([job_id])).get(job_id)
    return found if failure is None else structs.replace(found, warnings=(*found.warnings, warning(failure)))


async def find_run(context: OperationContext, tenant: str, run_id: str) -> Run:
    found = (await context.store.runs([run_id])).get(run_id)
    if found is None or found.tenant != tenant:
        raise NotFound("run", run_id)
    return found


Logs = Callable[[str, int | None, int, int], Awaitable[list[LogLine]]]
"""A function with the parameters of `ReadStore.logs`."""


class Found(Struct, frozen=True):
    """A run from the store or from the archive."""

    run: Run
    attempts: Callable[[], Awaitable[list[Attempt]]]
    """Reads the attempts before the last one."""
    archived_logs: Logs | None = None
    """Reads the output of an archived run, which does not change any more. None for a run in the store."""

    @property
    def is_archived(self) -> bool:
        return self.archived_logs is not None


async def find_run_anywhere(context: OperationContext, tenant: str, run_id: str) -> Found:
    """Return the run from the store or from the archive."""
    store, archive = context.store, context.archive
    try:
        run = await find_run(context, tenant, run_id)
    except NotFound:
        found = None if archive is None else await archive.run(tenant, run_id)
        if archive is None or found is None:
            raise
        earlier = found.attempts

        async def attempts() -> list[Attempt]:
            return earlier

        return Found(found.run, attempts, partial(archive.logs, tenant))
    return Found(run, lambda: store.attempts(run.id))
