"""Runs, their attempts, and changes of many runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from timeball.client.models.answer import Answer
from timeball.client.models.jobs import Refusal
from timeball.domain.run.status import TERMINAL


class Failure(Answer, frozen=True):
    """Why an attempt failed."""

    kind: str = ""
    message: str = ""
    exit_code: int | None = None
    status: int | None = None


class Attempt(Answer, frozen=True):
    attempt: int
    executor_id: str | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    error: Failure | None = None


class Lateness(Answer, frozen=True):
    """Where the time went until a run started, in milliseconds; the parts add up to the total."""

    scheduler_ms: float = 0
    """Until there was a run to start."""
    blocked_ms: float = 0
    """While an earlier run, its turn or a limit held it back."""
    queue_ms: float = 0
    """Until a worker had room for it."""
    worker_ms: float = 0
    """Until its worker started it."""
    total_ms: float = 0

    def __str__(self) -> str:
        """The parts that count: `blocked 2400 ms + worker 3 ms`."""
        parts = {
            "scheduler": self.scheduler_ms,
            "blocked": self.blocked_ms,
            "queue": self.queue_ms,
            "worker": self.worker_ms,
        }
        return " + ".join(f"{name} {round(length)} ms" for name, length in parts.items() if length >= 1)


class Preemption(Answer, frozen=True):
    """One time that a run made room for another."""

    by: str = ""
    asked_at: datetime | None = None
    paused_at: datetime | None = None
    """When it stopped; None: it was handed back to start anew, or has not stopped yet."""
    resumed_at: datetime | None = None


class Run(Answer, frozen=True):
    run_id: str
    job_id: str = ""
    job_name: str = ""
    status: str = ""
    """`scheduled`, `blocked`, `queued`, `running` or `retrying`; `succeeded`, `failed`, `dead`, `cancelled` or
    `skipped` for good."""
    fire_time: datetime | None = None
    due_at: datetime | None = None
    """When it should start, if jitter moves that away from the fire time."""
    start_by: datetime | None = None
    """When it is too late to start."""
    blocked_by: list[str] = []
    """Why it is blocked: `overlap`, `turn`, `gate:limit:KEY`, `gate:rate:KEY` or `gate:host:NAME`."""
    ordering_key: str | None = None
    origin: str = ""
    attempt: int = 0
    executor_id: str | None = None
    fencing_token: int | None = None
    """Of the last attempt: what it wrote counts only if it wrote it under this one."""
    start_time: datetime | None = None
    end_time: datetime | None = None
    progress: str | float | None = None
    progress_note: str = ""
    error: Failure | None = None
    verdict: str = ""
    reason: str | None = None
    late_ms: float | None = None
    lateness: Lateness | None = None
    cancel_requested_at: datetime | None = None
    cancel_reason: str | None = None
    """Why it is being cancelled, while it is; then it is the `reason`."""
    retry_of: str | None = None
    retried_as: str | None = None
    replay_of: str | None = None
    followed_run_id: str | None = None
    """The run after whose end it came, if its job follows another."""
    backfill_id: str | None = None
    """The backfill that it belongs to."""
    fingerprint: str | None = None
    """The same for all runs that gave up with the same error."""
    discarded_at: datetime | None = None
    """When somebody took it off the dead letters."""
    preempted_by: str | None = None
    """The run that it makes room for: it stands still, or is about to."""
    preemptions: list[Preemption] = []
    result: Any = None
    archived: bool = False
    """It has left the store for the archive: nothing can be done with it any more."""
    attempts: list[Attempt] = []

    @property
    def done(self) -> bool:
        """Whether it has ended, one way or another: this status is final."""
        return self.status in TERMINAL

    @property
    def succeeded(self) -> bool:
        return self.status == "succeeded"


class Runs(Answer, frozen=True):
    items: list[Run]
    next_cursor: str | None = None


class RunSpec(Answer, frozen=True):
    """What a run executes, or executed."""

    run_id: str
    edited: bool = False
    """Somebody edited it for this run; else it is what its job said."""
    spec: dict[str, Any] = {}


class Retried(Answer, frozen=True):
    """One run of several: as which it was retried, or why nothing was done."""

    run_id: str
    retried_as: str | None = None
    error: Refusal | None = None


class Bulk(Answer, frozen=True):
    """What came of a change of many runs; of a dry run, only how many there are."""

    matched: int = 0
    changed: int = 0
    skipped: int = 0
    failed: list[Retried] = []
    """Why, for the first of those that were skipped."""
    created_before: datetime | None = None
    """Send it with the same request again to mean the same runs, and nothing that was created since."""
