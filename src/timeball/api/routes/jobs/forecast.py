"""The route that forecasts fires and compares them with the capacity of the workers."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from timeball.api.query import ForecastQuery, time_of
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.domain import duration
from timeball.domain.duration import Duration
from timeball.domain.errors import Invalid
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import DAY, MINUTE, Micros, render
from timeball.domain.planning import forecast
from timeball.domain.planning.forecast import ForecastBucket, LoadCause
from timeball.domain.text.english import counted
from timeball.operation.schedules.forecast import MAX_JOBS, Foreseen, forecast_fires

USUAL: Final = 7 * DAY
MAX_FORECAST_RANGE: Final = 366 * DAY
MAX_BUCKETS: Final = 1_000


class BucketView(Struct, frozen=True, rename="camel", kw_only=True):
    since: str = field(name="from")
    until: str = field(name="to")
    fires: int
    run_seconds: float
    """Expected work of the jobs with a known duration: slots times seconds."""
    capacity_seconds: float
    """Capacity of the workers that are alive now: slots times seconds."""
    load: float | None
    """`runSeconds` divided by `capacitySeconds`; null if no worker is alive."""
    jobs: int
    """Number of jobs that fire in the bucket."""


class CauseView(Struct, frozen=True, rename="camel", kw_only=True):
    """A job that fires in a bucket."""

    job_id: str
    job_name: str
    fires: int
    run_seconds: float | None
    """Expected work of the job in the bucket, in slots times seconds; null if the duration of its runs is not known."""


class BusyBucketView(Struct, frozen=True, rename="camel", kw_only=True):
    bucket: BucketView
    causes: list[CauseView]
    """The jobs with the most work in the bucket, at most 5."""


class ForecastAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    since: str = field(name="from")
    until: str = field(name="to")
    bucket: Duration
    slots: int
    jobs: int
    """Number of jobs whose fires are in the forecast."""
    estimated_jobs: int
    """Jobs that fire too often to be counted completely. Their rate is assumed to stay the same."""
    unmeasured_jobs: int
    """Jobs without a known duration. They are counted in `fires`, but not in `runSeconds`."""
    left_out_jobs: int
    """Jobs that were not counted, because there are too many fires."""
    more_jobs: bool
    """True if there are more jobs than were read."""
    peak: BucketView | None
    busiest: list[BusyBucketView]
    """The buckets with the most work, or with the most fires if no duration is known: at most 12, busiest first."""
    items: list[BucketView]
    notes: list[str]
    """Sentences about what is left out or estimated."""


async def read(call: Call) -> Answer:
    query: ForecastQuery = call.query
    now = call.context.store.now()
    since = time_of(query.since, "from")
    since = now if since is None else since
    until = time_of(query.until, "to")
    until = since + USUAL if until is None else until
    width = _width(query.bucket)
    if until <= since:
        raise Invalid("'to' is not after 'from'", "/query/to")
    if until - since > MAX_FORECAST_RANGE:
        raise Invalid("a forecast covers at most 366 days", "/query/to")
    if (until - since) // width >= MAX_BUCKETS:
        raise Invalid(
            f"there would be more than {MAX_BUCKETS:,} buckets; use larger buckets or a shorter range", "/query/bucket"
        )
    found = await forecast_fires(call.context, call.tenant, since, until, width)
    return answer_json(_answer(found, since, until, width))


def _width(text: str) -> Micros:
    try:
        return duration.parse(text, shortest=MINUTE)
    except Invalid as error:
        raise Invalid(error.detail, "/query/bucket") from None


def _answer(found: Foreseen, since: Micros, until: Micros, width: Micros) -> ForecastAnswer:
    known = found.forecast
    return ForecastAnswer(
        since=render(since),
        until=render(until),
        bucket=duration.render(width),
        slots=found.slots,
        jobs=known.jobs,
        estimated_jobs=known.estimated,
        unmeasured_jobs=known.unmeasured,
        left_out_jobs=known.left_out,
        more_jobs=found.more,
        peak=None if known.peak is None else _view(known.peak, found.slots),
        busiest=[
            BusyBucketView(bucket=_view(busy.bucket, found.slots), causes=[_cause(cause) for cause in busy.causes])
            for busy in known.busiest
        ],
        items=[_view(bucket, found.slots) for bucket in known.buckets],
        notes=_notes(found),
    )


def _view(bucket: ForecastBucket, slots: int) -> BucketView:
    there_is = forecast.capacity(slots, bucket)
    return BucketView(
        since=render(bucket.since),
        until=render(bucket.until),
        fires=bucket.fires,
        run_seconds=round(bucket.run_seconds, 3),
        capacity_seconds=there_is,
        load=round(bucket.run_seconds / there_is, 4) if there_is else None,
        jobs=bucket.jobs,
    )


def _cause(cause: LoadCause) -> CauseView:
    return CauseView(
        job_id=cause.job.id,
        job_name=cause.job.spec.name,
        fires=cause.fires,
        run_seconds=None if cause.run_seconds is None else round(cause.run_seconds, 3),
    )


def _notes(found: Foreseen) -> list[str]:
    known, notes = found.forecast, list[str]()
    if found.more:
        notes.append(f"Only the {MAX_JOBS:,} oldest jobs were counted; there are more.")
    if known.left_out:
        bound = f"at most {forecast.MAX_INSTANTS:,} fires are counted"
        notes.append(f"The forecast leaves out {counted(known.left_out, 'job')}: {bound}.")
    if known.estimated:
        often = f"more than {forecast.MAX_OF_RULE:,} fires"
        notes.append(f"{counted(known.estimated, 'job')} with {often}: the first rate is assumed to stay the same.")
    if known.unmeasured:
        notes.append(
            f"The duration of {known.unmeasured:,} of {counted(known.jobs, 'job')} is not known (the last runs of"
            f" {counted(found.measured, 'job')} were looked up): they count as fires, not as run seconds."
        )
    if not found.slots:
        notes.append("No worker accepts runs, so there is no capacity to compare with.")
    return notes


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/forecast",
        permission=Permission.READ,
        summary="Forecast fires and compare them with capacity",
        description=(
            "By default the next week, by the hour: the fires of the tenant's active jobs by schedules and calendars,"
            " the work that they need if they take as long as recently, and the capacity of the live workers. `busiest`"
            " names the jobs behind the buckets with the most work."
        ),
        handle=read,
        query=ForecastQuery,
        answer=ForecastAnswer,
    ),
)
