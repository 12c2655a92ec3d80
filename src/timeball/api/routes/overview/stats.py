"""The route that returns the statistics of the overview."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import MILLISECOND, SECOND, render
from timeball.domain.overview import tally
from timeball.domain.overview.attention import Attention, AttentionKind
from timeball.domain.overview.tally import RunTally
from timeball.domain.run.status import Status
from timeball.operation.overview.statistics import ReadStatistics, read_statistics
from timeball.ports.store.overview import MAX_COUNTED, Present

Window = Literal["5m", "1h", "24h"]


class StatsQuery(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    window: Annotated[Window, Meta(description="How far back the statistics reach.")] = "1h"


class StatsBucket(Struct, frozen=True, rename="camel"):
    """How runs ended in a stretch of time."""

    at: str
    """The beginning of the interval."""
    finished: int
    """Runs that ended: `succeeded`, `failed`, `dead` and `cancelled` together."""
    succeeded: int
    failed: int
    dead: int
    cancelled: int
    skipped: int
    """Fires that never ran because of a rule of their job, such as overlap or a calendar."""
    missed: int
    """Fires that never ran, because they were planned too late or not at all, for example after an outage or a
    pause."""
    late_p50_ms: float | None = field(name="lateP50Ms")
    """Half of the runs that ended had started at most this late. Exact to 9 %; null if none had started."""
    late_p99_ms: float | None = field(name="lateP99Ms")


class StatsTotals(Struct, frozen=True, rename="camel"):
    """How runs ended in all intervals of the requested time range together."""

    finished: int
    succeeded: int
    failed: int
    dead: int
    cancelled: int
    skipped: int
    missed: int
    late_p50_ms: float | None = field(name="lateP50Ms")
    late_p99_ms: float | None = field(name="lateP99Ms")
    runs_per_second: float
    success_rate: float | None
    """Successes among the runs that were executed to their end, from 0 to 1; null if there were none."""


class PresentView(Struct, frozen=True, rename="camel", kw_only=True):
    """What is there now. No count exceeds 50,000."""

    scheduled: int
    """Runs that wait for their fire time."""
    blocked: int
    queued: int
    running: int
    retrying: int
    oldest_queued_age_ms: float | None
    """How long the first run in the queue has waited for a worker; null if none waits."""
    dead_letters: int
    jobs: int
    """Jobs that will fire, or that follow other jobs."""
    paused_jobs: int
    capped: bool
    """True if one of the counts stopped at its maximum."""


class WorkersView(Struct, frozen=True, rename="camel"):
    """The workers that serve the tenant."""

    live: int
    slots: int
    busy: int
    """Slots that runs of the tenant occupy."""


class UpNext(Struct, frozen=True, rename="camel"):
    job_id: str
    job_name: str
    fire_time: str


class AttentionView(Struct, frozen=True, rename="camel", kw_only=True):
    kind: AttentionKind
    count: int
    job_id: str | None
    job_name: str | None
    run_id: str | None
    message: str
    since: str


class StatsAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    window: Window
    since: str = field(name="from")
    until: str = field(name="to")
    bucket_seconds: int
    buckets: list[StatsBucket]
    """The intervals of the window in order, without gaps. The last interval has not ended."""
    totals: StatsTotals
    now: PresentView
    workers: WorkersView
    up_next: list[UpNext]
    """The next fires of at most 10 jobs."""
    attention: list[AttentionView]
    """The attention list; the most urgent entries come first."""


async def read(call: Call) -> Answer:
    query: StatsQuery = call.query
    return answer_json(_answer(query.window, await read_statistics(call.context, call.tenant, query.window)))


def _answer(window: Window, found: ReadStatistics) -> StatsAnswer:
    seconds = (found.until - found.since) / SECOND
    p50, p99 = tally.percentiles(found.total.late, 0.5, 0.99)
    return StatsAnswer(
        window=window,
        since=render(found.since),
        until=render(found.until),
        bucket_seconds=found.width // SECOND,
        buckets=[_bucket(render(at), each) for at, each in found.buckets],
        totals=StatsTotals(
            *_numbers(found.total),
            p50,
            p99,
            round(found.total.finished / seconds, 6),
            found.total.success_rate,
        ),
        now=_present(found.present, found.dead_letters),
        workers=WorkersView(found.present.workers, found.present.slots, found.present.busy),
        up_next=[UpNext(each.job_id, each.job_name, render(each.fire_time)) for each in found.up_next],
        attention=[_attention(each) for each in found.attention],
    )


def _bucket(at: str, each: RunTally) -> StatsBucket:
    p50, p99 = tally.percentiles(each.late, 0.5, 0.99)
    return StatsBucket(at, *_numbers(each), p50, p99)


def _numbers(each: RunTally) -> tuple[int, int, int, int, int, int, int]:
    count = each.ends.get
    return (
        each.finished,
        count(Status.SUCCEEDED, 0),
        count(Status.FAILED, 0),
        count(Status.DEAD, 0),
        count(Status.CANCELLED, 0),
        count(Status.SKIPPED, 0),
        count(tally.MISSED, 0),
    )


def _present(found: Present, dead_letters: int) -> PresentView:
    oldest = found.oldest_queued_at
    return PresentView(
        scheduled=found.scheduled,
        blocked=found.blocked,
        queued=found.queued,
        running=found.running,
        retrying=found.retrying,
        oldest_queued_age_ms=None if oldest is None else max(0, found.now - oldest) / MILLISECOND,
        dead_letters=dead_letters,
        jobs=found.jobs,
        paused_jobs=found.paused_jobs,
        capped=found.capped or dead_letters >= MAX_COUNTED,
    )


def _attention(each: Attention) -> AttentionView:
    return AttentionView(
        kind=each.kind,
        count=each.count,
        job_id=each.job_id,
        job_name=each.job_name,
        run_id=each.run_id,
        message=each.message,
        since=render(each.since),
    )


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/stats",
        permission=Permission.READ,
        summary="Read the statistics of an overview",
        description=(
            "How runs ended lately, what is alive now, what fires next, and what needs attention. Statistics are a few"
            " seconds behind, and are not the ledger: a server that is killed loses what it counted in them."
        ),
        handle=read,
        query=StatsQuery,
        answer=StatsAnswer,
    ),
)
