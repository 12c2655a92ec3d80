"""Wake the loops that have work after runs were created."""

from __future__ import annotations

from collections.abc import Iterable

from timeball.domain.dispatch.overlap import REPLACING
from timeball.domain.job.job import Job
from timeball.operation.context import OperationContext
from timeball.ports.wakeups import Topic


def wake_for_new_runs(context: OperationContext, jobs: Iterable[Job]) -> None:
    """Wake the loops after runs of these jobs were created: the runs may be claimed, may delay a fire, or may replace
    others."""
    context.wakeups.wake(Topic.READY)
    context.wakeups.wake(Topic.PLAN)
    for job in jobs:
        if job.spec.overlap in REPLACING:
            context.wakeups.wake(Topic.CANCEL)
        if job.spec.is_workflow:
            context.wakeups.wake(Topic.WORKFLOW)
