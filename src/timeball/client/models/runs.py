"""Answers about runs, their attempts, and changes of many runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from timeball.client.models.jobs import Refusal
from timeball.client.models.model import Model
from timeball.domain.run.status import TERMINAL


class Failure(Model, frozen=True):
    """The error of an attempt."""

    kind: str = ""
    message: str = ""
    exit_code: int | None = None
    status: int | None = None


class Attempt(Model, frozen=True):
    """One execution of a run on a worker."""

    attempt: int
    executor_id: str | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    error: Failure | None = None


class Lateness(Model, frozen=True):
    """The time from the due time of a run until its start, in milliseconds. The parts add up to the total."""

    scheduler_ms: float = 0
    """Milliseconds from the due time until the run was created."""
    blocked_ms: float = 0
    """Milliseconds during which an earlier run, the ordering key or a limit blocked the run."""
    queue_ms: float = 0
    """Milliseconds during which the run waited for a worker with free capacity."""
    worker_ms: float = 0
    """Milliseconds from the assignment until the worker started the run."""
    total_ms: float = 0

    def __str__(self) -> str:
        """Return the parts of at least 1 ms: `blocked 2.4 s + worker 3 ms`."""
        parts = {
            "scheduler": self.scheduler_ms,
            "blocked": self.blocked_ms,
            "queue": self.queue_ms,
            "worker": self.worker_ms,
        }
        return " + ".join(f"{name} {_duration(length)}" for name, length in parts.items() if length >= 1)


def _duration(milliseconds: float) -> str:
    return f"{round(milliseconds)} ms" if milliseconds < 1_000 else f"{milliseconds / 1_000:,.1f} s"


class Preemption(Model, frozen=True):
    """One preemption of a run by a run of a higher priority."""

    by: str = ""
    asked_at: datetime | None = None
    paused_at: datetime | None = None
    """When the run was suspended. None if it was released to start again, or is not suspended yet."""
    resumed_at: datetime | None = None


class Run(Model, frozen=True):
    """One execution of a job or of a task of a workflow; or one entry for consecutive fires that never ran."""

    run_id: str
    job_id: str = ""
    job_name: str = ""
    status: str = ""
    """`scheduled`, `blocked`, `queued`, `running` or `retrying`; finally `succeeded`, `failed`, `dead`, `cancelled` or
    `skipped`."""
    fire_time: datetime | None = None
    due_at: datetime | None = None
    """When the run should start, if jitter makes that later than the fire time."""
    start_by: datetime | None = None
    """The last time at which the run may start."""
    blocked_by: list[str] = []
    """What blocks the run: `overlap` (an earlier run of the job), `turn` (its ordering key), `gate:limit:KEY`,
    `gate:rate:KEY` or `gate:host:NAME` (the circuit breaker of a host)."""
    ordering_key: str | None = None
    origin: str = ""
    attempt: int = 0
    executor_id: str | None = None
    fencing_token: int | None = None
    """Fencing token of the last attempt. The server accepts reports about the run only with this token."""
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
    """The reason of a cancellation in progress. Afterwards it is the `reason`."""
    retry_of: str | None = None
    retried_as: str | None = None
    replay_of: str | None = None
    followed_run_id: str | None = None
    """The run of the followed job whose end caused this run, if the job follows another."""
    backfill_id: str | None = None
    """The backfill that the run belongs to."""
    fingerprint: str | None = None
    """Fingerprint of the error; the same for all dead letters with the same error."""
    discarded_at: datetime | None = None
    """When the run was discarded from the dead letters."""
    preempted_by: str | None = None
    """The run for which this run is suspended, or is about to be."""
    preemptions: list[Preemption] = []
    result: Any = None
    archived: bool = False
    """True if the run is only in the archive. It cannot be changed any more."""
    attempts: list[Attempt] = []

    @property
    def done(self) -> bool:
        """True if the run has ended, in any way. Its status is then final."""
        return self.status in TERMINAL

    @property
    def succeeded(self) -> bool:
        return self.status == "succeeded"


class Runs(Model, frozen=True):
    items: list[Run]
    next_cursor: str | None = None


class RunSpec(Model, frozen=True):
    """The spec that a run executes or executed."""

    run_id: str
    edited: bool = False
    """True if the spec was edited for this run; otherwise it is the spec that the job had when the run became due."""
    spec: dict[str, Any] = {}


class Retried(Model, frozen=True):
    """The result of an action on one of several runs: the new run, if the action creates one, or the reason why the
    action was refused."""

    run_id: str
    retried_as: str | None = None
    error: Refusal | None = None


class Bulk(Model, frozen=True):
    """The result of an action on many runs. The answer to a dry run has only `matched` and `created_before`."""

    matched: int = 0
    changed: int = 0
    skipped: int = 0
    failed: list[Retried] = []
    """The first skipped runs, with the reasons."""
    created_before: datetime | None = None
    """Repeat the request with this value to select the same runs, without runs that were created later."""
