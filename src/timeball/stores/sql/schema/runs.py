"""The rows of runs, live and finished, and of what is stored about runs, in the order of their columns."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.stores.sql.schema.table import Table


class PlainRunRow(Struct, frozen=True):
    """The columns of every new run."""

    id: str
    job_id: str
    tenant: str
    version: int
    fire_time: Micros
    origin: str
    priority: int
    eligible_at: Micros
    created_at: Micros


class AssignedRunRow(PlainRunRow, frozen=True):
    """A new run that is assigned to a worker when it is inserted, without the columns that all runs of that worker
    share."""

    token: int


class NewRunRow(PlainRunRow, frozen=True):
    """A new run that waits for a claim."""

    state: str
    serial: int
    holds: int


class RuledRunRow(NewRunRow, frozen=True):
    """The row of a new run that other runs, a limit, a time or its placement constrain, that may be preempted, or that
    another run or a backfill caused."""

    retry_of: str | None
    due_at: Micros | None
    start_by: Micros | None
    ordering_key: str | None
    gated: int
    profile: str | None
    preemptible: int | None


class RunRow(RuledRunRow, frozen=True):
    """A live run."""

    attempt: int
    token: int | None
    session: str | None
    worker: str | None
    claimed_at: Micros | None
    started_at: Micros | None
    attempt_started_at: Micros | None
    cancel_requested_at: Micros | None
    progress: float | None
    progress_note: str
    failure: str | None
    spec: str | None
    """The spec that only this run executes: one that a user edited, that of a workflow task, or the one with which the
    run fell due if the job was changed since. None if the run executes the current spec of the job. `task_id` belongs
    to the same spec."""
    task_id: str | None
    poll: int | None
    """The sequence number of the poll for which the run was claimed."""
    gate: str | None
    gate_rank: int | None
    let_at: Micros | None
    permit: str | None
    needs: str | None
    cancel_reason: str | None
    kill: int

    @property
    def due(self) -> Micros:
        """The instant at which the run is due: `due_at` if it is set, for example because of jitter; else the fire
        time."""
        return self.fire_time if self.due_at is None else self.due_at

    @property
    def free_at(self) -> Micros:
        """The instant after which the run waited only for a free worker."""
        return self.eligible_at if self.let_at is None else max(self.eligible_at, self.let_at)


class ListedRunRow(RunRow, frozen=True):
    """A live run with the name of its job: a row of the statements that read runs."""

    job_name: str | None


class LockedRunRow(RunRow, frozen=True):
    """A live run with the store's time: a row of `lock_runs`."""

    now: Micros


class NewHistoryRow(Struct, frozen=True):
    """A finished run, or consecutive fires that never became one."""

    id: str
    job_id: str
    tenant: str
    version: int
    fire_time: Micros
    fire_until: Micros
    fires: int
    origin: str
    status: str
    verdict: str
    reason: str
    attempt: int
    token: int | None
    worker: str | None
    eligible_at: Micros | None
    created_at: Micros
    claimed_at: Micros | None
    started_at: Micros | None
    attempt_started_at: Micros | None
    finished_at: Micros
    cancel_requested_at: Micros | None
    progress: float | None
    progress_note: str
    failure: str | None
    result: str | None
    retry_of: str | None
    retried_as: str | None


class RuledHistoryRow(NewHistoryRow, frozen=True):
    due_at: Micros | None = None
    fingerprint: str | None = None


class HistoryRow(RuledHistoryRow, frozen=True):
    discarded_at: Micros | None = None
    replayed_as: str | None = None


class ListedHistoryRow(HistoryRow, frozen=True):
    """A finished run with the name of its job: a row of the statements that read runs."""

    job_name: str | None = None


class ArchivedHistoryRow(HistoryRow, frozen=True):
    """A finished run with the fields of its job that the archive is searched by: a row of `runs_to_archive`."""

    user_id: str | None = None
    task_id: str | None = None
    job_name: str | None = None


class AttemptRow(Struct, frozen=True):
    run_id: str
    attempt: int
    token: int
    worker: str
    started_at: Micros | None
    finished_at: Micros
    failure: str | None
    claimed_at: Micros | None
    eligible_at: Micros | None


class LogRow(Struct, frozen=True):
    run_id: str
    attempt: int
    seq: int
    stream: str
    at: Micros
    text: str


class OffloadedSizeRow(Struct, frozen=True):
    """The size of output or of a result that is an object in the object storage."""

    run_id: str
    attempt: int
    kind: str
    """`output` or `result`."""
    bytes: int


class EditedRow(Struct, frozen=True):
    """The edited spec of a run, for a run that does not execute the spec of its job."""

    run_id: str
    spec: str


class GateRow(Struct, frozen=True):
    """A gate at which runs wait: for a permit (`limit:KEY`), a token (`rate:KEY`), or a host (`host:NAME`)."""

    tenant: str
    gate: str
    capacity: int = 0
    """The largest limit of a concurrency key that a claim has read from the spec of a run; or the burst of a rate
    limit, from the spec of the run that a claim considered last."""
    pace: Micros = 0
    """Microseconds from one token of a rate limit to the next."""
    spent_until: Micros = 0
    failures: int = 0
    failed_at: Micros = 0
    open_until: Micros | None = None
    rests: int = 0
    probe: str | None = None
    look_at: Micros | None = None
    """The time at which the gate opener next checks whether a waiting run may pass."""


class ProfileRow(Struct, frozen=True):
    profile: str
    used_at: Micros


class PreemptionRow(Struct, frozen=True):
    run_id: str
    number: int
    by_run: str
    attempt: int
    token: int
    asked_at: Micros
    paused_at: Micros | None
    ended_at: Micros | None


RUNS: Final = Table("runs", RunRow)
NEW_RUNS: Final = Table("runs", NewRunRow)
HANDED_RUNS: Final = Table("runs", AssignedRunRow)
RULED_RUNS: Final = Table("runs", RuledRunRow)
HISTORY: Final = Table("history", HistoryRow)
NEW_HISTORY: Final = Table("history", NewHistoryRow)
RULED_HISTORY: Final = Table("history", RuledHistoryRow)
ATTEMPTS: Final = Table("attempts", AttemptRow)
LOGS: Final = Table("logs", LogRow)
OFFLOADED_SIZES: Final = Table("offloaded_sizes", OffloadedSizeRow)
EDITED: Final = Table("edited_runs", EditedRow)
GATES: Final = Table("gates", GateRow)
PROFILES: Final = Table("profiles", ProfileRow)
PREEMPTIONS: Final = Table("preemptions", PreemptionRow)
