"""A run: what became of a fire, or of a manual trigger."""

from __future__ import annotations

from msgspec import Raw, Struct, structs

from timeball.domain import duration
from timeball.domain.dispatch import preemption
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobSpec, jitter_of
from timeball.domain.run.ledger import DUE, Origin, Verdict
from timeball.domain.run.lifecycle import Failure, Hold
from timeball.domain.run.status import TERMINAL, Status
from timeball.domain.workflow.definition import WOVEN


class NewRun(Struct, frozen=True, gc=False, kw_only=True):
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
    """Its end concerns others of its job, and happens under the job's lock: runs that must not overlap with it, or the
    workflow that it is, or is a task of."""
    created_at: Micros
    retry_of: str | None = None
    """The run that it follows: as its retry, as its replay, or because its job follows another."""
    spec: JobSpec | None = None
    """What it executes, if somebody edited that; else what its job says."""
    due_at: Micros | None = None
    """When it should start, if jitter moves that away from the fire time."""
    start_by: Micros | None = None
    """When it is too late to start."""
    ordering_key: str | None = None
    gated: bool = False
    """Shares a limit with others."""
    profile: str | None = None
    """What it asks of a worker, if that is anything special."""
    preemptible: int | None = None
    """How often it may be asked to make room for another."""

    @property
    def is_simple(self) -> bool:
        """Whether it has to look neither at others, nor at the clock, nor at who runs it."""
        return (
            not self.serial
            and self.ordering_key is None
            and not self.gated
            and self.profile is None
            and self.due_at is None
            and self.start_by is None
            and self.preemptible is None
        )


def new_run(
    job: Job,
    run_id: str,
    origin: Origin,
    fire_time: Micros,
    now: Micros,
    *,
    eligible_at: Micros | None = None,
    due_at: Micros | None = None,
    retry_of: str | None = None,
    edited: JobSpec | None = None,
) -> NewRun:
    """A run of a job as it is now. It should start at its fire time and its jitter, unless `due_at` says otherwise, and
    `eligible_at` is by default that moment."""
    spec = job.spec if edited is None else edited
    if due_at is None:
        due_at = fire_time + jitter_of(job, fire_time) if origin in DUE else fire_time
    profile = spec.profile
    run = NewRun(  # not more than 15 keywords: with the 16th, Python makes a dictionary of them, at twice the price
        id=run_id,
        job_id=job.id,
        tenant=job.tenant,
        version=job.version,
        fire_time=fire_time,
        origin=origin,
        priority=spec.level,
        eligible_at=due_at if eligible_at is None else max(eligible_at, due_at),
        serial=job.serial or profile is WOVEN or origin is Origin.TASK,
        created_at=now,
        due_at=None if due_at == fire_time else due_at,
        start_by=None if spec.start_deadline is None else due_at + duration.parse(spec.start_deadline),
        ordering_key=spec.ordering_key,
        gated=spec.gated,
        profile=profile,
    )
    if retry_of is None and edited is None and not spec.preemptible:
        return run
    preemptible = preemption.MOST if spec.preemptible and profile is not WOVEN else None
    return structs.replace(run, retry_of=retry_of, spec=edited, preemptible=preemptible)


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
    """The run that it follows: as its retry, or, by its origin, as its replay, or because its job follows another."""
    retried_as: str | None
    due_at: Micros | None = None
    """The fire time and its jitter, where there is some."""
    holds: Hold = Hold(0)
    """What keeps it from being claimed."""
    gate: str | None = None
    """Where it waits, if that is at a gate."""
    start_by: Micros | None = None
    ordering_key: str | None = None
    gated: bool = False
    profile: str | None = None
    fingerprint: str | None = None
    discarded_at: Micros | None = None
    cancel_reason: str = ""
    """Why it was asked to stop, until that is the reason of its end."""

    @property
    def blocked_by(self) -> list[str]:
        """What a run waits for that is due: `overlap`, `turn`, `gate:limit:KEY`, `gate:rate:KEY`, `gate:host:NAME`."""
        if self.status is not Status.BLOCKED:
            return []
        names = {Hold.OVERLAP: "overlap", Hold.TURN: "turn", Hold.GATE: f"gate:{self.gate}"}
        return [name for hold, name in names.items() if hold in self.holds]

    @property
    def due(self) -> Micros:
        """When it should start."""
        return self.fire_time if self.due_at is None else self.due_at

    @property
    def cause(self) -> str | None:
        """The run of another job after whose end it came, if its job follows that."""
        return self.retry_of if self.origin in DUE and self.fires == 1 else None

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

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
    claimed_at: Micros | None = None
    eligible_at: Micros | None = None
    """From when it could be claimed."""
