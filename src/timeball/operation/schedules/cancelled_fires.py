"""Recall which instants that are to be planned have their verdict already."""

from __future__ import annotations

from collections.abc import Sequence

from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.planning import planning
from timeball.operation.context import Context


async def cancelled_fires(context: Context, jobs: Sequence[Job]) -> dict[str, frozenset[Micros]]:
    """The instants of each job that were cancelled before an edit let its schedule begin anew, or executed while the
    store's clock was ahead. Jobs that were not edited lately, in a store whose clock was not, have none."""
    until = context.store.verdicts_until()
    edited = [job for job in jobs if planning.begins_anew(job) or (job.next_fire_at or until) < until]
    return await context.store.cancelled_ahead(edited) if edited else {}
