"""The store of jobs: how they are accepted, changed, found and fired by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from timeball.domain.errors import Invalid
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobSpec, JobState
from timeball.domain.planning.planning import Span
from timeball.domain.run.run import NewRun
from timeball.domain.run.status import Status
from timeball.domain.schedule.schedule import Window
from timeball.ports.store.paging import Page
from timeball.ports.store.runs import Claim, SlotRequest


class Idempotency(Struct, frozen=True):
    key: str
    fingerprint: str
    """A hash of the request, to tell a repetition from another request with the same key."""
    answer: bytes
    """What the first request is answered with, and every repetition of it."""


class Submission(Struct, frozen=True, gc=False):
    job: Job
    runs: tuple[NewRun, ...]
    """The first fire, if it is within the horizon."""
    idempotency: Idempotency | None = None
    render: Callable[[Job], bytes] | None = None
    """The answer for its idempotency key once it has a slot in its window."""


class Accepted(Struct, frozen=True, gc=False):
    job_id: str
    placed: Job | None = None
    """The job with the slot that it got, if it has a window."""


class Replayed(Struct, frozen=True):
    """The key was used before, with the same fingerprint: the first answer, and nothing was written."""

    job_id: str
    answer: bytes


class Mismatched(Struct, frozen=True):
    """The key was used before, with another fingerprint. Nothing was written."""

    job_id: str


class NoCalendar(Struct, frozen=True):
    """It refers to a calendar that is not there. Nothing was written."""

    name: str


Answered = Accepted | Replayed | Mismatched
"""What becomes of a request that may have an idempotency key."""


class NeverFires(Struct, frozen=True):
    """The slot that it got in its window leaves it no fire. Nothing was written."""

    error: Invalid


Submitted = Answered | NoCalendar | NeverFires


class Amendment(Struct, frozen=True, kw_only=True):
    """A change of one job, decided from `job` as it was read; applies only while its version is still that one.

    In the transaction, under the job's lock: bump the version; drop the job's future run (READY or BLOCKED, fire time
    after now), uncount it and, if `keep_schedule`, give its instant back to `next_fire_at`; keep the old spec with runs
    that are already due; write the new values; cancel live runs if asked. A job that has fired as often as it may has
    no next fire, whatever is given here.
    """

    job: Job
    spec: JobSpec
    state: JobState
    keep_schedule: bool
    """True: go on with the instants as they were. False: use `next_fire_at` and `anchor` as given here."""
    next_fire_at: Micros | None = None
    anchor: Micros | None = None
    pause_reason: str = ""
    paused_until: Micros | None = None
    closing: tuple[Span, ...] = ()
    """Instants of the old schedule that this change closes without a run."""
    unclosed: Micros | None = None
    """The first one that it does not close. When that has come, the change comes too late."""
    cancel_runs: bool = False


class Amended(Struct, frozen=True):
    job: Job
    cancelled: int = 0
    """Runs that were ended or asked to end."""


class Outdated(Struct, frozen=True):
    """Somebody else changed the job first, or an instant fell due that has to be planned first. Read it again."""


class Fired(Struct, frozen=True):
    """A fire was already handed to a worker for `at`, which has not come, or is that of an end that the job has heard
    of. It belongs to the version it was handed out with: wait until then and amend again, so that nothing acknowledged
    is followed by an older version."""

    at: Micros


class JobFilter(Struct, frozen=True, kw_only=True):
    tenant: str
    status: frozenset[str] = frozenset()
    """Of `scheduled`, `paused`, `completed`, `cancelled`; empty: all."""
    name: str | None = None
    tag: str | None = None
    user_id: str | None = None
    task_id: str | None = None
    workflows: bool = False
    """Only workflows; then not of a `tag`."""


class JobStatus(Struct, frozen=True, gc=False):
    """A job with what only the store can tell of it."""

    job: Job
    status: Literal["scheduled", "paused", "completed", "cancelled"]
    """`completed`: active, but nothing is left to fire and no run is alive."""
    next_run_at: Micros | None
    """Fire time of the earliest run that has not started, else the next fire."""
    warnings: tuple[str, ...] = ()
    """What its owner should know, when it was just created or changed, or cannot be planned."""


class JobStore(Protocol):
    async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]:
        """Insert jobs with their first runs. Per item, in order. Idempotency keys are unique per tenant; a repetition
        inside one batch is answered like any other. Submitting the same ids again changes nothing: `Accepted`. A job
        with a window gets its slot here."""
        ...

    async def submit_and_claim(
        self, submissions: Sequence[Submission], wants: Sequence[SlotRequest]
    ) -> tuple[list[Submitted], list[Claim]]:
        """The same, followed by a claim of what is due by now, in one transaction."""
        ...

    async def answered(self, keys: Sequence[tuple[str, str, str]]) -> list[Replayed | Mismatched | None]:
        """What a request with this tenant, idempotency key and fingerprint is answered as a repetition of an earlier
        one. None: the key is new."""
        ...

    async def slot_for(self, window: Window) -> int:
        """The slot that a job with this window would get now."""
        ...

    async def jobs(self, ids: Sequence[str]) -> dict[str, JobStatus]: ...

    async def list_jobs(
        self, where: JobFilter, cursor: str | None, limit: int, *, may_lag: bool = False
    ) -> Page[JobStatus]:
        """Newest first."""
        ...

    async def amend(self, amendments: Sequence[Amendment]) -> list[Amended | Outdated | Fired]: ...

    async def trigger(self, runs: Sequence[NewRun]) -> list[Status | None]:
        """Insert manual runs under the job's lock and its overlap policy: QUEUED, BLOCKED behind an earlier one, or
        SKIPPED (recorded). None: no such job, or a cancelled one. A future run of a serial job that nobody holds is
        BLOCKED meanwhile: whether it overlaps is decided when it falls due. A pending run of a one-shot job becomes
        serial with it."""
        ...
