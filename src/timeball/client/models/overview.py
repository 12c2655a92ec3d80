"""Answers of the overview: statistics, and the timeline of runs and coming fires."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import field

from timeball.client.models.model import Model


class EndCounts(Model, frozen=True, kw_only=True):
    """How runs ended, and how late they started."""

    finished: int = 0
    """Runs that ended: `succeeded`, `failed`, `dead` and `cancelled` together."""
    succeeded: int = 0
    failed: int = 0
    dead: int = 0
    cancelled: int = 0
    skipped: int = 0
    missed: int = 0
    late_p50_ms: float | None = field(name="lateP50Ms", default=None)
    """Half of the runs that ended had started at most this late; None if none had started."""
    late_p99_ms: float | None = field(name="lateP99Ms", default=None)


class EndsInInterval(EndCounts, frozen=True, kw_only=True):
    """How runs ended in one interval of the window."""

    at: datetime
    """The beginning of the interval."""


class EndsInWindow(EndCounts, frozen=True, kw_only=True):
    """How runs ended in the whole window."""

    runs_per_second: float = 0.0
    success_rate: float | None = None
    """Successes among the runs that were executed to their end, from 0 to 1; None if there were none."""


class LiveCounts(Model, frozen=True, kw_only=True):
    """The numbers of live runs by status, of dead letters, and of jobs, at the time of the answer."""

    scheduled: int = 0
    blocked: int = 0
    queued: int = 0
    running: int = 0
    retrying: int = 0
    oldest_queued_age_ms: float | None = None
    """How long the first run in the queue has waited for a worker; None if none waits."""
    dead_letters: int = 0
    jobs: int = 0
    paused_jobs: int = 0
    capped: bool = False
    """True if one of the counts stopped at its maximum."""


class WorkerCounts(Model, frozen=True, kw_only=True):
    """The workers of all tenants."""

    live: int = 0
    slots: int = 0
    busy: int = 0
    """Number of slots that runs use."""


class UpcomingFire(Model, frozen=True, kw_only=True):
    job_id: str
    job_name: str = ""
    fire_time: datetime


class AttentionItem(Model, frozen=True, kw_only=True):
    """A condition that needs the attention of a user."""

    kind: str
    count: int = 0
    job_id: str | None = None
    job_name: str | None = None
    run_id: str | None = None
    message: str = ""
    since: datetime


class Stats(Model, frozen=True, kw_only=True):
    """The overview: how runs ended in a window of time, what is alive now, what fires next, what needs attention."""

    window: str
    since: datetime = field(name="from")
    until: datetime = field(name="to")
    bucket_seconds: int = 0
    buckets: list[EndsInInterval] = []
    """The intervals of the window in order, without gaps. The last interval has not ended."""
    totals: EndsInWindow = EndsInWindow()
    now: LiveCounts = LiveCounts()
    workers: WorkerCounts = WorkerCounts()
    up_next: list[UpcomingFire] = []
    attention: list[AttentionItem] = []
    """What needs attention, the most urgent first."""


class TimelineRun(Model, frozen=True, kw_only=True):
    run_id: str
    job_id: str | None = None
    """The job of the run; only in the lane of a tag."""
    fire_time: datetime
    fire_until: datetime | None = None
    """The last fire, if this entry stands for several fires that never ran."""
    fires: int = 1
    started_at: datetime | None = None
    ended_at: datetime | None = None
    status: str = ""
    verdict: str = ""
    late_ms: float | None = None


class TimelineBucket(Model, frozen=True, kw_only=True):
    """The number of runs with each verdict in an interval."""

    since: datetime = field(name="from")
    until: datetime = field(name="to")
    counts: dict[str, int] = {}


class Lane(Model, frozen=True, kw_only=True):
    """The runs and coming fires of one job, or of all jobs with one tag."""

    id: str
    """The id of the job, or the tag; empty for the lane of jobs without a tag."""
    name: str = ""
    status: str | None = None
    runs: list[TimelineRun] = []
    buckets: list[TimelineBucket] | None = None
    """Counts per interval instead of single runs, if the lane has many runs."""
    fires: list[datetime] = []
    """The coming fires in the range."""
    truncated: bool = False


class Timeline(Model, frozen=True, kw_only=True):
    since: datetime = field(name="from")
    until: datetime = field(name="to")
    now: datetime
    by: str
    """`job` or `tag`: what a lane stands for."""
    lanes: list[Lane] = []
    hidden_lanes: int = 0


class SloWindow(Model, frozen=True):
    """How many runs had to start in a window of time (`window`, such as `7d`), and how many of them were late."""

    window: str
    starts: int = 0
    late: int = 0
    burn_rate: float | None = None
    """How many times faster than allowed the error budget is used."""
    budget_left: float | None = None
    """The share of the error budget that is left; negative if the objective is not met."""


class JobSlo(Model, frozen=True):
    job_id: str
    job_name: str = ""
    slo: dict[str, Any] = {}
    windows: list[SloWindow] = []


class SloReport(Model, frozen=True):
    """The starts of jobs, compared with their lateness objectives: by job, and added up in `total`."""

    items: list[JobSlo] = []
    total: list[SloWindow] = []
    capped: bool = False
