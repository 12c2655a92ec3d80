"""The types of request bodies. They are used for decoding and for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from timeball.domain.job.edit import Edit
from timeball.domain.planning.backfill import MAX_PARALLEL
from timeball.domain.preview import preview
from timeball.domain.schedule.calendar import MAX_CALENDARS, Calendar, CalendarName, Excluded
from timeball.domain.schedule.schedule import Schedule
from timeball.jobspec.documents import Millis
from timeball.ports.worker_protocol import SessionId

Word = Annotated[str, Meta(max_length=200)]
Words = Annotated[list[Word], Meta(max_length=50)]


class PreviewBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A schedule to preview before it is saved."""

    schedule: Schedule
    count: Annotated[int, Meta(ge=1, le=preview.MAX_PREVIEW_COUNT, description="How many fires.")] = (
        preview.DEFAULT_COUNT
    )
    after: Annotated[str, Meta(max_length=64, description="RFC 3339 with an offset. Default: now.")] | None = None
    """The instant at which the schedule is assumed to begin."""
    name: Annotated[str, Meta(max_length=200, description="The name of the job. It determines the values of `H`.")] = ""
    calendars: Annotated[list[CalendarName], Meta(max_length=MAX_CALENDARS)] = []
    excluded: Excluded = "skip"
    start_at: Annotated[str, Meta(max_length=64)] | None = None
    end_at: Annotated[str, Meta(max_length=64)] | None = None
    max_runs: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None


class CronPreviewBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A cron expression to preview, without a schedule around it."""

    expression: str
    timezone: Annotated[str, Meta(max_length=64)] = "UTC"
    dst_gap: Literal["run", "skip"] = "run"
    dst_overlap: Literal["first", "both"] = "first"
    count: Annotated[int, Meta(ge=1, le=preview.MAX_PREVIEW_COUNT)] = preview.DEFAULT_COUNT
    after: Annotated[str, Meta(max_length=64)] | None = None
    name: Annotated[str, Meta(max_length=200)] = ""
    calendars: Annotated[list[CalendarName], Meta(max_length=MAX_CALENDARS)] = []
    excluded: Excluded = "skip"
    start_at: Annotated[str, Meta(max_length=64)] | None = None
    end_at: Annotated[str, Meta(max_length=64)] | None = None
    max_runs: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None


class CalendarPreviewBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A calendar to preview before it is saved."""

    calendar: Calendar
    since: Annotated[str, Meta(max_length=64, description="RFC 3339 with an offset. Default: now.")] | None = field(
        default=None, name="from"
    )
    until: (
        Annotated[str, Meta(max_length=64, description="At most 400 days after `from`. Default: 31 days after it.")]
        | None
    ) = field(default=None, name="to")


class SignInBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The token of a one-time link, or an API key."""

    token: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    api_key: Annotated[str, Meta(min_length=1, max_length=4_096)] | None = None


class PauseBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    reason: Annotated[str, Meta(max_length=1_000)] = ""
    until: Annotated[str, Meta(max_length=64, description="When the job resumes automatically.")] | None = None


class BackfillBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The range of past fires to run: from `from` on, and before `to`."""

    since: Annotated[str, Meta(max_length=64, description="The first instant of the range.")] = field(name="from")
    until: Annotated[str, Meta(max_length=64, description="The end of the range, exclusive. Default: now.")] = field(
        name="to", default=""
    )
    parallelism: Annotated[int, Meta(ge=1, le=MAX_PARALLEL, description="Maximum number of its live runs.")] = 1
    dry_run: Annotated[bool, Meta(description="Only count the fires.")] = False


class DeadLetterFilter(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Selects the dead letters that match all given fields."""

    all: Annotated[bool, Meta(description="Select all. Cannot be combined with other fields.")] = False
    job_id: Word = ""
    user_id: Word = ""
    tag: Word = ""
    task_id: Word = ""
    fingerprint: Annotated[Word, Meta(description="Fingerprint of the last error; `none`: without one.")] = ""
    start_time: Annotated[str, Meta(max_length=64, description="Earliest fire time.")] | Millis = ""
    end_time: Annotated[str, Meta(max_length=64, description="Latest fire time.")] | Millis = ""
    created_before: Annotated[str, Meta(max_length=64, description="Default: now.")] | Millis = ""


class RunsFilter(DeadLetterFilter, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Selects the runs that match all given fields."""

    status: Word | Words = ""
    origin: Word | Words = ""


class JobsFilter(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Selects the jobs that match all given fields, which are those of `GET /v1/jobs`."""

    all: Annotated[bool, Meta(description="Select all. Cannot be combined with other fields.")] = False
    status: Word | Words = ""
    name: Word = ""
    tag: Word = ""
    user_id: Word = ""
    task_id: Word = ""
    calendar: Word = ""
    q: Annotated[Word, Meta(description="Part of the name, in upper or lower case, or a job id.")] = ""
    kind: Annotated[Word, Meta(description="Kind of the task, or `workflow`.")] = ""
    schedule_type: Word = ""
    created_before: Annotated[str, Meta(max_length=64, description="Default: now.")] | Millis = ""


class DeadLetterSelection(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Selects dead letters: by their ids, by a filter, or by the fingerprint of their error. `jobId` and `all` are
    short forms of a filter with only that field.
    """

    run_ids: Annotated[list[str], Meta(max_length=10_000)] = []
    filter: DeadLetterFilter | None = None
    fingerprint: Word = ""
    job_id: Word = ""
    all: bool = False
    dry_run: Annotated[bool, Meta(description="Only count them.")] = False


class RetryDeadLetters(DeadLetterSelection, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    edit: Edit | None = None


class EditBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    edit: Edit | None = None


class BulkBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    action: Literal["cancel", "retry", "replay"]
    filter: RunsFilter
    edit: Edit | None = None
    dry_run: Annotated[bool, Meta(description="Only count them.")] = False


class BulkJobsBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    action: Literal["pause", "resume", "run", "cancel"]
    filter: JobsFilter
    reason: Annotated[str, Meta(max_length=1_000, description="Of a pause.")] = ""
    until: Annotated[str, Meta(max_length=64, description="When paused jobs resume automatically.")] | None = None
    dry_run: Annotated[bool, Meta(description="Only count them.")] = False
    cursor: Annotated[str, Meta(max_length=64, description="`nextCursor` of the previous answer.")] = ""
    limit: Annotated[int, Meta(ge=1, le=1_000, description="Maximum number of jobs that this request processes.")] = 500


class NewKey(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    role: Literal["admin", "worker"]
    name: Annotated[str, Meta(max_length=200)] = ""


class Goodbye(Struct, frozen=True, rename="camel"):
    session: SessionId
