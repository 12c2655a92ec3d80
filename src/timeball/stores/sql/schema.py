"""The rows of the tables that are written in bulk, in the order of their columns."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.domain.instant import Micros


class NewJobRow(Struct, frozen=True):
    """What a one-shot is born with."""

    id: str
    tenant: str
    name: str
    spec: str
    """JSON. `name`, `task_id`, `user_id` are copies from it, to be searched."""
    user_id: str
    anchor: Micros
    created_at: Micros
    updated_at: Micros
    fired: int


class PlannedJobRow(NewJobRow, frozen=True):
    """What a job is born with that fires later, or executes a registered task."""

    task_id: str | None
    next_fire_at: Micros | None
    plan_at: Micros | None


class PlacedJobRow(PlannedJobRow, frozen=True):
    """What a job is born with that has a slot in a window."""

    slot: int | None


class JobRow(PlannedJobRow, frozen=True):
    version: int
    state: str
    pause_reason: str
    paused_until: Micros | None
    last_span: str | None
    owed: Micros | None
    slot: int | None


class PlainRunRow(Struct, frozen=True):
    """What every run is born with."""

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
    """What a run is born with that a worker has from the start, beside what it shares with others of that worker."""

    token: int


class NewRunRow(PlainRunRow, frozen=True):
    """What a run is born with that waits to be claimed."""

    state: str
    serial: int
    holds: int


class RuledRunRow(NewRunRow, frozen=True):
    """What a run is born with if it has to look at others, or at who runs it, or follows another."""

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
    """The spec it fell due with, once its job has another; None: the job's. `task_id` is that spec's."""
    task_id: str | None
    poll: int | None
    """The number of its session's poll for which it was claimed."""
    gate: str | None
    gate_rank: int | None
    let_at: Micros | None
    permit: str | None
    needs: str | None
    cancel_reason: str | None
    kill: int

    @property
    def due(self) -> Micros:
        """When it should start, not earlier."""
        return self.fire_time if self.due_at is None else self.due_at

    @property
    def free_at(self) -> Micros:
        """From when on nothing but a worker was missing."""
        return self.eligible_at if self.let_at is None else max(self.eligible_at, self.let_at)


class ListedRunRow(RunRow, frozen=True):
    """A live run with the name of its job: a row of the statements that read runs."""

    job_name: str | None


class LockedRunRow(RunRow, frozen=True):
    """A live run with the store's time: a row of `lock_runs`."""

    now: Micros


class NewHistoryRow(Struct, frozen=True):
    """A finished run, or a span of instants that never became one."""

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
    """A finished run with what its job is found by: a row of `runs_to_archive`."""

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


class GateRow(Struct, frozen=True):
    """Where runs wait: for a permit (`limit:KEY`), a token (`rate:KEY`), or a host (`host:NAME`)."""

    tenant: str
    gate: str
    capacity: int = 0
    """The limit of a concurrency key, or the burst of a rate, as the run that looked last has it."""
    pace: Micros = 0
    """From one token of a rate to the next."""
    spent_until: Micros = 0
    failures: int = 0
    failed_at: Micros = 0
    open_until: Micros | None = None
    rests: int = 0
    probe: str | None = None
    look_at: Micros | None = None
    """When somebody has to look whether a run that waits here may go."""


class ProfileRow(Struct, frozen=True):
    profile: str
    used_at: Micros


class VersionRow(Struct, frozen=True):
    """The spec that a job had until and with this version."""

    job_id: str
    version: int
    spec: str
    replaced_at: Micros


class EditedRow(Struct, frozen=True):
    """What a run executes that somebody edited."""

    run_id: str
    spec: str


class LogRow(Struct, frozen=True):
    run_id: str
    attempt: int
    seq: int
    stream: str
    at: Micros
    text: str


class WorkflowRunRow(Struct, frozen=True):
    """A workflow run that has begun."""

    id: str
    job_id: str
    tenant: str
    version: int
    state: str
    """See `names.FlowState`."""
    tasks: int
    open: int
    """Tasks that have not ended; of one that stops, runs that have not."""
    failed: int
    skipped: int
    because: str
    """The first task that failed, and how."""
    spec: str
    """What its tasks share with each other: the job without them."""


class WorkflowTaskRow(Struct, frozen=True):
    """A task of a workflow run, or an instance of one: see `progress.Step`."""

    flow_id: str
    place: int
    idx: int
    name: str
    state: str
    fresh: int
    waits: int
    unmet: int
    ill: int
    because: str
    open: int
    instances: int | None
    run_id: str | None
    reason: str
    item: str | None


class WorkflowNodeRow(Struct, frozen=True):
    """What of a task of a workflow run never changes."""

    flow_id: str
    place: int
    definition: str
    children: str
    sources: str


class TagRow(Struct, frozen=True):
    job_id: str
    tag: str


class JobCalendarRow(Struct, frozen=True):
    job_id: str
    calendar: str
    tenant: str


class FollowRow(Struct, frozen=True):
    """Which ends of runs of which job a job follows."""

    follower: str
    job_id: str
    on_success: int
    on_failure: int
    last_at: Micros
    """The newest of its instants."""


