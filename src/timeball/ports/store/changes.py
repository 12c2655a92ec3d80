"""What the commits of this server changed: counts for the statistics, and hints for clients that watch. Hints are not
stored, and may be lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from timeball.domain.events import EventType
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.overview.tally import RunTallies
from timeball.domain.run.status import Status


class RunChange(Struct, frozen=True, gc=False):
    """A run reached a status."""

    run_id: str
    job_id: str
    """Empty in the report of progress, which does not contain it."""
    tenant: str
    """Empty if the transaction did not read it."""
    status: Status
    at: Micros
    attempt: int = 0
    fire_time: Micros | None = None
    due_at: Micros | None = None
    """The instant at which the run should start, of a run that starts now or has ended."""
    started_at: Micros | None = None
    worker: str | None = None
    """The session of the worker."""
    spec: str | bytes | None = None
    """The JSON of the spec that a claimed run executes."""
    task: str | bytes | None = None
    """The JSON of the registered task that a claimed run executes."""
    progress: tuple[float | None, str] | None = None
    """The fraction and the note of a report of progress."""
    is_task: bool = False
    """True if the run is that of a task of a workflow, and has ended."""


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


Change = RunChange | JobChange | WorkerChange
Recorded = Change | JobSeen


class RunColumns(NamedTuple):
    """Changes of many runs, without an object for each of them."""

    run_ids: Sequence[str]
    job_ids: Sequence[str]
    tenants: Sequence[str] | None
    """None if the transaction did not read them."""
    statuses: Status | Sequence[Status]
    """One status for all, or one for each run."""


class JobColumns(NamedTuple):
    type: EventType
    job_ids: Sequence[str]
    tenants: Sequence[str]


class UnwrittenEnds(Struct):
    """Runs and fires that ended and are not in the statistics yet."""

    tallies: RunTallies = {}
    uncounted: list[str] = []
    """The ids of plain successes. Their tenants and lateness are in the store only, and are read later."""


class ChangeBatch(Struct, frozen=True, gc=False):
    """Changes of one statement. They are listed when they are needed, outside of the transaction."""

    count: int
    """The number of changes."""
    list_changes: Callable[[], Sequence[Recorded]]
    list_columns: Callable[[], RunColumns | JobColumns] | None = None
    """Lists the same changes, in the same order, at a tenth of the cost."""
    count_ends: Callable[[UnwrittenEnds], None] | None = None
    """Adds the runs and fires that ended to those for the statistics; None if none ended."""


ChangeListener = Callable[[Sequence[ChangeBatch]], None]
