"""Answers about future fires: of a job, of a schedule, of all jobs."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from timeball.client.models.model import Model


class Fire(Model, frozen=True):
    """A future fire of a job."""

    fire_time: datetime
    mark: str | None = None
    """`excluded`: a calendar is closed, and the job does not fire. `next_open`: the calendars open, and one run
    replaces the excluded fires."""
    note: str = ""


class Fires(Model, frozen=True):
    """The next fires of a job."""

    items: list[Fire]
    detail: str = ""

    @property
    def times(self) -> list[datetime]:
        """The fire times, without the fires that calendars exclude."""
        return [fire.fire_time for fire in self.items if fire.mark != "excluded"]


class ForecastBucket(Model, frozen=True):
    """The expected fires in a range of time, and the work that they need."""

    since: datetime = field(name="from")
    until: datetime = field(name="to")
    fires: int = 0
    run_seconds: float = 0
    """The work of the fires whose duration is known: slots times seconds."""
    capacity_seconds: float = 0
    load: float | None = None
    """`run_seconds` divided by `capacity_seconds`; None if there is no worker."""
    jobs: int = 0
    """Number of jobs that fire in this range of time."""


class ForecastCause(Model, frozen=True):
    """A job that fires in a bucket of a forecast."""

    job_id: str
    job_name: str = ""
    fires: int = 0
    run_seconds: float | None = None
    """Its expected work in the bucket; None if the duration of its runs is not known."""


class BusyForecastBucket(Model, frozen=True):
    bucket: ForecastBucket
    causes: list[ForecastCause] = []
    """The jobs that need the largest parts of the work in the bucket."""


class Forecast(Model, frozen=True):
    """The expected fires of all jobs, compared with the capacity of the live workers."""

    items: list[ForecastBucket]
    peak: ForecastBucket | None = None
    busiest: list[BusyForecastBucket] = []
    """The buckets with the most work, the busiest first."""
    slots: int = 0
    jobs: int = 0
    estimated_jobs: int = 0
    unmeasured_jobs: int = 0
    left_out_jobs: int = 0
    more_jobs: bool = False
    notes: list[str] = []
    """Sentences about jobs that are estimated or left out."""


class PreviewedFire(Model, frozen=True):
    """A fire in the preview of a schedule."""

    at: datetime
    local: datetime
    """The instant `at`, written with the offset of the time zone."""
    mark: str | None = None
    """`dst_gap`: the wall time does not exist on that day, and the fire was moved here. `dst_overlap`: the wall time
    occurs twice. `excluded`: a calendar is closed. `next_open`: the calendars open, and one run replaces the excluded
    fires."""
    note: str = ""


class Preview(Model, frozen=True):
    """The preview of a schedule: a description, the next fires, and warnings."""

    description: str = ""
    fires: list[PreviewedFire] = []
    warnings: list[str] = []
