"""Answers about jobs: what became of a request to create, run or cancel one, and where one stands."""

from __future__ import annotations

from datetime import datetime

from timeball.client.models.answer import Answer
from timeball.client.models.job import Job


class Jobs(Answer, frozen=True):
    items: list[Job]
    next_cursor: str | None = None


class JobStatus(Answer, frozen=True):
    """A job's newest run at a glance."""

    job_id: str
    status: str = ""
    start_time: datetime | None = None
    progress: str | float | None = None
    executor_id: str | None = None
    run_id: str | None = None
    attempt: int | None = None
    detail: str = ""
    """When it fires, of a job that follows another."""


class Triggered(Answer, frozen=True):
    """The run that a person asked for."""

    run_id: str
    job_id: str = ""
    replay_of: str | None = None
    status: str = ""
    """`queued`; `blocked` or `skipped`, if an earlier run is alive and the overlap policy says so."""
    detail: str = ""


class Cancelled(Answer, frozen=True):
    """What became of the thing that was to be cancelled."""

    status: str = ""
    job_id: str | None = None
    run_id: str | None = None


class Refusal(Answer, frozen=True):
    """Why one item of several was refused."""

    code: str = ""
    detail: str = ""


class Created(Answer, frozen=True):
    """One item of a batch: the job, or what was wrong with it."""

    job_id: str | None = None
    error: Refusal | None = None
    warnings: list[str] = []


class Batch(Answer, frozen=True):
    items: list[Created]
