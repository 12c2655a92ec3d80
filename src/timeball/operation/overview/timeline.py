"""Read the timeline: one lane per job or per tag, with the runs of the past and the coming fires.

Everything is bounded: the number of lanes, runs, fires and buckets, and the rows that are read for them. A lane with
more runs than it may show has counts instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, takewhile
from typing import Final, Literal

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobState
from timeball.domain.overview import lanes
from timeball.domain.overview.lanes import LaneCounts, LaneJob, LaneRun
from timeball.domain.planning import upcoming_fires
from timeball.domain.schedule.closed_times import OPEN, Closures
from timeball.operation.context import OperationContext
from timeball.operation.schedules.closed_times import closures_of
from timeball.slices import Steps, in_slices

MAX_LANES: Final = 200
MAX_RUNS: Final = 2_400
"""Maximum number of runs in an answer; each has about 230 bytes."""
MAX_RUNS_PER_LANE: Final = 200
MAX_BUCKETS: Final = 2_400
"""Maximum number of buckets in an answer; each has about 190 bytes."""
MAX_BUCKETS_PER_LANE: Final = 60
MAX_FIRES: Final = 1_200
"""Maximum number of coming fires in an answer; each takes about 40 microseconds to find."""
MAX_FIRES_PER_LANE: Final = 100
MAX_COUNTED: Final = 50_000
"""Maximum number of runs that one answer counts in its buckets."""
MAX_SPEC_BYTES: Final = 4 << 20
"""Maximum size of the specs that are read for coming fires."""
SAMPLE_PARTS: Final = 40
SAMPLE_RUNS: Final = 50
"""Number of runs that are looked at in each part of the range, to find the jobs that ran."""

By = Literal["job", "tag"]


class LaneBucket(Struct, frozen=True):
    since: Micros
    until: Micros
    counts: LaneCounts


class Lane(Struct, frozen=True, kw_only=True):
    id: str
    """The id of a job, or a tag; empty for the lane of jobs without a tag."""
    name: str
    job: LaneJob | None
    """The job of the lane; None if the lane is for a tag."""
    runs: list[LaneRun]
    buckets: list[LaneBucket] | None
    fires: list[Micros]
    truncated: bool
    """True if there are runs or fires that are neither listed nor counted."""


class LaneTimeline(Struct, frozen=True, kw_only=True):
    since: Micros
    until: Micros
    now: Micros
    by: By
    lanes: list[Lane]
    hidden: int
    """The number of active jobs or tags that were found and have no lane."""


class TimelineRequest(Struct, frozen=True, kw_only=True):
    tenant: str
    since: Micros
    until: Micros
    by: By | None
    """The kind of lanes: one per job, or one per tag. None: one per job, or one per tag if more than `MAX_JOB_LANES`
    jobs are active."""
    limit: int
    """Maximum number of lanes."""
    text: str | None = None
    tag: str | None = None


class _Limits(Struct, frozen=True):
    """The maximum numbers of runs, buckets and fires in each lane."""

    runs: int
    buckets: int
    fires: int


async def read_timeline(context: OperationContext, asked: TimelineRequest) -> LaneTimeline:
    now = context.store.now()
    edges = lanes.edges(asked.since, asked.until, SAMPLE_PARTS)
    sample = await context.store.sampled_runs(asked.tenant, edges, SAMPLE_RUNS)
    newest: dict[str, Micros] = {}
    for run in sample.runs:
        newest[run.job_id] = max(run.fire_time, newest.get(run.job_id, 0))
    found = await context.store.lane_jobs(asked.tenant, [*newest], asked.since, text=asked.text, tag=asked.tag)
    known = [lanes.with_fire(job, newest.get(job.id)) for job in found]
    active = lanes.active(known, now, asked.until)
    by: By = asked.by or ("tag" if len(active) > lanes.MAX_JOB_LANES else "job")
    groups = lanes.tags_of(active) if by == "tag" else {job.id: [job] for job in active}
    chosen = dict(islice(groups.items(), asked.limit))
    limits = _Limits(
        runs=min(MAX_RUNS_PER_LANE, MAX_RUNS // max(1, len(chosen))),
        buckets=min(MAX_BUCKETS_PER_LANE, MAX_BUCKETS // max(1, len(chosen))),
        fires=min(MAX_FIRES_PER_LANE, MAX_FIRES // max(1, len(chosen))),
    )
    if by == "tag":
        shown = await _tag_lanes(context, asked, chosen, sample.runs, bool(sample.full), limits, now)
    else:
        shown = await _job_lanes(context, asked, [job for (job,) in chosen.values()], limits, now)
    return LaneTimeline(
        since=asked.since,
        until=asked.until,
        now=now,
        by=by,
        lanes=sorted(shown, key=lambda lane: (lane.name.lower(), lane.id)),
        hidden=len(groups) - len(chosen),
    )


async def _job_lanes(
    context: OperationContext, asked: TimelineRequest, jobs: Sequence[LaneJob], limits: _Limits, now: Micros
) -> list[Lane]:
    ids = [job.id for job in jobs]
    runs: dict[str, list[LaneRun]] = {job_id: [] for job_id in ids}
    for run in await context.store.lane_runs(ids, asked.since, asked.until, limits.runs + 1):
        runs[run.job_id].append(run)
    busy = [job_id for job_id in ids if len(runs[job_id]) > limits.runs]
    edges = lanes.edges(asked.since, min(asked.until, max(now, asked.since + 1)), limits.buckets)
    counts = await context.store.lane_counts(busy, edges, MAX_COUNTED)
    fires = await _coming(context, jobs, asked, limits.fires, now)
    return [
        Lane(
            id=job.id,
            name=job.name,
            job=job,
            runs=[] if job.id in counts else sorted(runs[job.id], key=_place),
            buckets=_buckets(edges, _with_live(counts[job.id], runs[job.id], edges)) if job.id in counts else None,
            fires=fires[job.id][: limits.fires],
            truncated=len(fires[job.id]) > limits.fires or any(each.capped for each in counts.get(job.id, ())),
        )
        for job in jobs
    ]


async def _tag_lanes(
    context: OperationContext,
    asked: TimelineRequest,
    chosen: Mapping[str, Sequence[LaneJob]],
    sample: Iterable[LaneRun],
    is_full: bool,
    limits: _Limits,
    now: Micros,
) -> list[Lane]:
    """Return one lane per tag. Its finished runs are those in `sample`, which has a limited number of runs in each part
    of the range."""
    nearest = list({job.id: job for jobs in chosen.values() for job in jobs}.values())[:MAX_LANES]
    fires = await _coming(context, nearest, asked, limits.fires, now)
    few = max(1, MAX_RUNS // max(1, len(nearest)))
    live = await context.store.lane_runs([job.id for job in nearest], None, asked.until, few)
    runs: dict[str, list[LaneRun]] = {}
    for run in {run.id: run for run in (*live, *sample)}.values():
        runs.setdefault(run.job_id, []).append(run)
    edges = lanes.edges(asked.since, min(asked.until, max(now, asked.since + 1)), limits.buckets)
    found: list[Lane] = []
    for tag, jobs in chosen.items():
        own = sorted((run for job in jobs for run in runs.get(job.id, ())), key=_place)
        coming = sorted(at for job in jobs for at in fires.get(job.id, ()))
        found.append(
            Lane(
                id=tag,
                name=tag or "(no tag)",
                job=None,
                runs=own if len(own) <= limits.runs else [],
                buckets=None if len(own) <= limits.runs else _buckets(edges, lanes.counted(own, edges)),
                fires=coming[: limits.fires],
                truncated=is_full or len(coming) > limits.fires or any(job.id not in fires for job in jobs),
            )
        )
    return found


async def _coming(
    context: OperationContext, jobs: Sequence[LaneJob], asked: TimelineRequest, limit: int, now: Micros
) -> dict[str, list[Micros]]:
    """Return up to `limit` + 1 coming fires of each job: one more than `limit` means that there are more to show."""
    found: dict[str, list[Micros]] = {job.id: [] for job in jobs}
    due = [job for job in jobs if job.state is JobState.ACTIVE and job.next_fire_at is not None]
    wanted, size = list[str](), 0
    for job in due:
        size += job.size
        if job.next_fire_at is not None and job.next_fire_at < asked.until and size <= MAX_SPEC_BYTES:
            wanted.append(job.id)
    if asked.until <= now or not wanted:
        return found
    specs = await context.store.schedules_of(wanted)
    closures = await closures_of(context, specs)
    after = max(now, asked.since - 1)
    found |= await in_slices(_fires(specs, closures, after, asked.until, limit + 1), context.clock)
    return found


def _fires(
    jobs: Iterable[Job], closures: Mapping[str, Closures], after: Micros, until: Micros, limit: int
) -> Steps[dict[str, list[Micros]]]:
    found: dict[str, list[Micros]] = {}
    for job in jobs:
        fires = found[job.id] = []
        for at in takewhile(lambda at: at < until, upcoming_fires.coming(job, after, closures.get(job.id, OPEN))):
            fires.append(at)
            yield
            if len(fires) == limit:
                break
        yield
    return found


def _place(run: LaneRun) -> tuple[Micros, str]:
    return run.fire_time, run.id


def _with_live(counts: Sequence[LaneCounts], runs: Iterable[LaneRun], edges: Sequence[Micros]) -> list[LaneCounts]:
    """Add the live ones of `runs` to the counts of finished runs, and return the counts."""
    alive = lanes.counted((run for run in runs if run.finished_at is None), edges)
    for each, more in zip(counts, alive, strict=True):
        each.add(more)
    return list(counts)


def _buckets(edges: Sequence[Micros], counts: Sequence[LaneCounts]) -> list[LaneBucket]:
    return [LaneBucket(since, until, each) for since, until, each in zip(edges, edges[1:], counts, strict=False)]
