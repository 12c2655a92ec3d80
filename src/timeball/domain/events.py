"""The types of events, in one list, and the JSON of an event: a CloudEvent (specification version 1.0).

`GET /v1/events` sends events of these types, and all other code about events uses the same list. To add a type, add a
member of `EventType` with its meaning and, if it is about a status of runs, a row in `RUN_EVENTS`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from timeball.domain.run.status import Status

SOURCE: Final = "/v1"
SPEC_VERSION: Final = "1.0"


class EventType(StrEnum):
    RUN_QUEUED = "timeball.run.queued"
    """A run was created, blocked or unblocked, or a worker released it. Its status says whether it is queued, scheduled
    or blocked."""
    RUN_STARTED = "timeball.run.started"
    """A worker got an attempt of the run, and the run is due."""
    RUN_RETRYING = "timeball.run.retrying"
    """An attempt failed, and another one follows."""
    RUN_SUCCEEDED = "timeball.run.succeeded"
    RUN_FAILED = "timeball.run.failed"
    """The run failed for good without becoming a dead letter: it must not be retried, or it is a workflow or a task of
    one."""
    RUN_DEAD = "timeball.run.dead"
    """The run failed, and has used up its retries."""
    RUN_CANCELLED = "timeball.run.cancelled"
    RUN_SKIPPED = "timeball.run.skipped"
    """The run, or a range of fires, was skipped or missed."""
    RUN_PROGRESS = "timeball.run.progress"
    """A running attempt reported progress."""
    JOB_CREATED = "timeball.job.created"
    JOB_UPDATED = "timeball.job.updated"
    JOB_PAUSED = "timeball.job.paused"
    JOB_RESUMED = "timeball.job.resumed"
    JOB_CANCELLED = "timeball.job.cancelled"
    JOB_COMPLETED = "timeball.job.completed"
    """The run of a job that fires once has ended."""
    WORKER_REGISTERED = "timeball.worker.registered"
    WORKER_LOST = "timeball.worker.lost"
    """The lease of the worker lapsed."""
    WORKER_DRAINING = "timeball.worker.draining"
    WORKER_LEFT = "timeball.worker.left"
    RUNS_CHANGED = "timeball.runs.changed"
    """A summary of many changes, or of changes on another server."""


RUN_EVENTS: Final = {
    Status.SCHEDULED: EventType.RUN_QUEUED,
    Status.BLOCKED: EventType.RUN_QUEUED,
    Status.QUEUED: EventType.RUN_QUEUED,
    Status.RUNNING: EventType.RUN_STARTED,
    Status.RETRYING: EventType.RUN_RETRYING,
    Status.SUCCEEDED: EventType.RUN_SUCCEEDED,
    Status.FAILED: EventType.RUN_FAILED,
    Status.DEAD: EventType.RUN_DEAD,
    Status.CANCELLED: EventType.RUN_CANCELLED,
    Status.SKIPPED: EventType.RUN_SKIPPED,
}
"""By status: the type of the event that is sent when a run reaches this status."""


class RunEventData(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A change of a run. A field is absent if the server does not know it without reading the store."""

    run_id: str
    job_id: str
    job_name: str | UnsetType = UNSET
    status: str
    attempt: int | UnsetType = UNSET
    fire_time: str | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    """The kind of the task: `http`, `shell`, `script`, `python` or `workflow`."""
    worker_id: str | UnsetType = UNSET
    late_ms: int | UnsetType = UNSET
    """Milliseconds between the instant at which the run was due and its start."""
    progress: float | UnsetType = UNSET
    """From 0 to 1; only in `timeball.run.progress`."""
    note: str | UnsetType = UNSET


class JobEventData(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    job_id: str
    name: str | UnsetType = UNSET


class WorkerEventData(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    worker_id: str
    name: str | UnsetType = UNSET


class RunsChangedData(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """A summary of changes: how many runs reached which status, in all and by job and tag."""

    count: int
    statuses: dict[str, int]
    jobs: dict[str, dict[str, int]]
    jobs_truncated: bool
    """True if `jobs` does not list all jobs whose runs changed."""
    runs: list[str]
    """The ids of some of the runs."""
    tags: dict[str, int]
    """Changes of runs by tag of their job."""
    job_events: dict[str, int]
    """Changes of jobs by event type."""


class CloudEvent(Struct, frozen=True, gc=False, kw_only=True):
    """The attributes of every event, in the JSON format of CloudEvents."""

    specversion: str = SPEC_VERSION
    id: str
    source: str = SOURCE
    type: EventType
    subject: str | None
    """`runs/ID`, `jobs/ID` or `workers/ID`; null in a summary."""
    time: str


class RunEvent(CloudEvent, frozen=True, gc=False, kw_only=True):
    data: RunEventData


class JobEvent(CloudEvent, frozen=True, gc=False, kw_only=True):
    data: JobEventData


class WorkerEvent(CloudEvent, frozen=True, gc=False, kw_only=True):
    data: WorkerEventData


class RunsChangedEvent(CloudEvent, frozen=True, gc=False, kw_only=True):
    data: RunsChangedData
