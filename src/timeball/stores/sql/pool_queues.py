"""The queues of slot pools that are in use, as the last claim of this server left them.

A claim moves a run whose pool is full into the queue of the pool. While a herd of such runs waits, further runs of the
same sort are inserted into the queue at once, which costs half as much as to move each. This is only a hint: a run in a
queue is claimed like one that a claim has moved there.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import structs

from timeball.domain.dispatch.claim_rooms import TaskSort
from timeball.domain.job.job import JobSpec
from timeball.domain.run.run import NewRun
from timeball.domain.task.task import Python, kind_of
from timeball.domain.workflow.definition import Workflow

Queues = Mapping[tuple[TaskSort, int], str]
"""Placement profiles of runs without other requirements that wait for a free slot of their pool, by sort and
priority."""
NO_QUEUES: Final[Queues] = MappingProxyType({})


class PoolQueues:
    def __init__(self) -> None:
        self._queues: Queues = NO_QUEUES

    def __bool__(self) -> bool:
        """True if there are queues that a new run may have to join."""
        return bool(self._queues)

    def claimed(self, found: Queues, crowded: bool) -> None:
        """Record the queues into which a claim has moved runs. `crowded`: runs wait for a free slot of their pool."""
        if not crowded:
            self._queues = NO_QUEUES
        elif found:
            self._queues = {**self._queues, **found}

    def join(self, run: NewRun, spec: JobSpec) -> NewRun:
        """Return a new run of a job, with the queue that it joins, if there is one."""
        task = spec.task
        if run.profile is not None or task is None or isinstance(task, Workflow):
            return run
        sort = kind_of(task), task.function if isinstance(task, Python) else None
        queue = self._queues.get((sort, run.priority))
        return run if queue is None else structs.replace(run, profile=queue)
