"""What has to be known to tell why a run, or a job, is where it is: a snapshot, gathered by the store."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from timeball.domain.diagnosis.worker_match import WorkerView
from timeball.domain.dispatch.limits import TokenBucket
from timeball.domain.dispatch.preemption import Preemption
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobSpec, JobState
from timeball.domain.planning.planning_failure import PlanningFailure
from timeball.domain.run.circuit_breaker import Circuit
from timeball.domain.run.run import Attempt, Run
from timeball.domain.task.task import Task

MAX_COUNTED: Final = 10_000
"""Runs that wait are counted up to here; a count above says that there are more."""


class WorkflowPosition(Struct, frozen=True):
    """Where a workflow run stands."""

    tasks: int
    open: int
    """Tasks that have not ended."""
    running: tuple[tuple[str, str | None], ...]
    """Some of those that have begun, by name, with their run if they have only one."""


class Turn(Struct, frozen=True):
    """Whose turn it is under a run's ordering key."""

    holder: Run | None
    before: int
    """Live runs that come before it under the key, the holder included."""


class Permits(Struct, frozen=True):
    """A concurrency key."""

    key: str
    limit: int
    taken: int
    holders: tuple[str, ...]
    """Some of the runs that hold a permit."""


class Tokens(Struct, frozen=True):
    """A rate limit."""

    key: str
    bucket: TokenBucket


class Target(Struct, frozen=True):
    """The host that a run calls."""

    host: str
    circuit: Circuit


class Ahead(Struct, frozen=True):
    """Claimable runs that go before one."""

    higher: int = 0
    """Of a higher priority."""
    earlier: int = 0
    """Of the same or a lower one, which have waited longer."""

    @property
    def count(self) -> int:
        return self.higher + self.earlier


class Past(Struct, frozen=True, kw_only=True):
    """Of a run that has ended, as far as it is remembered."""

    now: Micros
    run: Run
    first_attempt: Attempt | None = None
    """If others followed it."""
    spec: JobSpec | None = None
    """What the run followed: the job as it was when the run fell due. None: nobody knows any more."""
    part_of: str | None = None
    """The workflow run that it was a task of, if that is known."""


class DiagnosisSnapshot(Past, frozen=True, kw_only=True):
    """Of one run. What does not matter in its state is not looked up."""

    job: Job
    """As it is now."""
    spec: JobSpec
    """What the run follows: the job as it was when the run fell due."""
    task: Task | None = None
    priority: int = 0
    credit: Micros = 0
    """What one level of priority is worth in waiting time."""
    leased: bool = True
    """Whether the worker that holds it is alive."""
    rival: Run | None = None
    """The run of its job that is in its way."""
    waiting_before: int = 0
    """Runs of its job that wait for the same, and come before it."""
    turn: Turn | None = None
    permits: Permits | None = None
    tokens: Tokens | None = None
    target: Target | None = None
    gate_before: int = 0
    """Runs that wait at the same gate and come before it."""
    makes_room: Preemption | None = None
    """While it stands still for another run, or is about to."""
    room_made: Preemption | None = None
    """While another run stands still for it, or is about to."""
    weaving: WorkflowPosition | None = None
    """How far it is, if it is a workflow run."""
    crew: tuple[WorkerView, ...] = ()
    ahead: Ahead = Ahead()


class Followed(Struct, frozen=True):
    """The job that another one follows."""

    name: str
    state: JobState | None
    """None: it is gone."""


class Standing(Struct, frozen=True, kw_only=True):
    """Of one job."""

    now: Micros
    job: Job
    alive: int
    """Its live runs, as far as they were counted."""
    next_fire: Micros | None
    """The first instant that has not come, or that nobody has planned yet."""
    run: DiagnosisSnapshot | None
    """Its first live run, else the newest that ended."""
    followed: Followed | None = None
    planning_failure: PlanningFailure | None = None
    exceptions: tuple[Run, ...] = ()
    """The newest instants that did not start on time, newest first."""
