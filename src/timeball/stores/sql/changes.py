"""Adds what a transaction changes to `tx.changes`, for the statistics and for the clients of this server that listen to
events.

Without such a client only ends are added: the other functions then return at once. Each function is called once per
batch. The driver gives `tx.changes` to `CommittedChanges` after the commit, and drops them if the transaction was
rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar, assert_never

from timeball.domain.events import EventType
from timeball.domain.instant import MILLISECOND, Micros
from timeball.domain.job.job import Job, JobState
from timeball.domain.overview import tally
from timeball.domain.run.lateness import split_times
from timeball.domain.run.ledger import Origin
from timeball.domain.run.lifecycle import State
from timeball.domain.run.run import NewRun
from timeball.domain.run.status import Status
from timeball.ports.metrics import observe_delay
from timeball.ports.store.changes import (
    ChangeBatch,
    JobChange,
    JobColumns,
    JobSeen,
    Recorded,
    RunChange,
    RunColumns,
    UnwrittenEnds,
    WorkerChange,
)
from timeball.ports.store.jobs import Submission
from timeball.ports.store.runs import Claim, Settlement, SlotRequest
from timeball.ports.worker_protocol import Progress
from timeball.stores.sql.audit_log.recording import record_jobs
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.rows.runs import shown_as
from timeball.stores.sql.schema.runs import NewHistoryRow, NewRunRow, RuledHistoryRow, RunRow

T = TypeVar("T")
_STATUSES: Final = {status.value: status for status in Status}
_BLOCKED: Final = State.BLOCKED.value
MAX_UNCOUNTED: Final = 200_000
"""Maximum number of plain successes that wait to be counted. Further ones are not counted. The limit is reached only if
no loop writes the statistics."""
MOMENT: Final = 100 * MILLISECOND
"""A new run that is due within this time, in microseconds, is reported as queued or blocked and not as scheduled: its
fire time was chosen shortly before the transaction."""


def record_new_runs(tx: Tx, rows: Sequence[NewRunRow]) -> None:
    _record(tx, rows, _new_runs, _new_run_columns)


def record_ends(tx: Tx, rows: Sequence[NewHistoryRow], counted: Sequence[NewHistoryRow] | None = None) -> None:
    """Add runs that ended, and fires that never became runs, to `tx.changes`, for the statistics and for clients that
    listen. `counted` are the rows to count, if they differ from the inserted `rows`: fires may be added to a row that
    exists."""
    if counted is None:
        counted = rows
    if counted:
        columns = partial(_end_columns, rows) if rows else None
        tx.changes.append(ChangeBatch(len(rows), partial(_ends, rows), columns, partial(_count_ends, counted)))


def record_successes(tx: Tx, settlements: Sequence[Settlement]) -> None:
    """Add plain successes to `tx.changes`, for clients that listen and for the statistics. `Statistics` reads their
    tenant and lateness from the store later, and counts them."""
    tx.changes.append(
        ChangeBatch(
            len(settlements),
            partial(_successes, settlements),
            partial(_success_columns, settlements),
            partial(_put_off, settlements),
        )
    )


def record_claims(tx: Tx, claimed: Sequence[tuple[Row, int, SlotRequest]], now: Micros) -> None:
    """Add an event for each claimed run to `tx.changes`, for clients that listen. `claimed` has the rows of the
    candidates (see `ClaimCandidate`), each with its fencing token and the request that it was assigned to."""
    _record(tx, claimed, partial(_claims, now), _claim_columns)


def record_submissions(tx: Tx, submissions: Sequence[Submission], assigned: Mapping[str, Claim]) -> None:
    """Add an event for each new job to `tx.changes`, for clients that listen, and one for each of its runs that was
    assigned to a worker when it was inserted."""
    if tx.is_watched:
        _record(tx, [each.job for each in submissions], _new_jobs, _new_job_columns)
        runs = [(run, claim.session) for each in submissions for run in each.runs if (claim := assigned.get(run.id))]
        _record(tx, runs, _assigned, _assigned_columns)


def record_waiting(tx: Tx, runs: Sequence[tuple[RunRow, Status]], now: Micros) -> None:
    """Add an event for each run of which an attempt ended and which waits for the next one to `tx.changes`, for clients
    that listen."""
    _record(tx, runs, partial(_waiting, now))


def record_holds(tx: Tx, rows: Sequence[Row]) -> None:
    """Add an event for each run that was blocked or unblocked to `tx.changes`, for clients that listen. `rows` are
    those of the statements that change holds."""
    _record(tx, rows, _holds)


def record_progress(tx: Tx, steps: Sequence[Progress], now: Micros) -> None:
    _record(tx, steps, partial(_progress, now))


def record_planned(tx: Tx, jobs: Iterable[Job]) -> None:
    """Add planned jobs to `tx.changes` if a client listens, so that the events of their new runs can name the jobs."""
    if tx.is_watched:
        _record(tx, list(jobs), _seen)


def record_amendments(tx: Tx, jobs: Sequence[tuple[Job, Job]]) -> None:
    """Add an event for each changed job to `tx.changes`, for clients that listen, and record it for the audit log. Each
    job is given before and after the change; the two states determine the type of the event."""
    record_jobs(tx, jobs)
    _record(tx, jobs, _amendments)


def record_worker(tx: Tx, what: EventType, session: str, name: str = "", tenants: Sequence[str] | None = None) -> None:
    if tx.is_watched:
        tx.changes.append(ChangeBatch(1, lambda: (WorkerChange(what, session, name, tenants),)))


def _record(
    tx: Tx,
    items: Sequence[T],
    list_changes: Callable[[Sequence[T]], Sequence[Recorded]],
    list_columns: Callable[[Sequence[T]], RunColumns | JobColumns] | None = None,
) -> None:
    if tx.is_watched and items:
        columns = None if list_columns is None else partial(list_columns, items)
        tx.changes.append(ChangeBatch(len(items), partial(list_changes, items), columns))


def _new_runs(rows: Sequence[NewRunRow]) -> list[RunChange]:
    return [
        RunChange(row.id, row.job_id, row.tenant, _status_of(row), row.created_at, 0, row.fire_time) for row in rows
    ]


def _new_run_columns(rows: Sequence[NewRunRow]) -> RunColumns:
    return RunColumns(
        [row.id for row in rows],
        [row.job_id for row in rows],
        [row.tenant for row in rows],
        [_status_of(row) for row in rows],
    )


def _status_of(row: NewRunRow) -> Status:
    if row.eligible_at - row.created_at > MOMENT:
        return Status.SCHEDULED
    return Status.BLOCKED if row.state == _BLOCKED else Status.QUEUED


def _ends(rows: Sequence[NewHistoryRow]) -> list[RunChange]:
    return [
        RunChange(
            row.id,
            row.job_id,
            row.tenant,
            _STATUSES[row.status],
            row.finished_at,
            row.attempt,
            row.fire_time,
            _due_at(row),
            row.started_at,
            is_task=row.origin == Origin.TASK,
        )
        for row in rows
    ]


def _end_columns(rows: Sequence[NewHistoryRow]) -> RunColumns:
    return RunColumns(
        [row.id for row in rows],
        [row.job_id for row in rows],
        [row.tenant for row in rows],
        [_STATUSES[row.status] for row in rows],
    )


def _count_ends(rows: Sequence[NewHistoryRow], ends: UnwrittenEnds) -> None:
    for row in rows:
        found = tally.tally_at(ends.tallies, row.tenant, row.finished_at)
        found.count(tally.ended_as(row.status, row.verdict), row.fires)
        late = tally.lateness(row.origin, _due_at(row), row.started_at)
        if late is not None:
            found.count_late(tally.bucket_of(late))
            if row.attempt == 1 and row.started_at is not None:
                split = split_times(_due_at(row), row.created_at, row.eligible_at, row.claimed_at, row.started_at)
                observe_delay(ends.delays, row.tenant, split)


def _due_at(row: NewHistoryRow) -> Micros:
    due_at = row.due_at if isinstance(row, RuledHistoryRow) else None
    return row.fire_time if due_at is None else due_at


def _successes(settlements: Sequence[Settlement]) -> list[RunChange]:
    return [
        RunChange(
            each.run_id,
            each.job_id,
            "",
            Status.SUCCEEDED,
            each.finished_at,
            each.attempt,
            None,
            None,
            each.started_at,
            each.session,
        )
        for each in settlements
    ]


def _success_columns(settlements: Sequence[Settlement]) -> RunColumns:
    runs, jobs = [each.run_id for each in settlements], [each.job_id for each in settlements]
    return RunColumns(runs, jobs, None, Status.SUCCEEDED)


def _put_off(settlements: Sequence[Settlement], ends: UnwrittenEnds) -> None:
    if len(ends.uncounted) < MAX_UNCOUNTED:
        ends.uncounted += [each.run_id for each in settlements]


def _claims(now: Micros, claimed: Sequence[tuple[Row, int, SlotRequest]]) -> list[RunChange]:
    changes: list[RunChange] = []
    for row, _, want in claimed:
        run_id, job_id, attempt, fire_time, eligible_at, _, _, _, spec, task, tenant, *_ = row
        at = eligible_at if eligible_at > now else now
        due_at = None if attempt else eligible_at
        changes.append(
            RunChange(
                run_id,
                job_id,
                tenant,
                Status.RUNNING,
                at,
                attempt + 1,
                fire_time,
                due_at,
                at,
                want.session,
                spec,
                task,
            )
        )
    return changes


def _claim_columns(claimed: Sequence[tuple[Row, int, SlotRequest]]) -> RunColumns:
    rows = [row for row, _, _ in claimed]
    return RunColumns([row[0] for row in rows], [row[1] for row in rows], [row[10] for row in rows], Status.RUNNING)


def _new_jobs(jobs: Sequence[Job]) -> list[JobChange]:
    return [JobChange(EventType.JOB_CREATED, job.id, job.created_at, job) for job in jobs]


def _new_job_columns(jobs: Sequence[Job]) -> JobColumns:
    return JobColumns(EventType.JOB_CREATED, [job.id for job in jobs], [job.tenant for job in jobs])


def _assigned(runs: Sequence[tuple[NewRun, str]]) -> list[RunChange]:
    return [
        RunChange(
            run.id,
            run.job_id,
            run.tenant,
            Status.RUNNING,
            run.created_at,
            1,
            run.fire_time,
            run.fire_time,
            run.created_at,
            session,
        )
        for run, session in runs
    ]


def _assigned_columns(runs: Sequence[tuple[NewRun, str]]) -> RunColumns:
    return RunColumns(
        [run.id for run, _ in runs],
        [run.job_id for run, _ in runs],
        [run.tenant for run, _ in runs],
        Status.RUNNING,
    )


def _waiting(now: Micros, runs: Sequence[tuple[RunRow, Status]]) -> list[RunChange]:
    return [
        RunChange(run.id, run.job_id, run.tenant, status, now, run.attempt, run.fire_time, run.due)
        for run, status in runs
    ]


def _holds(rows: Sequence[Row]) -> list[RunChange]:
    return [
        RunChange(
            run_id, job_id, tenant, shown_as(now, state, attempt, fire_time, eligible_at), now, attempt, fire_time
        )
        for run_id, job_id, tenant, state, attempt, fire_time, eligible_at, now in rows
    ]


def _progress(now: Micros, steps: Sequence[Progress]) -> list[RunChange]:
    return [RunChange(each.run_id, "", "", Status.RUNNING, now, progress=(each.fraction, each.note)) for each in steps]


def _seen(jobs: Sequence[Job]) -> list[JobSeen]:
    return [JobSeen(job) for job in jobs]


def _amendments(jobs: Sequence[tuple[Job, Job]]) -> list[JobChange]:
    return [JobChange(_amended(before, after), after.id, after.updated_at, after) for before, after in jobs]


def _amended(before: Job, after: Job) -> EventType:
    if after.state is before.state:
        return EventType.JOB_UPDATED
    match after.state:
        case JobState.CANCELLED:
            return EventType.JOB_CANCELLED
        case JobState.PAUSED:
            return EventType.JOB_PAUSED
        case JobState.ACTIVE:
            return EventType.JOB_RESUMED
        case _:
            assert_never(after.state)
