"""Workers, and the clock of the store."""

from __future__ import annotations

from datetime import datetime

from timeball.client.models.answer import Answer


class InUse(Answer, frozen=True):
    """What the runs of a worker take of it."""

    slots: int = 0
    cpu: float = 0.0
    memory_mb: int = 0


class Worker(Answer, frozen=True):
    worker_id: str = ""
    name: str = ""
    slots: int = 0
    running: int = 0
    cpu: float | None = None
    memory_mb: int | None = None
    in_use: InUse = InUse()
    labels: list[str] = []
    dedicated: bool = False
    kinds: list[str] | None = None
    """The kinds of tasks that it takes; None: every one."""
    reserved_for: str | None = None
    """The run that waits until this worker has room for it."""
    tasks: list[str] = []
    version: str = ""
    started_at: datetime | None = None
    seen_at: datetime | None = None


class Workers(Answer, frozen=True):
    items: list[Worker]


class StoreClock(Answer, frozen=True):
    """The store's time beside the wall clock of its machine."""

    store_time: datetime
    wall_clock: datetime | None = None
    """None: the database server's clock is the store's time."""
    ahead_seconds: float = 0.0
    planning_held_since: datetime | None = None
    """None: planning is not held."""
    accepted_in_seconds: float | None = None
    why: str = ""
