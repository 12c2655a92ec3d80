"""The types of request bodies. They are used for decoding and for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from timeball.domain.dispatch.placement import Label
from timeball.domain.identity.role import Role
from timeball.domain.identity.user import UserState
from timeball.domain.job.edit import Edit
from timeball.domain.planning.backfill import MAX_PARALLEL
from timeball.domain.preview import preview
from timeball.domain.schedule.calendar import MAX_CALENDARS, Calendar, CalendarName, Excluded
from timeball.domain.schedule.schedule import Schedule
from timeball.domain.tenant import Prices, TenantLimits
from timeball.jobspec.documents import Millis
from timeball.ports.worker_protocol import SessionId

Word = Annotated[str, Meta(max_length=200)]
Scope = Literal["read", "run", "edit", "admin", "system", "metrics", "worker"]
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


class ProviderAnswerBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What the identity provider sent back with the browser, in the query of the sign-in page."""

    code: Annotated[str, Meta(min_length=1, max_length=4_096)]
    state: Annotated[str, Meta(min_length=1, max_length=200)]
    iss: Annotated[str, Meta(max_length=2_000)] | None = None


class SignInBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The token of a one-time link, an API key, or the answer of the identity provider."""

    token: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    api_key: Annotated[str, Meta(min_length=1, max_length=4_096)] | None = None
    provider: ProviderAnswerBody | None = None


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
    role: Role
    name: Annotated[str, Meta(max_length=200)] = ""
    scopes: (
        Annotated[list[Scope], Meta(max_length=20, description="The only permissions of the role that the key has.")]
        | None
    ) = None
    labels: (
        Annotated[list[Label], Meta(max_length=50, description="The only labels that workers with the key may offer.")]
        | None
    ) = None
    tenants: (
        Annotated[
            list[Annotated[str, Meta(min_length=1, max_length=63)]],
            Meta(
                max_length=1_000,
                description="The tenants that workers with the key serve; `*`: all. Default: that of the key.",
            ),
        ]
        | None
    ) = None
    user_id: Annotated[str, Meta(max_length=200, description="The user of the key.")] | None = None
    expires_at: Annotated[str, Meta(max_length=64, description="When the key expires. Default: never.")] | None = None


class RotateBody(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    overlap: Annotated[
        str | int, Meta(description="How long the old key stays valid, such as `1h`. At most 90 days.")
    ] = "1d"


class PricesBody(Prices, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What the work of a tenant costs, in one currency. Prices are decimal numbers, as text or as numbers."""


class LimitsBody(
    TenantLimits, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """What a tenant may use, and what that costs. Without a field, there is no such limit."""

    prices: PricesBody = PricesBody()


class NewTenant(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    tenant_id: Annotated[str, Meta(max_length=63)]
    name: Annotated[str, Meta(max_length=200)] = ""
    description: Annotated[str, Meta(max_length=2_000)] = ""
    limits: LimitsBody = LimitsBody()


class TenantChange(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The fields to change. The limits are replaced as a whole."""

    name: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    description: Annotated[str, Meta(max_length=2_000)] | UnsetType = UNSET
    limits: LimitsBody | UnsetType = UNSET


class NewUser(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    user_id: Annotated[str, Meta(max_length=200, description="The user id of jobs.")]
    role: Role
    name: Annotated[str, Meta(max_length=200)] = ""
    email: Annotated[str, Meta(max_length=320, description="The address for notifications.")] = ""
    subject: (
        Annotated[str, Meta(min_length=1, max_length=255, description="The user's id at the identity provider.")] | None
    ) = None


class UserChange(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The fields to change."""

    role: Role | UnsetType = UNSET
    name: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    email: Annotated[str, Meta(max_length=320)] | UnsetType = UNSET
    state: UserState | UnsetType = UNSET
    subject: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType | None = UNSET


class Goodbye(Struct, frozen=True, rename="camel"):
    session: SessionId
