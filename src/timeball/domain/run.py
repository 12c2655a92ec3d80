"""A run: what became of a fire, or of a manual trigger."""

from __future__ import annotations

from msgspec import Raw, Struct

from timeball.domain import lifecycle
from timeball.domain.instant import Micros
from timeball.domain.ledger import DUE, Origin, Verdict
from timeball.domain.lifecycle import Failure, State, Status


class NewRun(Struct, frozen=True, kw_only=True):
    """A run to be inserted."""

    id: str
    job_id: str
    tenant: str
    version: int
    fire_time: Micros
    origin: Origin
    priority: int
    eligible_at: Micros
    serial: bool
    """Belongs to a job whose runs must not overlap: ending it looks for the next one under the job's lock."""
    created_at: Micros
    retry_of: str | None = None


class Run(Struct, frozen=True, kw_only=True):
    """A run as users see it, live or finished."""

    id: str
    job_id: str
    tenant: str
    job_name: str
    version: int
    fire_time: Micros
    fire_until: Micros
    """The last instant of a span; the fire time itself for everything else."""
    fires: int
    """How many instants the row covers; 1 but for spans."""
    origin: Origin
    status: Status
    verdict: Verdict
    reason: str
    attempt: int
    token: int | None
    worker: str | None
    """The name of the worker that has or had the last attempt."""
    eligible_at: Micros | None
    created_at: Micros
    claimed_at: Micros | None
    started_at: Micros | None
    """When the first attempt started."""
    attempt_started_at: Micros | None
    finished_at: Micros | None
    cancel_requested_at: Micros | None
    progress: float | None
    progress_note: str
    failure: Failure | None
    """Of the last attempt that failed."""
    result: Raw | None
    retry_of: str | None
    retried_as: str | None

    @property
    def is_terminal(self) -> bool:
        return self.status in lifecycle.TERMINAL

    @property
    def is_due_instant(self) -> bool:
        return self.origin in DUE


class Attempt(Struct, frozen=True, kw_only=True):
    """One try that did not end the run: the last one is told by the run itself."""

    attempt: int
    token: int
    worker: str
    started_at: Micros | None
    finished_at: Micros
    failure: Failure | None


__all__ = ["Attempt", "NewRun", "Run", "State", "Status"]
