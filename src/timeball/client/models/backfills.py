"""Backfills."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from timeball.client.models.answer import Answer


class Backfill(Answer, frozen=True):
    """The fires of a past range, and what became of them: `total` = `done` + `running` + `remaining`."""

    backfill_id: str
    job_id: str = ""
    job_name: str = ""
    since: datetime | None = field(name="from", default=None)
    until: datetime | None = field(name="to", default=None)
    parallelism: int = 1
    status: str = ""
    """`running`, or `paused` with its job; `completed` or `cancelled` for good."""
    reason: str = ""
    total: int = 0
    done: int = 0
    """Fires whose run ended: `succeeded` + `failed` + `cancelled`."""
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    running: int = 0
    """Runs that are alive."""
    remaining: int = 0
    """Fires that are not runs yet."""
    next_fire_time: datetime | None = None
    created_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def over(self) -> bool:
        """Whether nothing of it will run any more."""
        return self.status in ("completed", "cancelled") and self.running == 0


class Backfills(Answer, frozen=True):
    items: list[Backfill] = []
    next_cursor: str | None = None


class BackfillRange(Answer, frozen=True):
    """What a backfill would be."""

    job_id: str
    total: int = 0
    first_fire_time: datetime | None = None
    last_fire_time: datetime | None = None
