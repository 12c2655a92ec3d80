"""Jobs that follow other jobs: find the followed job, and read the upstream events."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from timeball.domain.errors import InvalidSchedule
from timeball.domain.job.job import Job, JobSpec
from timeball.domain.planning.planning import MAX_INSTANTS
from timeball.operation.context import OperationContext
from timeball.ports.store.jobs import JobFilter

_ALIVE = frozenset({"scheduled", "paused", "completed"})


async def with_upstream_events(context: OperationContext, jobs: Sequence[Job]) -> list[Job]:
    """Return the same jobs, with the upstream events of those that follow another job: at most `MAX_INSTANTS` + 1 per
    job, one more than a plan handles. The store is read only if there are such jobs."""
    following = [job.id for job in jobs if job.spec.follows is not None]
    if not following:
        return list(jobs)
    waiting = await context.store.upstream_events(following, MAX_INSTANTS + 1)
    return [job.with_(upstream_events=waiting[job.id]) if job.id in waiting else job for job in jobs]


async def followed(context: OperationContext, tenant: str, named: str) -> str:
    """Return the id of the job to follow, which is named by its id or its name. Raise `InvalidSchedule` if there is no
    such job, if it was cancelled, or if several have the name."""
    found = (await context.store.jobs([named])).get(named)
    if found is not None and found.job.tenant == tenant:
        if found.status == "cancelled":
            raise InvalidSchedule(f"job {named} was cancelled: none of its runs will end", "/schedule/job")
        return named
    alike = (await context.store.list_jobs(JobFilter(tenant=tenant, name=named, status=_ALIVE), None, 2)).items
    if not alike:
        raise InvalidSchedule(f"there is no job {named!r} to follow", "/schedule/job")
    if len(alike) > 1:
        raise InvalidSchedule(f"more than one job has the name {named!r}: use the id of one", "/schedule/job")
    return alike[0].job.id


def pointed_at(spec: JobSpec, job_id: str) -> JobSpec:
    """Return a spec whose follow rule names the other job by its id."""
    assert spec.follows is not None
    return structs.replace(spec, schedule=structs.replace(spec.follows, job=job_id))