class UpstreamEventRow(Struct, frozen=True):
    """The end of a run that a job follows, until it is planned."""

    follower: str
    cause: str
    """The run."""
    job_id: str
    status: str
    ended_at: Micros
    fire_time: Micros | None
    """The instant of the follower that it is, once that has heard of it."""


class IdempotencyRow(Struct, frozen=True):
    tenant: str
    key: str
    fingerprint: str
    job_id: str
    answer: bytes
    created_at: Micros


class BackfillRow(Struct, frozen=True):
    id: str
    tenant: str
    job_id: str
    spec: str
    """JSON: the job's when the backfill was asked for, and its calendars."""
    calendars: str
    slot: int | None
    anchor: Micros
    since: Micros
    until: Micros
    parallelism: int
    total: int
    state: str
    reason: str
    cursor_at: Micros | None
    made: int
    failed: int
    cancelled: int
    created_at: Micros
    finished_at: Micros | None


class LiveBackfillRow(BackfillRow, frozen=True):
    """A backfill with the number of its live runs: a row of `lock_backfills`."""

    alive: int


class ListedBackfillRow(LiveBackfillRow, frozen=True):
    """A backfill with its job: a row of the statements that read backfills."""

    job_name: str
    job_state: str


class PreemptionRow(Struct, frozen=True):
    run_id: str
    number: int
    by_run: str
    attempt: int
    token: int
    asked_at: Micros
    paused_at: Micros | None
    ended_at: Micros | None


class PlanningFailureRow(Struct, frozen=True):
    job_id: str
    version: int
    plan_at: Micros
    failures: int
    since: Micros
    reason: str


_KINDS: Final[dict[object, str]] = {str: "text", int: "bigint", float: "double precision", bytes: "bytea"}


class Table:
    """A table, or some of its columns, as `Tx.insert` sees it: names and types of the columns."""

    __slots__ = ("columns", "kinds", "name", "row")

    def __init__(self, name: str, row: type[Struct]) -> None:
        hints = typing.get_type_hints(row)
        self.name = name
        self.row = row
        self.columns: tuple[str, ...] = row.__struct_fields__
        self.kinds = tuple(_KINDS[_plain(hints[column])] for column in self.columns)


def _plain(hint: object) -> object:
    """The type without `| None`."""
    if isinstance(hint, types.UnionType):
        return next(part for part in typing.get_args(hint) if part is not type(None))
    return hint


JOBS: Final = Table("jobs", JobRow)
NEW_JOBS: Final = Table("jobs", NewJobRow)
PLANNED_JOBS: Final = Table("jobs", PlannedJobRow)
PLACED_JOBS: Final = Table("jobs", PlacedJobRow)
RUNS: Final = Table("runs", RunRow)
NEW_RUNS: Final = Table("runs", NewRunRow)
HANDED_RUNS: Final = Table("runs", AssignedRunRow)
RULED_RUNS: Final = Table("runs", RuledRunRow)
HISTORY: Final = Table("history", HistoryRow)
NEW_HISTORY: Final = Table("history", NewHistoryRow)
RULED_HISTORY: Final = Table("history", RuledHistoryRow)
ATTEMPTS: Final = Table("attempts", AttemptRow)
LOGS: Final = Table("logs", LogRow)
TAGS: Final = Table("job_tags", TagRow)
JOB_CALENDARS: Final = Table("job_calendars", JobCalendarRow)
FOLLOWS: Final = Table("follows", FollowRow)
ECHOES: Final = Table("echoes", UpstreamEventRow)
IDEMPOTENCY: Final = Table("idempotency", IdempotencyRow)
PROFILES: Final = Table("profiles", ProfileRow)
GATES: Final = Table("gates", GateRow)
VERSIONS: Final = Table("job_versions", VersionRow)
EDITED: Final = Table("edited_runs", EditedRow)
BACKFILLS: Final = Table("backfills", BackfillRow)
PREEMPTIONS: Final = Table("preemptions", PreemptionRow)
PLANNING_FAILURES: Final = Table("planning_failures", PlanningFailureRow)
WORKFLOW_RUNS: Final = Table("workflow_runs", WorkflowRunRow)
WORKFLOW_TASKS: Final = Table("workflow_tasks", WorkflowTaskRow)
WORKFLOW_NODES: Final = Table("workflow_nodes", WorkflowNodeRow)
_ALL: Final = (
    JOBS,
    RUNS,
    HISTORY,
    ATTEMPTS,
    LOGS,
    TAGS,
    JOB_CALENDARS,
    FOLLOWS,
    ECHOES,
    IDEMPOTENCY,
    GATES,
    PROFILES,
    VERSIONS,
    EDITED,
    BACKFILLS,
    PREEMPTIONS,
    PLANNING_FAILURES,
    WORKFLOW_RUNS,
    WORKFLOW_TASKS,
    WORKFLOW_NODES,
)
TABLES: Final = {table.name: table for table in _ALL}

as_tuple: Callable[[Struct], Any] = msgspec.structs.astuple
"""The values of a row, in the order of its columns."""
