"""Records outside of the system, for the checker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from timeball.domain.job.job import JobSpec

Micros = int
FOREVER: Micros = 1 << 62


@dataclass(slots=True)
class Witness:
    """One execution, as the job process itself recorded it."""

    uid: int
    rev: int
    job_id: str
    run_id: str
    attempt: int
    token: int
    fire_time: Micros
    worker: str
    start: Micros
    spec: JobSpec
    end: Micros | None = None
    how: str = ""
    """`succeeded`, `failed`, `stopped` (after a signal), `killed` (by its guard, or with its worker), `unwell` (the
    host that it called was).
    """
    stopped: bool = False
    """True if its worker ordered it to stop."""
    pauses: list[tuple[Micros, Micros | None]] = field(default_factory=list)
    """The times at which it was suspended and resumed."""

    def stands_still(self, at: Micros) -> bool:
        return any(since <= at and (until is None or at < until) for since, until in self.pauses)


@dataclass(slots=True)
class Request:
    """One request of a client: when it was sent, when it was answered, and until when it could take effect."""

    kind: str
    uid: int
    invoked: Micros
    answered: Micros | None = None
    over: Micros | None = None
    """When the server had finished the request, or had died."""
    delivered: bool = False
    outcome: str = "unknown"
    """`ok`, `refused` (nothing happened) or `unknown` (it may have taken effect)."""
    answer: Any = None
    rev: int | None = None
    spec: JobSpec | None = None
    run_id: str | None = None
    until: Micros | None = None
    """When a pause ends by itself."""
    backfill: Any = None
    """The backfill that was requested."""
    batch: Request | None = None
    """The batch request that contained this one."""

    @property
    def lo(self) -> Micros:
        return self.invoked

    @property
    def hi(self) -> Micros:
        """The instant by which it took effect, if it did."""
        over = self.over if self.batch is None else self.batch.over
        bounds = [bound for bound in (self.answered if self.outcome == "ok" else None, over) if bound is not None]
        return min(bounds) if bounds else FOREVER

    @property
    def happened(self) -> bool:
        return self.outcome == "ok"

    @property
    def possible(self) -> bool:
        arrived = self.delivered if self.batch is None else self.batch.delivered
        return self.outcome == "ok" or (self.outcome == "unknown" and arrived)


@dataclass(slots=True)
class JobRecord:
    """The requests of clients about one job, in order."""

    uid: int
    tenant: str
    spec: JobSpec
    key: str | None = None
    submissions: list[Request] = field(default_factory=list)
    changes: list[Request] = field(default_factory=list)
    """Updates, pauses, resumes and cancels of the job."""
    others: list[Request] = field(default_factory=list)
    """Requests about its runs."""
    job_id: str | None = None

    @property
    def recurring(self) -> bool:
        return not self.spec.one_shot


class Violation(Exception):
    """Raised if a promise was broken."""

    def __init__(self, promise: str, detail: str) -> None:
        super().__init__(f"{promise}: {detail}")
        self.promise = promise
        self.detail = detail
