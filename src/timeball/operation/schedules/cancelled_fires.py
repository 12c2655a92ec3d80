"""Find fires that are to be planned but have a verdict already."""

from __future__ import annotations

from collections.abc import Sequence

from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.planning import planning
from timeball.operation.context import OperationContext


async def cancelled_fires(context: OperationContext, jobs: Sequence[Job]) -> dict[str, frozenset[Micros]]:
    """Return for each job the fires that were cancelled before an edit restarted its schedule, or that were executed
    while the clock of the store was ahead. The store is read only for jobs that can have such fires."""
    until = context.store.verdicts_until()
    edited = [job for job in jobs if planning.may_have_restarted(job) or (job.next_fire_at or until) < until]
    return await context.store.cancelled_ahead(edited) if edited else {}
