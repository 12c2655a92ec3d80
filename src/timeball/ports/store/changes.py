"""The changes that the commits of this server made: counts for the statistics, and hints for clients that listen to
events. Hints are not stored, and may be lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from timeball.domain.events import EventType
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.overview.tally import RunTallies
from timeball.domain.run.status import Status
from timeball.ports.metrics import DelayHistograms


class RunChange(Struct, frozen=True, gc=False):
    """A run reached a status, or its attempt reported progress."""

    run_id: str
    job_id: str
    """The id of the job. Empty if the change is a report of progress, which does not contain it."""
    tenant: str
    """The tenant of the run. Empty if the transaction did not read it."""
    status: Status
    at: Micros
    attempt: int = 0
    fire_time: Micros | None = None
    due_at: Micros | None = None
    """The instant at which the run was due; None if the change does not contain it, as at the start of a second
    attempt."""
    started_at: Micros | None = None
    worker: str | None = None
    """The session of the worker that holds the run, or held it when the run ended; None if the change does not contain
    it."""
    spec: str | bytes | None = None
    """The JSON of the spec that a claimed run executes."""
    task: str | bytes | None = None
    """The JSON of the registered task that a claimed run executes."""
    progress: tuple[float | None, str] | None = None
    """The fraction and the note of a report of progress."""
    is_task: bool = False
    """True if the run executed a task of a workflow and has ended."""


class JobChange(Struct, frozen=True, gc=False):
    """A job was created or amended, or is completed."""

    type: EventType
    job_id: str
    at: Micros
    job: Job | None = None
    """The job after the change, if the transaction read it."""


class JobSeen(Struct, frozen=True, gc=False):
    """A job that the transaction read, and whose runs it changed."""

    job: Job


class WorkerChange(Struct, frozen=True, gc=False):
    type: EventType
    session: str
    name: str = ""
    tenants: Sequence[str] | None = None
    """The tenants that the worker serves; None: all tenants."""

    def concerns(self, tenant: str) -> bool:
        return self.tenants is None or tenant in self.tenants


Change = RunChange | JobChange | WorkerChange
Recorded = Change | JobSeen


class RunColumns(NamedTuple):
    """The changes of many runs as columns: one sequence per field, without an object for each run."""

    run_ids: Sequence[str]
    job_ids: Sequence[str]
    tenants: Sequence[str] | None
    """The tenant of each run; None if the transaction did not read them."""
    statuses: Status | Sequence[Status]
    """One status for all runs, or one for each run."""


class JobColumns(NamedTuple):
    type: EventType
    job_ids: Sequence[str]
    tenants: Sequence[str]


class UnwrittenEnds(Struct):
    """Runs and fires that ended and are not in the statistics yet."""

    tallies: RunTallies = {}
    delays: DelayHistograms = {}
    """The lateness of the runs that ended after one attempt. It is counted for `/metrics`, and not stored."""
    uncounted: list[str] = []
    """The ids of plain successes. Their tenants and lateness are only in the store, and are read before the statistics
    are written."""


class ChangeBatch(Struct, frozen=True, gc=False):
    """The changes that one statement made. The objects for them are created when they are needed, outside of the
    transaction."""

    count: int
    """The number of changes."""
    list_changes: Callable[[], Sequence[Recorded]]
    list_columns: Callable[[], RunColumns | JobColumns] | None = None
    """Returns the same changes, in the same order, as columns, at a tenth of the cost of one object for each change."""
    count_ends: Callable[[UnwrittenEnds], None] | None = None
    """Adds the runs and fires that ended to the counts for the statistics; None if the batch has no ends."""


ChangeListener = Callable[[Sequence[ChangeBatch]], None]
