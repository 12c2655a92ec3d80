"""The snapshots that the diagnosis of a run or a job is computed from. The store reads them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from timeball.domain.diagnosis.worker_match import WorkerOffer
from timeball.domain.dispatch.limits import TokenBucket
from timeball.domain.dispatch.preemption import Preemption
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobSpec, JobState
from timeball.domain.planning.planning_failure import PlanningFailure
from timeball.domain.run.circuit_breaker import Circuit
from timeball.domain.run.run import Attempt, Run
from timeball.domain.task.task import Task

MAX_COUNTED: Final = 10_000
"""Waiting runs are counted up to this number. A larger count means that there are more."""


class WorkflowPosition(Struct, frozen=True):
    """The progress of a workflow run."""

    tasks: int
    """Number of tasks."""
    open: int
    """Number of tasks that have not ended."""
    running: tuple[tuple[str, str | None], ...]
    """Names of some running tasks, each with the id of its run; None if the task has several runs."""


class Turn(Struct, frozen=True):
    """The state of the ordering key of a run."""

    holder: Run | None
    """The run that holds the key."""
    before: int
    """Number of live runs before this run under the key, including the holder."""


class Permits(Struct, frozen=True):
    """The state of a concurrency limit."""

    key: str
    limit: int
    taken: int
    """Number of runs that execute under the key."""
    holders: tuple[str, ...]
    """The ids of some runs that execute under the key."""


class Tokens(Struct, frozen=True):
    """The state of a rate limit."""

    key: str
    bucket: TokenBucket


class CalledHost(Struct, frozen=True):
    """The host that a run calls, with its circuit breaker."""

    host: str
    circuit: Circuit


class RunsAhead(Struct, frozen=True):
    """The numbers of claimable runs that have a better rank than a run."""

    higher: int = 0
    """Number of claimable runs with a higher priority than the diagnosed run."""
    earlier: int = 0
    """Number of claimable runs with the same or a lower priority that have a better rank because they have waited
    longer."""

    @property
    def count(self) -> int:
        return self.higher + self.earlier


class TenantQuota(Struct, frozen=True):
    """The quota of running runs of a tenant."""

    limit: int
    running: int


class DayQuota(Struct, frozen=True):
    """The quota of runs that a tenant may begin in a day, for a run that waits for another day."""

    limit: int
    begun: int
    """Number of runs that begin today."""


class Past(Struct, frozen=True, kw_only=True):
    """The snapshot of a run that has ended, as far as its data is still available."""

    now: Micros
    run: Run
    first_attempt: Attempt | None = None
    """The first attempt, if other attempts followed."""
    spec: JobSpec | None = None
    """The spec of the run: that of the job when the run was due. None if it is no longer available."""
    part_of: str | None = None
    """The id of the workflow run that the run was a task of, if it is known."""


class DiagnosisSnapshot(Past, frozen=True, kw_only=True):
    """The snapshot of a live or finished run. Fields that do not matter in its state are not read from the store."""

    job: Job
    """The current version of the job."""
    spec: JobSpec
    """The spec of the run: that of the job when the run was due."""
    task: Task | None = None
    priority: int = 0
    credit: Micros = 0
    """The waiting time, in microseconds, that one level of priority is worth when runs are ranked."""
    leased: bool = True
    """True if the worker that holds the run is alive."""
    rival: Run | None = None
    """The run of the same job that blocks this run by the overlap policy."""
    waiting_before: int = 0
    """Number of runs of the same job that wait because of overlap and come before this run."""
    turn: Turn | None = None
    permits: Permits | None = None
    tokens: Tokens | None = None
    target: CalledHost | None = None
    gate_before: int = 0
    """Number of runs that wait at the same gate and come before this run."""
    makes_room: Preemption | None = None
    """The preemption by which this run gives its slots to another run, from the request until this run is resumed; None
    if there is none."""
    room_made: Preemption | None = None
    """The preemption by which another run gives its slots to this run, from the request until the other run is resumed;
    None if there is none."""
    advancing: WorkflowPosition | None = None
    """The progress of a workflow run; None for any other run."""
    workers: tuple[WorkerOffer, ...] = ()
    """The live workers that serve the tenant and accept new runs."""
    draining: int = 0
    """Number of live workers that serve the tenant and were ordered to drain. They are not in `workers`."""
    ahead: RunsAhead = RunsAhead()
    """The waiting runs of the same tenant that are claimed before this one."""
    quota: TenantQuota | None = None
    """The quota of running runs of the tenant; None if there is none."""
    day_quota: DayQuota | None = None
    """The quota of runs per day, if the run waits for a day with room; else None."""


class Followed(Struct, frozen=True):
    """The job that the diagnosed job follows."""

    name: str
    state: JobState | None
    """None if the job no longer exists."""


class Standing(Struct, frozen=True, kw_only=True):
    """The snapshot of a job."""

    now: Micros
    job: Job
    alive: int
    """Number of live runs of the job, counted up to a limit."""
    next_fire: Micros | None
    """The first fire that is in the future or not planned yet."""
    run: DiagnosisSnapshot | None
    """The first live run of the job, or else the newest finished run."""
    followed: Followed | None = None
    planning_failure: PlanningFailure | None = None
    exceptions: tuple[Run, ...] = ()
    """The latest fires that did not start on time, newest first."""
