"""Warnings for jobs whose labels or resources none of the current workers has."""

from __future__ import annotations

from collections.abc import Sequence

from timeball.domain.diagnosis import worker_match
from timeball.domain.diagnosis.worker_match import WorkerOffer
from timeball.domain.dispatch.placement import Need
from timeball.domain.errors import Unavailable
from timeball.domain.job.job import JobSpec
from timeball.domain.task.task import Python, kind_of
from timeball.domain.workflow.definition import Workflow
from timeball.operation.context import OperationContext
from timeball.ports.store.workers import WorkerRecord

_Known = dict[tuple[str, Need, str | None, str | None], tuple[str, ...]]
"""Warnings by tenant, requirements, function and task kind."""


async def warn(context: OperationContext, jobs: Sequence[tuple[str, JobSpec]]) -> list[tuple[str, ...]]:
    """Return warnings for each job, given by tenant and spec. The workers are read only if a job has special
    requirements. A failure to read them is ignored, because warnings are optional."""
    if all(spec.profile is None or spec.is_workflow for _, spec in jobs):
        return [()] * len(jobs)
    try:
        workers = await context.store.workers()
    except Unavailable:
        return [()] * len(jobs)
    tenants = {tenant for tenant, _ in jobs}
    serving = {
        tenant: [_offer(each.for_tenant(tenant)) for each in workers if each.serves(tenant)] for tenant in tenants
    }
    known: _Known = {}
    return [
        () if spec.profile is None or spec.is_workflow else _warnings(tenant, spec, serving[tenant], known)
        for tenant, spec in jobs
    ]


def _warnings(tenant: str, spec: JobSpec, alive: Sequence[WorkerOffer], known: _Known) -> tuple[str, ...]:
    function = spec.task.function if isinstance(spec.task, Python) else None
    kind = None if spec.task is None or isinstance(spec.task, Workflow) else kind_of(spec.task)
    asked = (tenant, spec.need, function, kind)
    if asked not in known:
        reason = worker_match.lacking(spec.need, function, alive, kind)
        known[asked] = () if reason is None else (f"{reason.text} {reason.unblocks}",)
    return known[asked]


def _offer(worker: WorkerRecord) -> WorkerOffer:
    return WorkerOffer(name=worker.name, idle=worker.offer, left=worker.offer, functions=frozenset(worker.tasks))
