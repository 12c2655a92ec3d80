"""The store of jobs: submit, change, list and trigger them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, Protocol

from msgspec import Struct

from timeball.domain.audit_log.change import AuditedRequest
from timeball.domain.errors import Conflict, Invalid, TimeballError
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobSpec, JobState
from timeball.domain.planning.planning import Span
from timeball.domain.run.run import NewRun
from timeball.domain.run.status import Status
from timeball.domain.schedule.schedule import Window
from timeball.ports.store.paging import Page
from timeball.ports.store.runs import Claim, SlotRequest

MAX_VERSIONS: Final = 50
"""Maximum number of former definitions of a job that are listed. Older ones are kept only while runs need them."""


class Idempotency(Struct, frozen=True):
    """The idempotency key of a request, with what is stored under it."""

    key: str
    fingerprint: str
    """A hash of the request. It tells a repetition from another request with the same key."""
    answer: bytes
    """The answer to the first request with this key, and to every repetition of it."""


class Submission(Struct, frozen=True, gc=False):
    """A new job, with its first run."""

    job: Job
    runs: tuple[NewRun, ...]
    """The run of the first fire, if that is within the planning horizon; else empty."""
    idempotency: Idempotency | None = None
    render: Callable[[Job], bytes] | None = None
    """Returns the answer to store under the idempotency key, given the job with its slot. For a job with a window,
    because its slot is chosen inside the transaction; None for other jobs."""
    audited: AuditedRequest | None = None
    """The request, if the job recurs; None for jobs that fire once: their rows have the id of the credential."""


class Accepted(Struct, frozen=True, gc=False):
    """The job is stored, now or by an earlier call with the same id."""

    job_id: str
    placed: Job | None = None
    """The job with the slot that it got in its window; None if it has no window."""


class Replayed(Struct, frozen=True):
    """An earlier request had the same key and the same fingerprint. This is its answer; nothing was written."""

    job_id: str
    answer: bytes


class Mismatched(Struct, frozen=True):
    """An earlier request had the same key and another fingerprint. Nothing was written."""

    job_id: str


class NoCalendar(Struct, frozen=True):
    """The job refers to a calendar that does not exist. Nothing was written."""

    name: str


Answered = Accepted | Replayed | Mismatched
"""The result of a request that may have an idempotency key."""


class NeverFires(Struct, frozen=True):
    """The slot that the job would get in its window leaves it no fire. Nothing was written."""

    error: Invalid


class NoTenant(Struct, frozen=True):
    """The tenant of the job is being deleted, or was deleted. Nothing was written."""

    error: Conflict


class OverQuota(Struct, frozen=True):
    """A quota of the tenant has no room for the job or its run. Nothing was written."""

    error: TimeballError


Submitted = Answered | NoCalendar | NeverFires | NoTenant | OverQuota
"""The result of the submission of one job."""


class Amendment(Struct, frozen=True, kw_only=True):
    """A change of one job, decided from `job` as it was read. It takes effect only while the stored job has that
    version.

    The store does all of this in one transaction, under the lock on the job:

    - Increase the version.
    - Delete the job's run for a future fire (READY or BLOCKED, fire time after now) and do not count it as fired. With
      `keep_schedule`, that fire is the next fire again.
    - Keep the old spec with runs that are already due.
    - Write the new values.
    - With `cancel_runs`, cancel the live runs.

    A job that has fired as often as it may has no next fire, even if `next_fire_at` is given.
    """

    job: Job
    spec: JobSpec
    state: JobState
    keep_schedule: bool
    """True: the fires stay as they were. False: `next_fire_at` and `anchor` replace those of the job."""
    next_fire_at: Micros | None = None
    anchor: Micros | None = None
    pause_reason: str = ""
    paused_until: Micros | None = None
    closing: tuple[Span, ...] = ()
    """Past fires of the old schedule that get a verdict without a run."""
    unclosed: Micros | None = None
    """The first fire of the old schedule after those in `closing`. If the store's time has reached it, the answer is
    `Outdated`.
    """
    cancel_runs: bool = False
    unplannable: bool = False
    """True: the due fires of the job cannot be planned. The change does not wait for them: with `keep_schedule` they
    stay due, else they are in `closing`, or are upstream events, which get a verdict.
    """
    by: str | None = None
    """The name of the API key of the request. It is stored with the new version if the spec changes."""


class Amended(Struct, frozen=True):
    """The change took effect."""

    job: Job
    cancelled: int = 0
    """Number of runs that were ended or whose cancellation was requested."""


class Outdated(Struct, frozen=True):
    """Another request changed the job first, or a fire fell due that must be planned first. Nothing was written: read
    the job again and repeat the change.
    """


class Fired(Struct, frozen=True):
    """A worker already holds the run of a future fire, or an upstream event of the job waits to be planned. That fire
    belongs to the old version, and after an acknowledged change no fire of an old version may run. Nothing was written:
    wait until `at` and amend again."""

    at: Micros
    """The time of the last such fire."""


class JobFilter(Struct, frozen=True, kw_only=True):
    """The jobs to list or count. All conditions that are given must hold."""

    tenant: str
    status: frozenset[str] = frozenset()
    """Statuses among `scheduled`, `paused`, `completed` and `cancelled`; empty: all."""
    name: str | None = None
    tag: str | None = None
    user_id: str | None = None
    task_id: str | None = None
    calendar: str | None = None
    """The name of a calendar that the jobs refer to."""
    text: str | None = None
    """Part of the name, in upper or lower case, or the whole id."""
    kind: str | None = None
    """The kind of the task, or `workflow`."""
    schedule_type: str | None = None
    """The type of the schedule: `immediate`, `date`, `cron`, `interval`, `window` or `follow`."""
    workflows: bool = False
    """True: list only workflows. `tag` is ignored then."""
    made_before: str | None = None
    """Only ids before this one."""


class JobStatus(Struct, frozen=True, gc=False):
    """A job with its status, which depends on its runs."""

    job: Job
    status: Literal["scheduled", "paused", "completed", "cancelled"]
    """`completed`: the job is active, but it has no fire left and no live run."""
    next_run_at: Micros | None
    """Fire time of the earliest run that has not started; if there is none, the next fire."""
    warnings: tuple[str, ...] = ()
    """Sentences for the owner of a job that was just created or changed, or that cannot be planned."""


class JobVersion(Struct, frozen=True, gc=False):
    """A definition that a job has or had."""

    version: int
    """The first version of the job with this definition."""
    at: Micros
    """The instant at which the job got this definition."""
    by: str | None
    """The name of the API key of the request that changed the job; None if the job was created with this definition, or
    if the name is not known."""
    spec: bytes
    """The spec as JSON. Large parameters may be in object storage."""


class JobStore(Protocol):
    async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]:
        """Insert jobs with their first runs. Return one result per submission, in order.

        Idempotency keys are unique per tenant. A key that occurs twice in one batch is answered like any other
        repetition. A job id that is stored already is answered with `Accepted`, and nothing is written. A job with a
        window gets its slot in this transaction.
        """
        ...

    async def submit_and_claim(
        self, submissions: Sequence[Submission], wants: Sequence[SlotRequest]
    ) -> tuple[list[Submitted], list[Claim]]:
        """Insert jobs with their first runs, as `submit` does, and claim due runs for the workers in `wants`, in the
        same transaction. Return the results of the submissions and the claims.

        If the call raises `Unavailable`, runs may have been claimed that no server delivers. The caller marks the
        workers with `IdleWorkers.mark_uncertain`, so that their next polls release these runs, and repeats the call
        without `wants`.
        """
        ...

    async def answered(self, keys: Sequence[tuple[str, str, str]]) -> list[Replayed | Mismatched | None]:
        """Return the answers to repeated requests, each given by tenant, idempotency key and fingerprint, in order.
        None: no request has used the key yet.
        """
        ...

    async def slot_for(self, window: Window) -> int:
        """Return the slot that a job with this window would get now. Nothing is written, so the job may get another
        slot.
        """
        ...

    async def jobs(self, ids: Sequence[str]) -> dict[str, JobStatus]:
        """Return jobs by their ids, without those that do not exist or cannot be decoded."""
        ...

    async def list_jobs(
        self, where: JobFilter, cursor: str | None, limit: int, *, may_lag: bool = False
    ) -> Page[JobStatus]:
        """Return a page of jobs, newest first. A page may have fewer than `limit` items if their specs are large. With
        a `text`, `kind` or `schedule_type` it may have none although others follow: it compares a bounded number of
        jobs.
        """
        ...

    async def match_jobs(self, where: JobFilter, cursor: str | None, limit: int) -> Page[str]:
        """Return a page of the ids of jobs that match, newest first, with the bounds of `list_jobs`. Jobs that cannot
        be decoded are included.
        """
        ...

    async def count_jobs(self, where: JobFilter) -> int:
        """Return the number of jobs that match."""
        ...

    async def busy_jobs(self, ids: Sequence[str], live_runs: int) -> set[str]:
        """Return those of these jobs that have at least this number of live runs."""
        ...

    async def versions(self, job_id: str, cursor: str | None, limit: int) -> Page[JobVersion]:
        """Return a page of the definitions of a job, newest first: the current one and at most `MAX_VERSIONS` former
        ones. A page with large definitions has fewer than `limit` items.
        """
        ...

    async def amend(self, amendments: Sequence[Amendment]) -> list[Amended | Outdated | Fired]:
        """Change jobs under the locks on them. Return one result per amendment, in order; a second amendment of the
        same job sees the first. A repeated call finds another version of the job and answers `Outdated`.

        Raises `Invalid` if a job would follow a job or refer to a calendar that does not exist, or if jobs would follow
        each other in a circle. Raises `Unavailable` if the object with the parameters of a job is too old to be
        referred to. No amendment of the batch takes effect then.
        """
        ...

    async def trigger(self, runs: Sequence[NewRun]) -> list[Status | None]:
        """Insert manual runs under the lock on the job, by its overlap policy. Return the status of each, in order:
        QUEUED, BLOCKED behind an earlier run, or SKIPPED, which is recorded in the history. None: the job does not
        exist or is cancelled. If a run with this id is stored already, its status is returned, and nothing is written.

        If runs of the job may not overlap, its run for a future fire becomes BLOCKED, unless a worker holds it or it
        has had an attempt: the overlap policy decides about it when it falls due. This includes the only run of a
        one-shot job, to which the policy does not apply otherwise."""
        ...
