"""The lanes of the timeline: which jobs get one, and how the runs in it are shown."""

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
"""Of more active jobs than this, the lanes are tags, unless jobs are asked for."""
UNTAGGED: Final = ""
"""The lane of jobs without a tag."""


class LaneVerdict(StrEnum):
    """How a run is shown: what became of its fire, or of itself."""

    ON_TIME = "on_time"
    LATE = "late"
    """It started late, or was caught up."""
    FAILED = "failed"
    """It gave up, whenever it started."""
    SKIPPED = "skipped"
    MISSED = "missed"
    CANCELLED = "cancelled"
    RUNNING = "running"
    WAITING = "waiting"
    """It is due and has not started, or waits for another attempt."""


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
    """A run, or a span of fires, as the timeline needs it."""

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
    """How the runs of a stretch of time are shown."""

    counts: dict[LaneVerdict, int]
    capped: bool = False
    """There are more than were counted."""

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
    """Of the schedule, or of a run that waits for it."""
    last_at: Micros | None
    """The newest fire that is known of it in the range; of a live run, the present."""
    size: int
    """Of its spec."""
    goes_on: bool = True
    """It has a live run, will fire, or follows another job."""
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
    """Runs of a tenant in a range: of each stretch of time some, so that frequent jobs do not hide the others."""

    runs: list[LaneRun]
    full: frozenset[int]
    """The stretches, by their places, of which there are more."""


def with_fire(job: LaneJob, at: Micros | None) -> LaneJob:
    """The job with a fire that is known of it."""
    if at is None or (job.last_at is not None and job.last_at >= at):
        return job
    return structs.replace(job, last_at=at)


def active(jobs: Iterable[LaneJob], now: Micros, until: Micros) -> list[LaneJob]:
    """The jobs with fires in the range, the one whose fire is nearest to the present first."""

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
    """The jobs of each tag, the tag of the nearest fire first. A job with several tags is in several lanes."""
    found: dict[str, list[LaneJob]] = {}
    for job in jobs:
        for tag in job.tags or (UNTAGGED,):
            found.setdefault(tag, []).append(job)
    return found


def edges(since: Micros, until: Micros, parts: int) -> list[Micros]:
    """The ends of that many stretches of a range."""
    return [since + (until - since) * at // parts for at in range(parts + 1)]


def counted(runs: Iterable[LaneRun], ends: Sequence[Micros]) -> list[LaneCounts]:
    """Count runs by the stretch that their fire is in; a span that began before is in the first."""
    found = [LaneCounts({}) for _ in ends[1:]]
    length = ends[-1] - ends[0]
    for run in runs:
        place = min(max(0, (run.fire_time - ends[0]) * len(found) // length), len(found) - 1)
        stretch = found[place].counts
        stretch[run.shown] = stretch.get(run.shown, 0) + run.fires
    return found
