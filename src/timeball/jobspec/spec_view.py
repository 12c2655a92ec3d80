"""Specs of jobs as the API shows them: the fields that the user gave, with defaults for the others."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from timeball.domain.dispatch.limits import Concurrency, RateLimit
from timeball.domain.dispatch.placement import Resources
from timeball.domain.duration import Duration
from timeball.domain.job.job import JobSpec
from timeball.domain.job.slo import Slo
from timeball.domain.schedule.schedule import CronSchedule, Date, Follow, Immediate, Interval, Schedule, Window
from timeball.domain.task.retry import NonRetryable, Retry
from timeball.domain.task.task import Task
from timeball.domain.workflow.definition import Workflow

encode = msgspec.json.Encoder().encode


class ScheduleView(Struct, frozen=True, rename="camel", omit_defaults=True):
    """When a job fires."""

    type: Literal["immediate", "date", "cron", "interval", "window", "follow"]
    expression: str | int | UnsetType = UNSET
    since: str | UnsetType = field(default=UNSET, name="from")
    until: str | UnsetType = field(default=UNSET, name="to")
    days: list[str] | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    dst_gap: str = "run"
    dst_overlap: str = "first"
    job: str | UnsetType = UNSET
    """The id of the job that it follows."""
    on: str | UnsetType = UNSET


class RetryView(Struct, frozen=True, rename="camel"):
    """What happens after a failure."""

    max_retries: int
    backoff: str | list[Duration]
    base: Duration
    cap: Duration
    non_retryable: NonRetryable | UnsetType = UNSET


class SpecView(Struct, frozen=True, rename="camel", kw_only=True):
    """The spec of a job: the fields that the user gave, with defaults for the others."""

    name: str
    description: str
    task: Task | Workflow | UnsetType = UNSET
    task_id: str | UnsetType = UNSET
    parameters: dict[str, Any]
    schedule: ScheduleView
    retry: RetryView
    priority: str | int
    timeout: Duration | None
    grace: Duration
    overlap: str
    catch_up: str
    catch_up_window: Duration
    start_at: str | UnsetType = UNSET
    end_at: str | UnsetType = UNSET
    max_runs: int | UnsetType = UNSET
    jitter: Duration | UnsetType = UNSET
    start_deadline: Duration | UnsetType = UNSET
    ordering_key: str | UnsetType = UNSET
    on_failure: str | UnsetType = UNSET
    """The rule for later runs with the same ordering key after a run ended as dead or failed: `block` or `continue`;
    only with an `orderingKey`."""
    concurrency: Concurrency | UnsetType = UNSET
    rate_limit: RateLimit | UnsetType = UNSET
    resources: Resources | UnsetType = UNSET
    runs_on: list[str] | UnsetType = UNSET
    calendars: list[str] | UnsetType = UNSET
    excluded: str | UnsetType = UNSET
    """The rule for fires while a calendar is closed: `skip` or `next_open`; only with `calendars`."""
    delivery: str
    preemptible: bool | UnsetType = UNSET
    result_location: str | UnsetType = UNSET
    slo: Slo | UnsetType = UNSET
    tags: list[str]
    user_id: str
    schedule_type: str
    """Read-only, as in the flat shape: `immediate`, `future`, `cron`, `interval`, `window` or `follow`."""
    schedule_time: str | None
    cron_expression: str | None
    max_retries: int


View = TypeVar("View", bound=SpecView)

_FLAT_TYPES: Final[dict[type[Schedule], str]] = {
    Immediate: "immediate",
    Date: "future",
    CronSchedule: "cron",
    Interval: "interval",
    Window: "window",
    Follow: "follow",
}
_USUAL_RETRY: Final = Retry()
_USUAL_NON_RETRYABLE: Final = NonRetryable()


def _schedule(schedule: Schedule) -> ScheduleView:
    match schedule:
        case Immediate():
            return ScheduleView("immediate")
        case Date():
            return ScheduleView("date", schedule.expression)
        case CronSchedule():
            return ScheduleView(
                "cron",
                schedule.expression,
                timezone=schedule.timezone,
                dst_gap=schedule.dst_gap,
                dst_overlap=schedule.dst_overlap,
            )
        case Interval():
            return ScheduleView("interval", schedule.expression)
        case Window():
            return ScheduleView(
                "window",
                since=schedule.since,
                until=schedule.until,
                days=list(schedule.days) or UNSET,
                timezone=schedule.timezone,
                dst_gap=schedule.dst_gap,
                dst_overlap=schedule.dst_overlap,
            )
        case Follow():
            return ScheduleView("follow", job=schedule.job, on=schedule.on)


def _retry(retry: Retry) -> RetryView:
    never = retry.non_retryable
    return RetryView(
        retry.max_retries,
        retry.backoff,
        retry.base,
        retry.cap,
        UNSET if never == _USUAL_NON_RETRYABLE else never,
    )


_USUAL_RETRY_VIEW: Final = _retry(_USUAL_RETRY)


def view_of(kind: type[View], spec: JobSpec, **more: Any) -> View:
    schedule = spec.schedule
    return kind(
        name=spec.name,
        description=spec.description,
        task=spec.task or UNSET,
        task_id=spec.task_id or UNSET,
        parameters=spec.parameters,
        schedule=_schedule(schedule),
        retry=_USUAL_RETRY_VIEW if spec.retry == _USUAL_RETRY else _retry(spec.retry),
        priority=spec.priority,
        timeout=spec.timeout,
        grace=spec.grace,
        overlap=spec.overlap,
        catch_up=spec.catch_up,
        catch_up_window=spec.catch_up_window,
        start_at=spec.start_at or UNSET,
        end_at=spec.end_at or UNSET,
        max_runs=spec.max_runs or UNSET,
        jitter=spec.jitter or UNSET,
        start_deadline=spec.start_deadline or UNSET,
        ordering_key=spec.ordering_key or UNSET,
        on_failure=spec.on_failure if spec.ordering_key else UNSET,
        concurrency=spec.concurrency or UNSET,
        rate_limit=spec.rate_limit or UNSET,
        resources=spec.resources or UNSET,
        runs_on=spec.runs_on or UNSET,
        calendars=spec.calendars or UNSET,
        excluded=spec.excluded if spec.calendars else UNSET,
        delivery=spec.delivery,
        preemptible=spec.preemptible or UNSET,
        result_location=spec.result_location or UNSET,
        slo=spec.slo or UNSET,
        tags=spec.tags,
        user_id=spec.user_id,
        schedule_type=_FLAT_TYPES[type(schedule)],
        schedule_time=schedule.expression if isinstance(schedule, Date) else None,
        cron_expression=schedule.expression if isinstance(schedule, CronSchedule) else None,
        max_retries=spec.retry.max_retries,
        **more,
    )


def spec_view(spec: JobSpec) -> SpecView:
    """Return the fields of a job that its owner defines, as the API shows them."""
    return view_of(SpecView, spec)


def spec_document(spec: JobSpec) -> dict[str, Any]:
    """Return the fields of a job that its owner defines, like `spec_view`, as JSON values."""
    document: dict[str, Any] = msgspec.json.decode(encode(spec_view(spec)))
    return document
