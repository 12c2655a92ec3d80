"""The queues of slot pools that are in use, as the last claim of this server left them.

A claim moves a run whose pool is full into the queue of the pool. While such runs wait, further due runs of the same
sort (task kind and Python function) are inserted directly into the queue, which costs half as much as to move each of
them later. This is only a hint: a run in a queue is claimed like one that a claim has moved there, in the order of its
rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final

from msgspec import structs

from timeball.domain.dispatch.claim_rooms import TaskSort
from timeball.domain.dispatch.placement import need_of
from timeball.domain.dispatch.slot_pools import PoolRoom
from timeball.domain.job.job import JobSpec
from timeball.domain.run.run import NewRun
from timeball.domain.task.task import Python, kind_of
from timeball.domain.workflow.definition import Workflow

Queues = Mapping[tuple[TaskSort, int], str]
"""Placement profiles of runs without other requirements that wait for a free slot of their pool, by their sort (task
kind and Python function) and their priority."""
NO_QUEUES: Final[Queues] = MappingProxyType({})
MAX_QUEUES: Final = 64
"""Maximum number of sorts and priorities whose new runs join a queue, because each claim compares them with each
worker."""
MAX_JOINED: Final = 1_000
"""Maximum number of runs that join queues before the next claim: a server without workers makes no claim that finds the
queues empty."""


class PoolQueues:
    def __init__(self) -> None:
        self._queues: Queues = NO_QUEUES
        self._joined = 0

    def __bool__(self) -> bool:
        """True if there are queues that a new run may have to join."""
        return bool(self._queues)

    def claimed(self, found: Queues, crowded: bool, rooms: Iterable[PoolRoom | None]) -> None:
        """Record the queues into which a claim has moved runs. If no run waits for a free slot of its pool any more
        (not `crowded`), forget all queues. `rooms` are those of the workers of the claim. If one of these workers has
        runs of a sort in another pool, or in none, new runs of that sort join no queue, so that each claim finds out
        which workers may execute them."""
        self._joined = 0
        if not (crowded and (found or self._queues)):
            self._queues = NO_QUEUES
            return
        known = islice({**self._queues, **found}.items(), MAX_QUEUES)
        bounds = [None if room is None else room.pools for room in rooms]
        self._queues = {
            (sort, level): queue
            for (sort, level), queue in known
            if all(pools is not None and pools.of(*sort) == need_of(queue).pool for pools in bounds)
        }

    def join(self, run: NewRun, spec: JobSpec) -> NewRun:
        """Return a new run of a job, with the queue that it joins as its placement profile; unchanged if it joins
        none."""
        task = spec.task
        is_due = run.eligible_at <= run.created_at
        if run.profile is not None or not is_due or task is None or isinstance(task, Workflow):
            return run
        sort = kind_of(task), task.function if isinstance(task, Python) else None
        queue = self._queues.get((sort, run.priority))
        if queue is None or self._joined >= MAX_JOINED:
            return run
        self._joined += 1
        return structs.replace(run, profile=queue)
