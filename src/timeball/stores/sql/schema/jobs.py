"""The rows of jobs, and of what is stored about jobs, in the order of their columns."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.stores.sql.schema.table import Table


class NewJobRow(Struct, frozen=True):
    """The row of a new job without a fire that is still to be planned, and without a registered task."""

    id: str
    tenant: str
    name: str
    spec: str
    """The spec as JSON. The columns `name`, `task_id` and `user_id` are copies of its fields, for searches."""
    user_id: str
    anchor: Micros
    created_at: Micros
    updated_at: Micros
    fired: int
    created_by: str | None
    """The id of the credential with which the job was submitted; None: an earlier version of Timeball wrote the row."""


class PlannedJobRow(NewJobRow, frozen=True):
    """A new job that fires later, or executes a registered task."""

    task_id: str | None
    next_fire_at: Micros | None
    plan_at: Micros | None


class PlacedJobRow(PlannedJobRow, frozen=True):
    """A new job with a slot in a window."""

    slot: int | None


class TracedJobRow(PlannedJobRow, frozen=True):
    """A new job whose runs continue a trace."""

    traceparent: str | None


class JobRow(PlannedJobRow, frozen=True):
    version: int
    state: str
    pause_reason: str
    paused_until: Micros | None
    last_span: str | None
    owed: Micros | None
    slot: int | None
    traceparent: str | None


class VersionRow(Struct, frozen=True):
    """An old spec of a job. `version` is the last version of the job with this spec."""

    job_id: str
    version: int
    spec: str
    replaced_at: Micros
    since_version: int | None
    """The first version with this spec; None if an earlier version of Timeball wrote the row."""
    made_at: Micros | None
    made_by: str | None
    """The name of the API key of the request that made this spec; None if the job was created with it, or if an earlier
    version of Timeball wrote the row."""
    replaced_by: str | None


class TagRow(Struct, frozen=True):
    job_id: str
    tag: str


class JobCalendarRow(Struct, frozen=True):
    job_id: str
    calendar: str
    tenant: str


class FollowRow(Struct, frozen=True):
    """The job that a job follows, and which ends of its runs count."""

    follower: str
    job_id: str
    on_success: int
    on_failure: int
    last_at: Micros
    """The latest fire of the following job; until its first fire, the time at which the row was inserted."""


class UpstreamEventRow(Struct, frozen=True):
    """An upstream event: the end of a run, stored for a job that follows, until it is planned."""

    follower: str
    cause: str
    """The run that ended."""
    job_id: str
    status: str
    ended_at: Micros
    fire_time: Micros | None
    """The fire of the following job that the event caused; None until the event is applied."""


class IdempotencyRow(Struct, frozen=True):
    tenant: str
    key: str
    fingerprint: str
    job_id: str
    answer: bytes
    created_at: Micros


class BackfillRow(Struct, frozen=True):
    id: str
    tenant: str
    job_id: str
    spec: str
    """The spec of the job at the time of the request for the backfill, as JSON. `calendars` and `slot` are of the same
    time."""
    calendars: str
    slot: int | None
    anchor: Micros
    since: Micros
    until: Micros
    parallelism: int
    total: int
    state: str
    reason: str
    cursor_at: Micros | None
    made: int
    failed: int
    cancelled: int
    created_at: Micros
    finished_at: Micros | None


class LiveBackfillRow(BackfillRow, frozen=True):
    """A backfill with the number of its live runs: a row of `lock_backfills`."""

    alive: int


class ListedBackfillRow(LiveBackfillRow, frozen=True):
    """A backfill with its job: a row of the statements that read backfills."""

    job_name: str
    job_state: str


class PlanningFailureRow(Struct, frozen=True):
    job_id: str
    version: int
    plan_at: Micros
    failures: int
    since: Micros
    reason: str


JOBS: Final = Table("jobs", JobRow)
NEW_JOBS: Final = Table("jobs", NewJobRow)
PLANNED_JOBS: Final = Table("jobs", PlannedJobRow)
PLACED_JOBS: Final = Table("jobs", PlacedJobRow)
TRACED_JOBS: Final = Table("jobs", TracedJobRow)
VERSIONS: Final = Table("job_versions", VersionRow)
TAGS: Final = Table("job_tags", TagRow)
JOB_CALENDARS: Final = Table("job_calendars", JobCalendarRow)
FOLLOWS: Final = Table("follows", FollowRow)
ECHOES: Final = Table("echoes", UpstreamEventRow)
IDEMPOTENCY: Final = Table("idempotency", IdempotencyRow)
BACKFILLS: Final = Table("backfills", BackfillRow)
PLANNING_FAILURES: Final = Table("planning_failures", PlanningFailureRow)
