"""Documents that describe a job or a change of one, as types: what is decoded, and what the OpenAPI document shows."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from timeball.domain.dispatch.limits import Concurrency, RateLimit
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.dispatch.placement import Label, Resources
from timeball.domain.duration import Duration
from timeball.domain.job.job import JobSpec
from timeball.domain.schedule.calendar import CalendarName, Excluded
from timeball.domain.schedule.schedule import Schedule
from timeball.domain.task.retry import Delivery, Retry
from timeball.domain.task.task import Task

Millis = Annotated[int, Meta(ge=0, description="Milliseconds since 1970.")]
Key = Annotated[str, Meta(min_length=1, max_length=255)]


class CanonicalJob(JobSpec, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A job in the canonical shape."""

    idempotency_key: Key | None = None


class Payload(Struct, frozen=True):
    script: str
    params: dict[str, Any] = {}


class FlatJob(Struct, frozen=True, rename="camel", kw_only=True):
    """A job in the flat shape. Fields of the types that are not chosen are ignored."""

    schedule_type: Literal["immediate", "future", "cron", "interval"]
    payload: Payload
    name: str = ""
    schedule_time: str | Millis | None = None
    cron_expression: str | None = None
    max_retries: Annotated[int, Meta(ge=0, le=100)] = 3
    idempotency_key: Key | None = None


class RecurringJob(Struct, frozen=True, rename="camel", kw_only=True):
    """A job with an interval in seconds."""

    is_recurring: bool
    job_interval: Duration | None = None
    name: str = ""
    task: Task | None = None
    task_id: str | None = None
    parameters: dict[str, Any] = {}
    idempotency_key: Key | None = None


JOB_SHAPES: Final = (CanonicalJob, FlatJob, RecurringJob)


class JobChange(Struct, frozen=True, rename="camel", kw_only=True):
    """Fields of a job to change, in any of its shapes."""

    name: str | None = None
    description: str | None = None
    task: Task | None = None
    task_id: str | None = None
    parameters: dict[str, Any] | None = None
    schedule: Schedule | None = None
    retry: Retry | None = None
    priority: Literal["high", "medium", "low"] | int | None = None
    timeout: Duration | None = None
    grace: Duration | None = None
    overlap: Overlap | None = None
    catch_up: Literal["all", "last", "none"] | None = None
    catch_up_window: Duration | None = None
    start_at: str | None = None
    end_at: str | None = None
    max_runs: int | None = None
    jitter: Duration | None = None
    start_deadline: Duration | None = None
    ordering_key: str | None = None
    on_failure: Literal["block", "continue"] | None = None
    concurrency: Concurrency | None = None
    rate_limit: RateLimit | None = None
    resources: Resources | None = None
    runs_on: list[Label] | None = None
    calendars: list[CalendarName] | None = None
    excluded: Excluded | None = None
    delivery: Delivery | None = None
    preemptible: bool | None = None
    result_location: str | None = None
    tags: list[str] | None = None
    user_id: str | None = None
    schedule_type: str | None = None
    schedule_time: str | Millis | None = None
    cron_expression: str | None = None
    max_retries: int | None = None
