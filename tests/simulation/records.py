"""What is written down outside the system, for the checker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from timeball.domain.job.job import JobSpec

Micros = int
FOREVER: Micros = 1 << 62


@dataclass(slots=True)
class Witness:
    """One execution, as the job process itself saw it."""

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
    """`succeeded`, `failed`, `stopped` (told to), `killed` (by its guard, or with its worker),
    `unwell` (the host it called was)."""
    stopped: bool = False
    """Whether its worker told it to stop."""
    pauses: list[tuple[Micros, Micros | None]] = field(default_factory=list)
    """From when to when it stood still."""

    def stands_still(self, at: Micros) -> bool:
        return any(since <= at and (until is None or at < until) for since, until in self.pauses)


@dataclass(slots=True)
class Request:
    """One call of a client: when it was made, when it was answered, and until when it could have an effect."""

    kind: str
    uid: int
    invoked: Micros
    answered: Micros | None = None
    over: Micros | None = None
    """When the server was done with it, dead or alive."""
    delivered: bool = False
    outcome: str = "unknown"
    """`ok`, `refused` (nothing happened) or `unknown` (it may have happened)."""
    answer: Any = None
    rev: int | None = None
    spec: JobSpec | None = None
    run_id: str | None = None
    until: Micros | None = None
    """When a pause ends by itself."""
    backfill: Any = None
    """What was asked for."""
    batch: Request | None = None
    """The call that carried this one too."""

    @property
    def lo(self) -> Micros:
        return self.invoked

    @property
    def hi(self) -> Micros:
        """It took effect by then, if at all."""
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
    """What clients did with one job, in the order they did it."""

    uid: int
    spec: JobSpec
    key: str | None
    submissions: list[Request] = field(default_factory=list)
    changes: list[Request] = field(default_factory=list)
    """Updates, pauses, resumes and cancels of the job."""
    others: list[Request] = field(default_factory=list)
    """What they did with its runs."""
    job_id: str | None = None

    @property
    def recurring(self) -> bool:
        return not self.spec.one_shot


class Violation(Exception):
    """A promise was broken."""

    def __init__(self, promise: str, detail: str) -> None:
        super().__init__(f"{promise}: {detail}")
        self.promise = promise
        self.detail = detail
