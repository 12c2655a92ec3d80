"""Fires to come: of a job, of a schedule, of all jobs."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from timeball.client.models.answer import Answer


class Fire(Answer, frozen=True):
    fire_time: datetime
    mark: str | None = None
    """`excluded`: a calendar is closed then, it does not run; `next_open`: what was excluded runs once."""
    note: str = ""


class Fires(Answer, frozen=True):
    """The coming fires of a job."""

    items: list[Fire]
    detail: str = ""

    @property
    def times(self) -> list[datetime]:
        """Without those that calendars exclude."""
        return [fire.fire_time for fire in self.items if fire.mark != "excluded"]


class ForecastBucket(Answer, frozen=True):
    since: datetime = field(name="from")
    until: datetime = field(name="to")
    fires: int = 0
    run_seconds: float = 0
    """What the fires of jobs whose duration is known will take: slots times seconds."""
    capacity_seconds: float = 0
    load: float | None = None
    """One by the other; None: there is no worker."""


class Forecast(Answer, frozen=True):
    """Fires to expect, against capacity."""

    items: list[ForecastBucket]
    peak: ForecastBucket | None = None
    slots: int = 0
    jobs: int = 0
    estimated_jobs: int = 0
    unmeasured_jobs: int = 0
    left_out_jobs: int = 0
    more_jobs: bool = False
    notes: list[str] = []
    """What is left out or estimated, in words."""


class PreviewedFire(Answer, frozen=True):
    """A fire that a schedule would have."""

    at: datetime
    local: datetime
    """The same instant, with the offset that clocks of the time zone show."""
    mark: str | None = None
    """`dst_gap`: its wall time does not exist that day, it was moved here; `dst_overlap`: its wall time comes twice;
    `excluded`: a calendar is closed; `next_open`: it opens, and what was excluded runs once."""
    note: str = ""


class Preview(Answer, frozen=True):
    """What a schedule would do: in a sentence, in fires, and what to beware of."""

    description: str = ""
    fires: list[PreviewedFire] = []
    warnings: list[str] = []
