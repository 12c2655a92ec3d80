"""The bodies of requests, as types: what is decoded, and what the OpenAPI document shows."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from timeball.domain.job.edit import Edit
from timeball.domain.planning.backfill import MAX_PARALLEL
from timeball.domain.preview import preview
from timeball.domain.schedule.calendar import MAX_CALENDARS, CalendarName, Excluded
from timeball.domain.schedule.schedule import Schedule
from timeball.jobspec.documents import Millis
from timeball.ports.worker_protocol import SessionId

Word = Annotated[str, Meta(max_length=200)]
Words = Annotated[list[Word], Meta(max_length=50)]


class PreviewBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A schedule to look at before it is saved."""

    schedule: Schedule
    count: Annotated[int, Meta(ge=1, le=preview.MOST, description="How many fires.")] = preview.DEFAULT_COUNT
    after: Annotated[str, Meta(max_length=64, description="RFC 3339 with an offset; now, by default.")] | None = None
    """When the schedule is taken to begin."""
    name: Annotated[str, Meta(max_length=200, description="The job's name, which chooses the slot of `H`.")] = ""
    calendars: Annotated[list[CalendarName], Meta(max_length=MAX_CALENDARS)] = []
    excluded: Excluded = "skip"
    start_at: Annotated[str, Meta(max_length=64)] | None = None
    end_at: Annotated[str, Meta(max_length=64)] | None = None
    max_runs: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None


class CronPreviewBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The same for a cron expression, without a schedule around it."""

    expression: str
    timezone: Annotated[str, Meta(max_length=64)] = "UTC"
    dst_gap: Literal["run", "skip"] = "run"
    dst_overlap: Literal["first", "both"] = "first"
    count: Annotated[int, Meta(ge=1, le=preview.MOST)] = preview.DEFAULT_COUNT
    after: Annotated[str, Meta(max_length=64)] | None = None
    name: Annotated[str, Meta(max_length=200)] = ""
    calendars: Annotated[list[CalendarName], Meta(max_length=MAX_CALENDARS)] = []
    excluded: Excluded = "skip"
    start_at: Annotated[str, Meta(max_length=64)] | None = None
    end_at: Annotated[str, Meta(max_length=64)] | None = None
    max_runs: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None


class PauseBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    reason: Annotated[str, Meta(max_length=1_000)] = ""
    until: Annotated[str, Meta(max_length=64, description="When it resumes by itself.")] | None = None


class BackfillBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which fires of the past: those from `from` on, and before `to`."""

    since: Annotated[str, Meta(max_length=64, description="The first instant that is meant.")] = field(name="from")
    until: Annotated[str, Meta(max_length=64, description="The first that is not; now, by default.")] = field(
        name="to", default=""
    )
    parallelism: Annotated[int, Meta(ge=1, le=MAX_PARALLEL, description="Runs of it that are alive at once.")] = 1
    dry_run: Annotated[bool, Meta(description="Only count the fires.")] = False


class DeadLetterFilter(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which dead letters: all that are as every given field says."""

    all: Annotated[bool, Meta(description="Everything: instead of the other fields.")] = False
    job_id: Word = ""
    user_id: Word = ""
    tag: Word = ""
    task_id: Word = ""
    fingerprint: Annotated[Word, Meta(description="Of the error with which it gave up.")] = ""
    start_time: Annotated[str, Meta(max_length=64, description="Fire time from.")] | Millis = ""
    end_time: Annotated[str, Meta(max_length=64, description="Fire time until.")] | Millis = ""
    created_before: Annotated[str, Meta(max_length=64, description="Now, by default.")] | Millis = ""


class RunsFilter(DeadLetterFilter, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which runs: all that are as every given field says."""

    status: Word | Words = ""
    origin: Word | Words = ""


class DeadLetterSelection(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which dead letters: those named, those that a filter means, or those with one error. `jobId` and `all` are short
    for a filter with only that."""

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


class NewKey(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    role: Literal["admin", "worker"]
    name: Annotated[str, Meta(max_length=200)] = ""


class Goodbye(Struct, frozen=True, rename="camel"):
    session: SessionId
