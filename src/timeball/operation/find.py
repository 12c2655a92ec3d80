"""Find what a request names, or say that there is no such thing: another tenant's is none."""

from __future__ import annotations

from timeball.domain.errors import NotFound
from timeball.domain.run import Run
from timeball.operation.context import Context
from timeball.ports.store import JobStatus


async def find_job(context: Context, tenant: str, job_id: str) -> JobStatus:
    found = (await context.store.jobs([job_id])).get(job_id)
    if found is None or found.job.tenant != tenant:
        raise NotFound("job", job_id)
    return found


async def find_run(context: Context, tenant: str, run_id: str) -> Run:
    found = (await context.store.runs([run_id])).get(run_id)
    if found is None or found.tenant != tenant:
        raise NotFound("run", run_id)
    return found
