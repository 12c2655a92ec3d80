"""A job: what to run, when, and by which rules; and where its schedule stands."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

import msgspec
from msgspec import Meta, Struct

from timeball.domain import priority, schedule
from timeball.domain.duration import Duration
from timeball.domain.instant import SECOND, Micros
from timeball.domain.overlap import Overlap
from timeball.domain.retry import Retry
from timeball.domain.schedule import Immediate, Schedule
from timeball.domain.task import DEFAULT_GRACE, Task, check_duration

Name = Annotated[str, Meta(max_length=200)]
CatchUp = Literal["all", "last", "none"]

HORIZON: Final = 15 * SECOND
"""How far ahead a fire becomes a run row, so that nothing has to be found at the moment it is due."""


class JobState(StrEnum):
    """What its owner wants of the job. Whether it is *completed* follows from what is left to do."""

    ACTIVE = "active"
    """Fires as scheduled."""
    PAUSED = "paused"
    """Fires nothing until it is resumed; then the catch-up rule decides about what fell due meanwhile."""
    CANCELLED = "cancelled"
    """Fires nothing any more. Final."""


class JobSpec(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What a user wrote, in its canonical form. Every acknowledged change of it is a new version."""

    name: Name = ""
    description: Annotated[str, Meta(max_length=4_096)] = ""
    task: Task | None = None
    task_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    parameters: dict[str, Any] = {}
    schedule: Schedule = Immediate()
    retry: Retry = Retry()
    priority: Literal["high", "medium", "low"] | Annotated[int, Meta(ge=0, le=9)] = "medium"
    timeout: Duration | None = None
    grace: Duration = DEFAULT_GRACE
    overlap: Overlap = Overlap.QUEUE
    catch_up: CatchUp = "all"
    catch_up_window: Duration = "1h"
    tags: Annotated[list[Annotated[str, Meta(min_length=1, max_length=100)]], Meta(max_length=50)] = []
    user_id: Annotated[str, Meta(max_length=200)] = ""

    def __post_init__(self) -> None:
        check_duration("timeout", self.timeout, shortest=1)
        check_duration("grace", self.grace)
        check_duration("catchUpWindow", self.catch_up_window)
        if (self.task is None) == (self.task_id is None):
            raise ValueError("a job needs either a task or the taskId of a registered one")

    @property
    def one_shot(self) -> bool:
        return schedule.is_one_shot(self.schedule)

    @property
    def level(self) -> int:
        return priority.level(self.priority)


class Job(Struct, frozen=True, kw_only=True):
    """A job as the store holds it."""

    id: str
    tenant: str
    spec: JobSpec
    version: int
    """Grows with every acknowledged change; the planner writes only where it is still what it read."""
    state: JobState
    anchor: Micros
    """When its schedule took effect; the grid of an interval starts here."""
    next_fire_at: Micros | None
    """The first instant that is not yet a run or a ledger span. None: the schedule is exhausted."""
    plan_at: Micros | None
    """When the planner has to look at it: `HORIZON` before the next fire, but not before the last planned one
    fell due, so that at most one future run exists. None: never."""
    created_at: Micros
    updated_at: Micros
    pause_reason: str = ""
    last_span: str | None = None
    """The ledger row of the newest instants if those were missed or skipped: the next such instant joins it."""

    @property
    def serial(self) -> bool:
        """Whether its runs have to look at each other: a one-shot has nobody to overlap with."""
        return self.spec.overlap is not Overlap.ALLOW and not self.spec.one_shot

    @property
    def spread(self) -> str:
        """What `H` hashes: stable for a job of this name."""
        return f"{self.tenant}/{self.spec.name or self.id}"

    def with_(self, **changes: Any) -> Self:
        return msgspec.structs.replace(self, **changes)


def plan_at(next_fire_at: Micros | None, last_planned: Micros | None) -> Micros | None:
    """When the planner must look next, given the last instant it turned into a (possibly future) run."""
    if next_fire_at is None:
        return last_planned
    return next_fire_at - HORIZON if last_planned is None else max(next_fire_at - HORIZON, last_planned)


def is_overdue(job: Job, now: Micros) -> bool:
    """Whether the planner has something to decide about it first: an instant that fell due, or a blocked run."""
    return job.state is JobState.ACTIVE and job.plan_at is not None and job.plan_at <= now


encode_spec = msgspec.json.Encoder().encode
decode_spec = msgspec.json.Decoder(JobSpec).decode
