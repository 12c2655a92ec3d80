"""Answers about workers, and about the clock of the store."""

from __future__ import annotations

from datetime import datetime

from timeball.client.models.model import Model


class InUse(Model, frozen=True):
    """The resources of a worker that its runs use."""

    slots: int = 0
    cpu: float = 0.0
    memory_mb: int = 0


class WorkerPool(Model, frozen=True):
    """How many runs of one sort a worker executes at the same time."""

    name: str = ""
    """`threads`: plain Python functions. `processes`: commands, scripts, and Python functions in processes."""
    slots: int = 0


class Worker(Model, frozen=True):
    """A worker."""

    worker_id: str = ""
    name: str = ""
    status: str = "live"
    """`live`; `draining`: it gets no new runs, and leaves when its runs have ended; `lost`: its lease ran out; `left`:
    it was stopped, or drained."""
    draining_since: datetime | None = None
    ended_at: datetime | None = None
    """The time at which the worker was lost, or left; None while its lease is valid."""
    slots: int = 0
    pools: list[WorkerPool] = []
    """Bounds for some of the runs; empty if runs of any kind may take all slots."""
    running: int = 0
    cpu: float | None = None
    memory_mb: int | None = None
    in_use: InUse = InUse()
    labels: list[str] = []
    dedicated: bool = False
    kinds: list[str] | None = None
    """The task kinds that the worker accepts; None if it accepts all."""
    reserved_for: str | None = None
    """The run for which the worker is reserved: the worker accepts no other run until it has capacity for this one."""
    tasks: list[str] = []
    version: str = ""
    started_at: datetime | None = None
    seen_at: datetime | None = None


class Workers(Model, frozen=True):
    items: list[Worker]


class DrainingWorker(Model, frozen=True):
    """A worker that was ordered to drain."""

    worker_id: str
    status: str = "draining"


class StoreClock(Model, frozen=True):
    """The time of the store, compared with the wall clock of its machine."""

    store_time: datetime
    wall_clock: datetime | None = None
    """None on PostgreSQL, where the clock of the database server is the time of the store."""
    ahead_seconds: float = 0.0
    planning_held_since: datetime | None = None
    """Since when the planner turns no fires into runs, because the wall clock stepped ahead; None: planning works."""
    accepted_in_seconds: float | None = None
    why: str = ""
