"""Types of the documents that describe a job or a change of a job, for the OpenAPI document. Only `CanonicalJob` also
decodes requests; `shapes` converts the other shapes of a job.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct, field

from timeball.domain.duration import Duration
from timeball.domain.job.job import JobSpec
from timeball.domain.schedule.schedule import On, Weekday
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
    """A job in the flat shape. Fields that belong to another schedule type are ignored."""

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


class FollowedJob(Struct, frozen=True):
    """The job to follow, and the ends of its runs that count."""

    job: Annotated[str, Meta(min_length=1, max_length=200, description="The id or the name of the job.")]
    on: On = "succeeded"


class DailyWindow(Struct, frozen=True, rename="camel", kw_only=True):
    """A range of each day in which the job fires once."""

    since: Annotated[str, Meta(max_length=8)] = field(name="from")
    until: Annotated[str, Meta(max_length=8)] = field(name="to")
    timezone: Annotated[str, Meta(max_length=64)] = "UTC"
    days: Annotated[list[Weekday], Meta(max_length=7)] = []
    dst_gap: Literal["run", "skip"] = "run"
    dst_overlap: Literal["first", "both"] = "first"


JobToFollow = Annotated[str, Meta(min_length=1, max_length=200, description="The id or the name of a job.")]


class FollowingJob(CanonicalJob, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A job that fires when runs of another job end: `followJob` instead of a schedule."""

    follow_job: JobToFollow | FollowedJob


class WindowJob(CanonicalJob, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A job that fires once a day: `window` instead of a schedule."""

    window: DailyWindow


JOB_SHAPES: Final = (CanonicalJob, FollowingJob, WindowJob, FlatJob, RecurringJob)


def _without_limits(kind: Any) -> Any:
    """Return the type without its limits, which are checked when the change is applied to the job."""
    if get_origin(kind) is Annotated:
        return get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        return reduce(or_, map(_without_limits, get_args(kind)))
    return kind


_LOOSER: Final[dict[str, Any]] = {"task": Task, "tags": list[str]}
JobChange: Final = msgspec.defstruct(
    "JobChange",
    [
        *(
            (name, _LOOSER.get(name, _without_limits(kind)) | None, None)
            for name, kind in get_type_hints(JobSpec, include_extras=True).items()
        ),
        ("schedule_type", str | None, None),
        ("schedule_time", str | Millis | None, None),
        ("cron_expression", str | None, None),
        ("max_retries", int | None, None),
        ("follow_job", str | FollowedJob | None, None),
        ("window", DailyWindow | None, None),
    ],
    namespace={"__doc__": "Fields of a job to change, in any of its shapes."},
    module=__name__,
    frozen=True,
    rename="camel",
    kw_only=True,
)
"""All fields of `JobSpec` and of the other shapes; each may be left out or null. The type is only for the OpenAPI
document: `job_reader` decodes changes.
"""
