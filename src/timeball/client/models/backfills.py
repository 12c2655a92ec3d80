"""Answers about backfills."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from timeball.client.models.model import Model


class Backfill(Model, frozen=True):
    """A backfill: the fires of a past range and their progress. `total` = `done` + `running` + `remaining`."""

    backfill_id: str
    job_id: str = ""
    job_name: str = ""
    since: datetime | None = field(name="from", default=None)
    until: datetime | None = field(name="to", default=None)
    parallelism: int = 1
    status: str = ""
    """`running`, or `paused` together with its job; finally `completed` or `cancelled`."""
    reason: str = ""
    total: int = 0
    done: int = 0
    """Number of fires whose run has ended: `succeeded` + `failed` + `cancelled`."""
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    running: int = 0
    """Number of live runs."""
    remaining: int = 0
    """Number of fires for which no run has been created yet."""
    next_fire_time: datetime | None = None
    created_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def over(self) -> bool:
        """True if the backfill has ended and has no live runs."""
        return self.status in ("completed", "cancelled") and self.running == 0


class Backfills(Model, frozen=True):
    items: list[Backfill] = []
    next_cursor: str | None = None


class BackfillRange(Model, frozen=True):
    """The fires that a backfill of a range would run."""

    job_id: str
    total: int = 0
    first_fire_time: datetime | None = None
    last_fire_time: datetime | None = None
