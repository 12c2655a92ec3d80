"""The lanes of the timeline: selects the jobs or tags that get a lane, and decides how the runs in a lane are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, Literal, assert_never

from msgspec import Struct, structs

from timeball.domain.instant import Micros
from timeball.domain.job.job import JobState
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.status import GAVE_UP, TERMINAL, Status

MAX_JOB_LANES: Final = 60
"""With more active jobs than this, the timeline has one lane per tag, unless the request asks for jobs."""
UNTAGGED: Final = ""
"""The lane of jobs without a tag."""


class LaneVerdict(StrEnum):
    """How the timeline shows a run: by the verdict on its fire, or by its status if it failed or is alive."""

    ON_TIME = "on_time"
    LATE = "late"
    """The run started late, or the catch-up rule created it."""
    FAILED = "failed"
    """The run ended as failed or dead, no matter how late it started."""
    SKIPPED = "skipped"
    MISSED = "missed"
    CANCELLED = "cancelled"
    RUNNING = "running"
    WAITING = "waiting"
    """The run has not started, or waits for its next attempt."""


_SHOWN: Final = {
    Verdict.OPEN: LaneVerdict.WAITING,
    Verdict.ON_TIME: LaneVerdict.ON_TIME,
    Verdict.LATE: LaneVerdict.LATE,
    Verdict.CAUGHT_UP: LaneVerdict.LATE,
    Verdict.SKIPPED: LaneVerdict.SKIPPED,
    Verdict.MISSED: LaneVerdict.MISSED,
    Verdict.CANCELLED: LaneVerdict.CANCELLED,
}


def shown(status: Status, verdict: Verdict) -> LaneVerdict:
    if status in GAVE_UP:
        return LaneVerdict.FAILED
    if status not in TERMINAL:
        return LaneVerdict.RUNNING if status is Status.RUNNING else LaneVerdict.WAITING
    return _SHOWN[verdict]


class LaneRun(Struct, frozen=True, kw_only=True):
    """The columns of a run, or of a ledger row of several fires, that the timeline shows."""

    id: str
    job_id: str
    fire_time: Micros
    fire_until: Micros
    fires: int
    origin: Origin
    status: Status
    verdict: Verdict
    due: Micros
    started_at: Micros | None
    finished_at: Micros | None

    @property
    def shown(self) -> LaneVerdict:
        return shown(self.status, self.verdict)


class LaneCounts(Struct):
    """Number of runs in one part of the range, by the way they are shown."""

    counts: dict[LaneVerdict, int]
    capped: bool = False
    """True if counting stopped at a maximum, so that there may be more runs."""

    def add(self, other: LaneCounts) -> None:
        for what, times in other.counts.items():
            self.counts[what] = self.counts.get(what, 0) + times
        self.capped = self.capped or other.capped


class LaneJob(Struct, frozen=True, kw_only=True):
    """A job that may get a lane."""

    id: str
    name: str
    state: JobState
    next_fire_at: Micros | None
    """The next fire of the schedule, or the fire time of a run that was created ahead of it."""
    last_at: Micros | None
    """The newest known fire of the job in the range; the current time if the job has a live run."""
    size: int
    """Size of the spec in bytes."""
    goes_on: bool = True
    """True if the job has a live run, will fire, or follows another job."""
    tags: tuple[str, ...] = ()

    @property
    def status(self) -> Literal["scheduled", "paused", "completed", "cancelled"]:
        match self.state:
            case JobState.PAUSED:
                return "paused"
            case JobState.CANCELLED:
                return "cancelled"
            case JobState.ACTIVE:
                return "scheduled" if self.goes_on else "completed"
            case _:
                assert_never(self.state)


class Sample(Struct, frozen=True):
    """A sample of the runs of a tenant in a range. The range is divided into parts, and the number of runs per part is
    limited, so that frequent jobs do not hide other jobs."""

    runs: list[LaneRun]
    full: frozenset[int]
    """Indexes of the parts that have more runs than the sample contains."""


def with_fire(job: LaneJob, at: Micros | None) -> LaneJob:
    """Return the job with `at` as its newest known fire, if that is later than the one known so far."""
    if at is None or (job.last_at is not None and job.last_at >= at):
        return job
    return structs.replace(job, last_at=at)


def active(jobs: Iterable[LaneJob], now: Micros, until: Micros) -> list[LaneJob]:
    """Return the jobs with fires in the range, sorted by the distance of their nearest fire from `now`."""

    def distance(job: LaneJob) -> Micros:
        coming = until - now if job.next_fire_at is None else max(0, job.next_fire_at - now)
        return coming if job.last_at is None else min(coming, abs(now - job.last_at))

    found = [
        job
        for job in jobs
        if job.last_at is not None
        or (job.next_fire_at is not None and job.next_fire_at < until and job.state is JobState.ACTIVE)
    ]
    return sorted(found, key=lambda job: (distance(job), job.id))


def tags_of(jobs: Iterable[LaneJob]) -> dict[str, list[LaneJob]]:
    """Return the jobs of each tag, in the order of the first job of each tag. A job with several tags is in several
    lanes."""
    found: dict[str, list[LaneJob]] = {}
    for job in jobs:
        for tag in job.tags or (UNTAGGED,):
            found.setdefault(tag, []).append(job)
    return found


def edges(since: Micros, until: Micros, parts: int) -> list[Micros]:
    """Divide a range into `parts` parts of equal length. Return their boundaries, including both ends of the range."""
    return [since + (until - since) * at // parts for at in range(parts + 1)]


def counted(runs: Iterable[LaneRun], ends: Sequence[Micros]) -> list[LaneCounts]:
    """Count runs by the part of the range that contains their fire, and by how they are shown. `ends` has the
    boundaries of the parts, which are equally long. A fire before the range counts in the first part, one after it
    in the last."""
    found = [LaneCounts({}) for _ in ends[1:]]
    length = ends[-1] - ends[0]
    for run in runs:
        place = min(max(0, (run.fire_time - ends[0]) * len(found) // length), len(found) - 1)
        stretch = found[place].counts
        stretch[run.shown] = stretch.get(run.shown, 0) + run.fires
    return found
