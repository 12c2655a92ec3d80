"""The store for the overview: statistics of the last day, the present, the timeline, and what needs attention.

Every read is bounded, however many runs there are: it uses an index, and counts up to a maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.overview.attention import AttentionFacts
from timeball.domain.overview.lanes import LaneCounts, LaneJob, LaneRun, Sample
from timeball.domain.overview.tally import RunTally
from timeball.domain.run.run import Run
from timeball.ports.store.maintenance import Lead

MAX_COUNTED: Final = 50_000
"""Maximum of each count of the present. A count that reaches it stands for at least that many."""


class Present(Struct, frozen=True, kw_only=True):
    """What is alive now."""

    now: Micros
    scheduled: int
    blocked: int
    queued: int
    running: int
    retrying: int
    oldest_queued_at: Micros | None
    """Since when the queued run waits that has waited longest."""
    jobs: int
    """Jobs that will fire."""
    paused_jobs: int
    capped: bool
    """There are more than were counted of something."""
    workers: int
    """With a lease; and the slots that they have, and those that runs take."""
    slots: int
    busy: int


class Upcoming(Struct, frozen=True):
    job_id: str
    job_name: str
    fire_time: Micros
    has_calendar: bool = False
    """The fire is one of the schedule, and a calendar may exclude it."""


class OverviewStore(Protocol):
    async def record_statistics(self, writer: str, seq: int) -> int:
        """Add what ended through this store since the last number to the statistics; how many stretches of time that
        were. A writer counts its calls from 1, and repeats a call that failed with the same number: it takes effect
        once."""
        ...

    async def forget_statistics(self, lead: Lead) -> int:
        """Drop statistics that are older than `tally.WIDTH_LIFE`; how many stretches of time."""
        ...

    async def statistics(self, tenant: str, width: Micros, since: Micros, until: Micros) -> dict[Micros, RunTally]:
        """How runs of a tenant ended, by stretches of one of the lengths `tally.WIDTHS`, given by their beginnings."""
        ...

    async def present(self, tenant: str) -> Present: ...

    async def upcoming(self, tenant: str, limit: int) -> list[Upcoming]:
        """The next fires, at most one per job, earliest first."""
        ...

    async def attention_facts(self, tenant: str) -> AttentionFacts: ...

    async def sampled_runs(self, tenant: str, edges: Sequence[Micros], most: int) -> Sample:
        """Runs of a tenant whose fires are between each two edges, and of each of these stretches at most so many."""
        ...

    async def lane_jobs(
        self, tenant: str, ids: Sequence[str], since: Micros, *, text: str | None = None, tag: str | None = None
    ) -> list[LaneJob]:
        """These jobs, and those of the tenant that have live runs or fire next, at most some hundreds: with a text in
        the name or as the id, and with a tag. Fires since an instant count as theirs."""
        ...

    async def lane_runs(self, job_ids: Sequence[str], since: Micros | None, until: Micros, most: int) -> list[LaneRun]:
        """The newest runs of each job in a range, at most `most` of each that ended and `most` that are alive; without
        `since`, only those that are alive. A span that reaches into the range is one of them."""
        ...

    async def lane_counts(
        self, job_ids: Sequence[str], edges: Sequence[Micros], most: int
    ) -> dict[str, list[LaneCounts]]:
        """How the runs of each job ended between each two edges, which are equally far apart. About `most` runs are
        counted in all: of a job with more than its share, at most so many between two edges."""
        ...

    async def schedules_of(self, job_ids: Sequence[str]) -> list[Job]:
        """Jobs by id, in any order; without those that do not exist or cannot be read."""
        ...

    async def recent_runs(self, job_ids: Sequence[str], most: int) -> dict[str, list[Run]]:
        """The newest runs of jobs that are due or over, newest fire first."""
        ...
