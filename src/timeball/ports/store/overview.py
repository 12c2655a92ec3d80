"""The store for the overview: statistics of the last day, the present, the timeline, and what needs attention.

Every read is bounded, however many runs there are: it uses an index, and counts up to a maximum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.overview.attention import AttentionFacts
from timeball.domain.overview.lanes import LaneCounts, LaneJob, LaneRun, Sample
from timeball.domain.overview.tally import RunTally
from timeball.domain.run.run import Run
from timeball.ports.store.changes import UnwrittenEnds
from timeball.ports.store.maintenance import Lead

MAX_COUNTED: Final = 50_000
"""Maximum of each count of the present. A count that reaches it stands for at least that many."""


class Present(Struct, frozen=True, kw_only=True):
    """Numbers of live runs, jobs and workers at the instant `now`."""

    now: Micros
    scheduled: int
    blocked: int
    queued: int
    running: int
    retrying: int
    oldest_queued_at: Micros | None
    """The instant since which the oldest queued run waits; None if no run is queued."""
    jobs: int
    """Number of active jobs that have a next fire, or follow another job."""
    paused_jobs: int
    capped: bool
    """True if one of the counts stopped at `MAX_COUNTED`."""
    workers: int
    """Number of workers with a valid lease. `slots` is the number of their slots, and `busy` the number of slots in
    use."""
    slots: int
    busy: int


class QueueDepth(Struct, frozen=True):
    """The runs of one tenant, queue and priority that are ready, and wait only for a worker."""

    tenant: str
    queue: str
    """The labels that the runs need of a worker (`placement.queue_name`)."""
    priority: int
    depth: int
    """Number of the runs, at most `MAX_COUNTED`."""
    oldest_at: Micros
    """Since when the first of them could be claimed."""


class FleetState(Struct, frozen=True, kw_only=True):
    """The work and the workers of all tenants at the instant `now`, for `/metrics`."""

    now: Micros
    queues: list[QueueDepth]
    """Queues that are not empty."""
    running: int
    dead_letters: dict[str, int]
    """Number of dead letters by tenant; about `MAX_COUNTED` in all at most."""
    workers: int
    """Number of workers with a valid lease. `slots` is the number of their slots."""
    slots: int


class StartCounts(Struct, frozen=True):
    """The runs in a range of time that had to start, and how many of them were late."""

    count: int
    late: int
    capped: bool = False
    """True if only the newest runs of the range were counted."""


class Upcoming(Struct, frozen=True):
    job_id: str
    job_name: str
    fire_time: Micros
    has_calendar: bool = False
    """True if the fire comes from the schedule of a job with calendars, which may exclude it."""


class OverviewStore(Protocol):
    async def record_statistics(self, writer: str, seq: int) -> UnwrittenEnds:
        """Add the runs and fires that ended through this store object since the previous `seq` to the statistics.
        Return them. A writer numbers its calls from 1, and repeats a failed call
        with the same `seq`: it takes effect once."""
        ...

    async def forget_statistics(self, lead: Lead) -> int:
        """Delete some intervals of statistics that are older than `tally.WIDTH_LIFE`. Return their number; 0: none is
        left."""
        ...

    async def statistics(self, tenant: str, width: Micros, since: Micros, until: Micros) -> dict[Micros, RunTally]:
        """Return the statistics of a tenant by the first instant of each interval. `width` is one of `tally.WIDTHS`."""
        ...

    async def present(self, tenant: str) -> Present: ...

    async def fleet_state(self) -> FleetState: ...

    async def count_starts(
        self, within: Mapping[str, Micros], edges: Sequence[Micros], limit: int
    ) -> dict[str, list[StartCounts]]:
        """Return, by job id, how many runs of the job had to start in each range between two consecutive edges, and how
        many of them were late. The last edge is now. `within` has the delay, by job id, after which a start is late. Of
        each range, at most the newest `limit` ledger rows of a job are read. Runs that still wait and are late already
        count in the last range."""
        ...

    async def jobs_with_tag(self, tenant: str, tag: str, limit: int) -> list[str]:
        """Return the ids of the newest jobs with a tag, at most `limit`."""
        ...

    async def upcoming(self, tenant: str, limit: int) -> list[Upcoming]:
        """Return the next fires, at most one per job, earliest first."""
        ...

    async def attention_facts(self, tenant: str) -> AttentionFacts: ...

    async def sampled_runs(self, tenant: str, edges: Sequence[Micros], limit: int) -> Sample:
        """Return a sample of the finished runs of a tenant: between each two consecutive edges, those with the newest
        fires, at most `limit`."""
        ...

    async def lane_jobs(
        self, tenant: str, ids: Sequence[str], since: Micros, *, text: str | None = None, tag: str | None = None
    ) -> list[LaneJob]:
        """Return the jobs in `ids`, jobs of the tenant with live runs, jobs that fire next, and with `tag` the newest
        jobs with this tag; the number of each kind is bounded. With `text`, only jobs that have it in their name or as
        their id; with `tag`, only jobs with this tag. Fires before `since` are ignored."""
        ...

    async def lane_runs(self, job_ids: Sequence[str], since: Micros | None, until: Micros, limit: int) -> list[LaneRun]:
        """Return the newest runs of each job in a range: at most `limit` finished runs and `limit` live runs of each
        job. Without `since`, return only live runs. A span (a ledger row of several fires) that reaches into the range
        counts as one run."""
        ...

    async def lane_counts(
        self, job_ids: Sequence[str], edges: Sequence[Micros], limit: int
    ) -> dict[str, list[LaneCounts]]:
        """Return how the runs of each job ended between each two consecutive edges. The edges are equally far apart.
        About `limit` runs are counted in all, and each job has an equal share of this number. If a job has more runs
        than its share, the share is divided equally between the intervals, and no more runs are counted in an
        interval."""
        ...

    async def schedules_of(self, job_ids: Sequence[str]) -> list[Job]:
        """Return jobs by id, in any order, without those that do not exist or cannot be decoded."""
        ...

    async def recent_runs(self, job_ids: Sequence[str], limit: int) -> dict[str, list[Run]]:
        """Return the newest runs of each job that are due or have ended, at most `limit` per job, newest fire first."""
        ...
