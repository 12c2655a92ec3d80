"""The JSON views of jobs, runs and related objects. Times are RFC 3339 in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType

from timeball.domain.dispatch.preemption import Preemption
from timeball.domain.instant import MILLISECOND, Micros, render
from timeball.domain.run import lateness, lifecycle
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.run import Attempt, Run
from timeball.domain.run.status import Status
from timeball.domain.text.schedule_text import clock
from timeball.jobspec.spec_view import SpecView, encode, view_of
from timeball.ports.store.jobs import JobStatus

JobStatusName = Literal["scheduled", "paused", "completed", "cancelled"]


class JobView(SpecView, frozen=True, rename="camel", kw_only=True):
    """A job in an answer: its spec, its status and its next fire."""

    job_id: str
    status: JobStatusName
    version: int
    next_fire_at: str | None
    slot: str | UnsetType = UNSET
    """The time of day that the job got in its window."""
    created_at: str
    updated_at: str
    pause_reason: str | UnsetType = UNSET
    paused_until: str | UnsetType | None = UNSET
    """When a paused job is resumed automatically; null if a user has to resume it."""
    warnings: list[str] | UnsetType = UNSET
    """In the answer to a create or an update: for example that no live worker could run the job. When a job is read:
    why it cannot be planned.
    """


View = TypeVar("View", bound=JobView)


def job_view(found: JobStatus) -> JobView:
    return extended_job_view(JobView, found)


def extended_job_view(kind: type[View], found: JobStatus, **more: Any) -> View:
    """Return a view of the type `kind`; `more` has the values of the fields that it adds to `JobView`."""
    job = found.job
    # A paused schedule does not fire, but a run that was planned before the pause may still start.
    idle = found.status == "paused" and found.next_run_at == job.next_fire_at
    created_at = render(job.created_at)
    next_fire_at = created_at if found.next_run_at == job.created_at else moment(found.next_run_at)
    return view_of(
        kind,
        job.spec,
        job_id=job.id,
        status=found.status,
        version=job.version,
        next_fire_at=None if idle else next_fire_at,
        slot=UNSET if job.slot is None else clock(job.slot, seconds=True),
        created_at=created_at,
        updated_at=created_at if job.updated_at == job.created_at else render(job.updated_at),
        pause_reason=job.pause_reason if found.status == "paused" else UNSET,
        paused_until=moment(job.paused_until) if found.status == "paused" else UNSET,
        warnings=list(found.warnings) or UNSET,
        **more,
    )


def render_job(found: JobStatus) -> bytes:
    return encode(job_view(found))


def moment(at: Micros | None) -> str | None:
    return None if at is None else render(at)


class ErrorView(Struct, frozen=True, rename="camel", kw_only=True):
    """Why an attempt failed."""

    kind: str
    message: str
    exit_code: int | UnsetType = UNSET
    status: int | UnsetType = UNSET
    """The HTTP status, for `http` tasks."""
    exceptions: tuple[str, ...] | UnsetType = UNSET


class AttemptView(Struct, frozen=True, rename="camel", kw_only=True):
    """One attempt of a run."""

    attempt: int
    fencing_token: int | None
    executor_id: str | None
    start_time: str | None
    end_time: str | None
    error: ErrorView | None


class PreemptionView(Struct, frozen=True, rename="camel", kw_only=True):
    """One preemption of a run by another one."""

    by: str
    asked_at: str
    paused_at: str | None
    """When the run was suspended; null if it was returned to the queue, or was not suspended yet."""
    resumed_at: str | None
    """When the run was resumed, was returned to the queue, or ended."""


class LatenessView(Struct, frozen=True, rename="camel"):
    """How the delay until the start of a run is composed. The parts add up to the total."""

    scheduler_ms: float
    """Milliseconds from the due time until the run was created."""
    blocked_ms: float
    """Milliseconds during which an earlier run, its ordering key or a limit blocked the run."""
    queue_ms: float
    """Milliseconds during which the run waited for a free slot of a worker."""
    worker_ms: float
    """Milliseconds from the assignment until the worker started the run."""
    total_ms: float


class RunView(Struct, frozen=True, rename="camel", kw_only=True):
    """A run: one execution of a job or of a task of a workflow. Also a row of several fires that never ran."""

    run_id: str
    job_id: str
    job_name: str
    job_version: int
    status: Status
    fire_time: str
    fire_until: str | UnsetType = UNSET
    """The last fire, if the row stands for several consecutive fires."""
    fires: int | UnsetType = UNSET
    due_at: str | UnsetType = UNSET
    """When the run should start, if jitter moves that away from the fire time."""
    start_by: str | UnsetType = UNSET
    """The deadline for its start, for live runs of jobs with a `startDeadline`."""
    blocked_by: list[str] | UnsetType = UNSET
    """Why it is `blocked`: `overlap` (an earlier run of its job is live), `turn` (its ordering key), `gate:limit:KEY`,
    `gate:rate:KEY` or `gate:host:NAME`.
    """
    ordering_key: str | UnsetType = UNSET
    origin: Origin
    attempt: int
    executor_id: str | None
    start_time: str | None
    end_time: str | None
    progress: str | None
    progress_note: str
    error: ErrorView | None
    verdict: Verdict
    reason: str
    late_ms: float | None
    lateness: LatenessView | UnsetType | None = UNSET
    cancel_requested_at: str | None
    cancel_reason: str | UnsetType = UNSET
    """Why it is being cancelled. Once it has ended, this is its `reason`."""
    retry_of: str | None
    retried_as: str | None
    replay_of: str | None
    followed_run_id: str | UnsetType = UNSET
    """The run whose end caused it, if its job follows another."""
    backfill_id: str | UnsetType = UNSET
    """The id of the backfill that the run belongs to."""
    fingerprint: str | UnsetType = UNSET
    """Equal for all runs that failed with the same error."""
    discarded_at: str | UnsetType = UNSET
    """When it was discarded from the dead letters."""
    preempted_by: str | UnsetType = UNSET
    """The run that preempts it: it is suspended, or is about to be."""
    preemptions: list[PreemptionView] | UnsetType = UNSET
    """All preemptions of the run."""
    fencing_token: int | None
    created_at: str
    archived: bool | UnsetType = UNSET
    """True if the run was read from the archive. An archived run can be read and replayed, but not changed."""
    attempts: list[AttemptView] | UnsetType = UNSET


def error_view(failure: lifecycle.Failure | None) -> ErrorView | None:
    if failure is None:
        return None
    return ErrorView(
        kind=failure.kind,
        message=failure.message,
        exit_code=UNSET if failure.exit_code is None else failure.exit_code,
        status=UNSET if failure.status is None else failure.status,
        exceptions=failure.exceptions or UNSET,
    )


def late_ms(run: Run) -> float | None:
    """Return how long after its due time (the fire time plus jitter) the run started. A backfilled fire is
    never late.
    """
    return None if run.started_at is None or run.origin is Origin.BACKFILL else (run.started_at - run.due) / MILLISECOND


def lateness_view(run: Run, first: Attempt | None) -> LatenessView | None:
    """Return the parts of the delay. `first` is the first attempt of the run, if others followed it."""
    split = None if run.origin is Origin.BACKFILL else lateness.split(run, first)
    if split is None:
        return None
    parts = (split.scheduler, split.blocked, split.queue, split.worker, split.total)
    return LatenessView(*(part / MILLISECOND for part in parts))


def progress(run: Run) -> str | None:
    """Return the progress in per cent. A run that succeeded has 100%, even if it never reported progress."""
    if run.status is Status.SUCCEEDED:
        return "100%"
    return None if run.progress is None else f"{round(run.progress * 100)}%"


def run_view(
    run: Run,
    earlier: list[Attempt] | None = None,
    *,
    archived: bool = False,
    preemptions: Sequence[Preemption] = (),
) -> RunView:
    return RunView(
        run_id=run.id,
        job_id=run.job_id,
        job_name=run.job_name,
        job_version=run.version,
        status=run.status,
        fire_time=render(run.fire_time),
        fire_until=render(run.fire_until) if run.fires > 1 else UNSET,
        fires=run.fires if run.fires > 1 else UNSET,
        due_at=UNSET if run.due_at is None else render(run.due_at),
        start_by=UNSET if run.start_by is None else render(run.start_by),
        blocked_by=run.blocked_by or UNSET,
        ordering_key=run.ordering_key or UNSET,
        origin=run.origin,
        attempt=run.attempt,
        executor_id=run.worker,
        start_time=moment(run.started_at),
        end_time=moment(run.finished_at),
        progress=progress(run),
        progress_note=run.progress_note,
        error=error_view(run.failure),
        verdict=run.verdict,
        reason=run.reason,
        late_ms=late_ms(run),
        lateness=UNSET if earlier is None else lateness_view(run, earlier[0] if earlier else None),
        cancel_requested_at=moment(run.cancel_requested_at),
        cancel_reason=run.cancel_reason or UNSET,
        retry_of=run.retry_of if run.origin is Origin.RETRY else None,
        retried_as=run.retried_as,
        replay_of=run.retry_of if run.origin is Origin.REPLAY else None,
        followed_run_id=run.cause or UNSET,
        backfill_id=(run.retry_of or UNSET) if run.origin is Origin.BACKFILL else UNSET,
        fingerprint=run.fingerprint or UNSET,
        discarded_at=UNSET if run.discarded_at is None else render(run.discarded_at),
        preempted_by=next((each.by_run for each in preemptions if each.is_open and each.token == run.token), UNSET),
        preemptions=[_preemption(each) for each in preemptions] or UNSET,
        fencing_token=run.token,
        created_at=render(run.created_at),
        archived=archived or UNSET,
        attempts=UNSET if earlier is None else [*map(_earlier_attempt, earlier), *_last_attempt(run, earlier)],
    )


def _preemption(each: Preemption) -> PreemptionView:
    return PreemptionView(
        by=each.by_run,
        asked_at=render(each.asked_at),
        paused_at=moment(each.paused_at),
        resumed_at=moment(each.ended_at),
    )


_STATUS_TEXTS: Final = {
    Status.BLOCKED: "it waits until an earlier run has ended",
    Status.SKIPPED: "an earlier run of this job is live, and its overlap policy is skip",
}


def status_text(status: Status) -> str:
    """Return a sentence about what happens to a run that was just requested."""
    return _STATUS_TEXTS.get(status, "it starts as soon as a slot is free")


def _earlier_attempt(attempt: Attempt) -> AttemptView:
    return AttemptView(
        attempt=attempt.attempt,
        fencing_token=attempt.token,
        executor_id=attempt.worker,
        start_time=moment(attempt.started_at),
        end_time=render(attempt.finished_at),
        error=error_view(attempt.failure),
    )


def _last_attempt(run: Run, earlier: list[Attempt]) -> list[AttemptView]:
    """Return the last attempt, which is stored in the row of the run, unless it is among the earlier ones."""
    if not run.attempt or any(attempt.attempt == run.attempt for attempt in earlier):
        return []
    return [
        AttemptView(
            attempt=run.attempt,
            fencing_token=run.token,
            executor_id=run.worker,
            start_time=moment(run.attempt_started_at),
            end_time=moment(run.finished_at),
            error=error_view(run.failure) if run.is_terminal and run.status is not Status.SUCCEEDED else None,
        )
    ]
