"""A run: one execution of a job, caused by a fire or requested by a user."""

from __future__ import annotations

from msgspec import Raw, Struct, structs

from timeball.domain import duration
from timeball.domain.dispatch import placement, preemption
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobSpec, jitter_of
from timeball.domain.run.ledger import DUE, Origin, Verdict
from timeball.domain.run.lifecycle import Failure, Hold
from timeball.domain.run.status import TERMINAL, Status
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.domain.workflow.definition import WORKFLOW_PROFILE


class NewRun(Struct, frozen=True, gc=False, kw_only=True):
    """A run that is to be inserted into the store."""

    id: str
    job_id: str
    tenant: str
    version: int
    fire_time: Micros
    origin: Origin
    priority: int
    eligible_at: Micros
    serial: bool
    """True if the run is settled under the lock on its job, because its end affects other rows of the job: runs that
    must not overlap with it, the workflow run that it is or belongs to, or its backfill."""
    created_at: Micros
    retry_of: str | None = None
    """The id of the earlier run: the run that this one retries or replays, or the run of another job whose end caused
    this one. For a backfill, the id of the backfill."""
    spec: JobSpec | None = None
    """The spec of the run, if a user edited it; None if the run executes the spec of its job."""
    due_at: Micros | None = None
    """The instant at which the run should start, if jitter makes it differ from the fire time."""
    start_by: Micros | None = None
    """The start deadline: the last instant at which the run may start."""
    ordering_key: str | None = None
    gated: bool = False
    """True if the run shares a concurrency or rate limit with other runs."""
    profile: str | None = None
    """The placement profile: the requirements on a worker. None without special requirements."""
    preemptible: int | None = None
    """Number of times that the run may be preempted; None if its job does not allow it."""

    @property
    def is_simple(self) -> bool:
        """True if the run has no constraints: it is not `serial`, and has no ordering key, limit, placement profile,
        jitter, start deadline or preemption."""
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
    """Return a new run of the current version of a job. It is due at its fire time plus its jitter, unless `due_at` is
    given. `eligible_at` defaults to the time at which it is due, and is never earlier."""
    spec = job.spec if edited is None else edited
    if due_at is None:
        due_at = fire_time
        if job.spec.jitter is not None and origin in DUE:
            due_at += jitter_of(job, fire_time)
    profile = spec.profile
    if job.tenant != DEFAULT_TENANT and profile is not WORKFLOW_PROFILE:
        profile = placement.profile(spec.need.of_tenant(job.tenant), spec.level)
    run = NewRun(  # at most 15 keywords: with a 16th, Python builds a dictionary of them, which takes twice the time
        id=run_id,
        job_id=job.id,
        tenant=job.tenant,
        version=job.version,
        fire_time=fire_time,
        origin=origin,
        priority=spec.level,
        eligible_at=due_at if eligible_at is None or eligible_at < due_at else eligible_at,
        serial=job.serial or profile is WORKFLOW_PROFILE or origin is Origin.TASK,
        created_at=now,
        due_at=None if due_at == fire_time else due_at,
        start_by=None if spec.start_deadline is None else due_at + duration.parse(spec.start_deadline),
        ordering_key=spec.ordering_key,
        gated=spec.gated,
        profile=profile,
    )
    if retry_of is None and edited is None and not spec.preemptible:
        return run
    preemptible = preemption.MAX_PREEMPTIONS if spec.preemptible and profile is not WORKFLOW_PROFILE else None
    return structs.replace(run, retry_of=retry_of, spec=edited, preemptible=preemptible)


class Run(Struct, frozen=True, kw_only=True):
    """A run as users see it, live or finished. A row that stands for several missed or skipped fires (a span) has this
    form, too."""

    id: str
    job_id: str
    tenant: str
    job_name: str
    version: int
    fire_time: Micros
    fire_until: Micros
    """The last fire of a span; the fire time itself for a single run."""
    fires: int
    """Number of fires that the row covers: more than 1 only for a span."""
    origin: Origin
    status: Status
    verdict: Verdict
    reason: str
    attempt: int
    token: int | None
    worker: str | None
    """The name of the worker that executes or executed the last attempt."""
    eligible_at: Micros | None
    created_at: Micros
    claimed_at: Micros | None
    started_at: Micros | None
    """The instant at which the first attempt started."""
    attempt_started_at: Micros | None
    finished_at: Micros | None
    cancel_requested_at: Micros | None
    progress: float | None
    progress_note: str
    failure: Failure | None
    """The failure of the last attempt that failed."""
    result: Raw | None
    retry_of: str | None
    """The id of the earlier run: the run that this one retries or replays, or the run of another job whose end caused
    this one. For a run of a backfill, the id of the backfill. `origin` tells which."""
    retried_as: str | None
    due_at: Micros | None = None
    """The fire time plus jitter; None without jitter."""
    holds: Hold = Hold(0)
    """The holds that block the run."""
    gate: str | None = None
    """The gate at which the run waits, if it waits at one."""
    start_by: Micros | None = None
    ordering_key: str | None = None
    gated: bool = False
    profile: str | None = None
    fingerprint: str | None = None
    discarded_at: Micros | None = None
    cancel_reason: str = ""
    """The reason of a requested cancel. It becomes `reason` when the run ends."""

    @property
    def blocked_by(self) -> list[str]:
        """The holds of a due run: `overlap`, `turn`, `gate:limit:KEY`, `gate:rate:KEY`, `gate:host:NAME`."""
        if self.status is not Status.BLOCKED:
            return []
        names = {Hold.OVERLAP: "overlap", Hold.TURN: "turn", Hold.GATE: f"gate:{self.gate}"}
        return [name for hold, name in names.items() if hold in self.holds]

    @property
    def due(self) -> Micros:
        """The instant at which the run should start."""
        return self.fire_time if self.due_at is None else self.due_at

    @property
    def cause(self) -> str | None:
        """The id of the run of another job whose end caused this run; None if no such end caused it."""
        return self.retry_of if self.origin in DUE and self.fires == 1 else None

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def is_due_instant(self) -> bool:
        return self.origin in DUE


class Attempt(Struct, frozen=True, kw_only=True):
    """One attempt before the last one. The run itself has the fields of the last attempt."""

    attempt: int
    token: int
    worker: str
    started_at: Micros | None
    finished_at: Micros
    failure: Failure | None
    claimed_at: Micros | None = None
    eligible_at: Micros | None = None
    """The instant from which on the attempt could be claimed."""
