"""Answers about jobs: lists, statuses, and the results of create, run and cancel requests."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from timeball.client.models.job import Job
from timeball.client.models.model import Model


class Jobs(Model, frozen=True):
    items: list[Job]
    next_cursor: str | None = None


class JobVersion(Model, frozen=True):
    """A definition that a job has or had."""

    version: int
    """The first version of the job with this definition."""
    at: datetime | None = None
    """The time at which the job got this definition."""
    by: str | None = None
    """The name of the API key of the request; None if the job was created with this definition, or if the name is not
    known."""
    job: dict[str, Any] = {}
    """The definition as JSON. It can be sent as an update, to restore it."""


class JobVersions(Model, frozen=True):
    items: list[JobVersion]
    next_cursor: str | None = None


class RefusedJob(Model, frozen=True):
    """A job that an action on many jobs did not change, with the reason."""

    job_id: str
    error: Refusal | None = None


class BulkJobs(Model, frozen=True):
    """The result of an action on many jobs. The answer to a dry run has only `matched` and `created_before`."""

    matched: int = 0
    changed: int = 0
    skipped: int = 0
    failed: list[RefusedJob] = []
    """The first skipped jobs of each request, with the reasons."""
    created_before: datetime | None = None
    """Repeat the action with this value to select the same jobs, without jobs that were created later."""
    next_cursor: str | None = None
    """Where the next request continues; None if all jobs that match were processed."""

    def joined(self, following: BulkJobs) -> BulkJobs:
        """Return the sum of this result and that of the next request."""
        return BulkJobs(
            matched=self.matched + following.matched,
            changed=self.changed + following.changed,
            skipped=self.skipped + following.skipped,
            failed=[*self.failed, *following.failed],
            created_before=following.created_before,
            next_cursor=following.next_cursor,
        )


class JobStatus(Model, frozen=True):
    """The status of the run that started last; if none has started, of the next run; if there is no run, of the job."""

    job_id: str
    status: str = ""
    start_time: datetime | None = None
    progress: str | float | None = None
    executor_id: str | None = None
    run_id: str | None = None
    attempt: int | None = None
    detail: str = ""
    """When the job fires, if it follows another job."""


class Triggered(Model, frozen=True):
    """A run that a request started."""

    run_id: str
    job_id: str = ""
    replay_of: str | None = None
    status: str = ""
    """`queued`; or `blocked` or `skipped`, if the overlap policy says so because an earlier run is alive."""
    detail: str = ""


class Cancelled(Model, frozen=True):
    """The result of a cancel request for a job or a workflow."""

    status: str = ""
    job_id: str | None = None
    run_id: str | None = None


class Refusal(Model, frozen=True):
    """The reason why one of several items was refused."""

    code: str = ""
    detail: str = ""


class Created(Model, frozen=True):
    """The result of one job of a batch: its id, or the reason why it was refused."""

    job_id: str | None = None
    error: Refusal | None = None
    warnings: list[str] = []


class Batch(Model, frozen=True):
    items: list[Created]
