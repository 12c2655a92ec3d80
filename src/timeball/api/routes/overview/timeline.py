"""The route of the timeline: runs and coming fires, in one lane per job or per tag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from timeball.api.query import Text, Time, time_of
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.api.views import JobStatusName
from timeball.domain.errors import Invalid
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import DAY, MILLISECOND, MINUTE, Micros, render
from timeball.domain.overview.lanes import LaneRun, LaneVerdict
from timeball.domain.overview.tally import lateness
from timeball.domain.run.status import Status
from timeball.operation.overview.timeline import MAX_LANES, By, Lane, LaneBucket, TimelineRequest, read_timeline
from timeball.slices import map_in_slices

USUAL_REACH: Final = 30 * MINUTE
MAX_RANGE: Final = 31 * DAY
LANES_TOGETHER: Final = 3
"""Number of lanes that are rendered before other tasks of the event loop may run: a lane with 200 runs takes 2 ms."""


class TimelineQuery(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    since: Annotated[Time, Meta(description="Default: 30 minutes ago.")] = field(default="", name="from")
    until: Annotated[Time, Meta(description="Default: in 30 minutes.")] = field(default="", name="to")
    by: Annotated[
        Literal["job", "tag", "auto"],
        Meta(description="A lane per job, per tag, or per tag if more than 60 jobs are active."),
    ] = "auto"
    lanes: Annotated[int, Meta(ge=1, le=MAX_LANES, description="Maximum number of lanes.")] = 30
    q: Annotated[Text, Meta(description="Only jobs with this text in their names, or with this id.")] = ""
    tag: Annotated[Text, Meta(description="Only jobs with this tag.")] = ""


class TimelineRun(Struct, frozen=True, rename="camel", kw_only=True):
    run_id: str
    job_id: str | UnsetType = UNSET
    """The job of the run; only in the lane of a tag."""
    fire_time: str
    fire_until: str | UnsetType = UNSET
    """The last fire, if the row stands for several consecutive fires that never ran."""
    fires: int | UnsetType = UNSET
    started_at: str | None
    ended_at: str | None
    status: Status
    verdict: LaneVerdict
    """The verdict on the fire, with three exceptions: a failed or dead run is `failed`, a run of the catch-up rule is
    `late`, and a live run is `running` or `waiting`."""
    late_ms: float | None


class TimelineBucket(Struct, frozen=True, rename="camel", kw_only=True):
    since: str = field(name="from")
    until: str = field(name="to")
    counts: dict[LaneVerdict, int]


class LaneView(Struct, frozen=True, rename="camel", kw_only=True):
    id: str
    """The id of the job, or the tag; empty for the lane of jobs without a tag."""
    name: str
    status: JobStatusName | None
    """The status of the job; null in the lane of a tag."""
    runs: list[TimelineRun]
    """Finished runs of fires in the range, and live runs of past fires before its end, oldest first."""
    buckets: list[TimelineBucket] | None
    """If there are more runs than a lane may have (200, or fewer if there are many lanes): counts instead of runs."""
    fires: list[str]
    """The coming fires in the range."""
    truncated: bool
    """True if there are more fires than are listed, or more runs than were counted."""


class TimelineAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    since: str = field(name="from")
    until: str = field(name="to")
    now: str
    by: By
    lanes: list[LaneView]
    """The lanes whose fires are nearest to the current time, sorted by name."""
    hidden_lanes: int
    """Number of active jobs or tags without a lane, as far as they are known."""


async def read(call: Call) -> Answer:
    query: TimelineQuery = call.query
    now = call.context.store.now()
    since, until = time_of(query.since, "from"), time_of(query.until, "to")
    if since is None:
        since = now - USUAL_REACH if until is None else min(until, now) - USUAL_REACH
    if until is None:
        until = max(since, now) + USUAL_REACH
    if until <= since:
        raise Invalid("'to' is not after 'from'", "/query/to")
    if until - since > MAX_RANGE:
        raise Invalid("a timeline covers at most 31 days", "/query/to")
    asked = TimelineRequest(
        tenant=call.tenant,
        since=since,
        until=until,
        by=None if query.by == "auto" else query.by,
        limit=query.lanes,
        text=query.q or None,
        tag=query.tag or None,
    )
    found = await read_timeline(call.context, asked)
    return answer_json(
        TimelineAnswer(
            since=render(found.since),
            until=render(found.until),
            now=render(found.now),
            by=found.by,
            lanes=await map_in_slices(_lanes, found.lanes, call.context.clock, together=LANES_TOGETHER),
            hidden_lanes=found.hidden,
        )
    )


def _lanes(some: Sequence[Lane]) -> list[LaneView]:
    return [_lane(lane) for lane in some]


def _lane(lane: Lane) -> LaneView:
    return LaneView(
        id=lane.id,
        name=lane.name,
        status=None if lane.job is None else lane.job.status,
        runs=[_run(run, is_tag=lane.job is None) for run in lane.runs],
        buckets=None if lane.buckets is None else [_bucket(each) for each in lane.buckets],
        fires=[render(at) for at in lane.fires],
        truncated=lane.truncated,
    )


def _run(run: LaneRun, *, is_tag: bool) -> TimelineRun:
    late = lateness(run.origin, run.due, run.started_at)
    return TimelineRun(
        run_id=run.id,
        job_id=run.job_id if is_tag else UNSET,
        fire_time=render(run.fire_time),
        fire_until=render(run.fire_until) if run.fires > 1 else UNSET,
        fires=run.fires if run.fires > 1 else UNSET,
        started_at=_moment(run.started_at),
        ended_at=_moment(run.finished_at),
        status=run.status,
        verdict=run.shown,
        late_ms=None if late is None else late / MILLISECOND,
    )


def _moment(at: Micros | None) -> str | None:
    return None if at is None else render(at)


_NO_COUNTS: Final = dict.fromkeys(LaneVerdict, 0)


def _bucket(each: LaneBucket) -> TimelineBucket:
    return TimelineBucket(since=render(each.since), until=render(each.until), counts=_NO_COUNTS | each.counts.counts)


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/timeline",
        permission=Permission.READ,
        summary="Read the timeline of runs and coming fires",
        description=(
            "By default half an hour back and half an hour ahead: a lane per active job, or per tag if there are many"
            " jobs, with its runs, or counts of them if they are many, and its coming fires."
        ),
        handle=read,
        query=TimelineQuery,
        answer=TimelineAnswer,
    ),
)
