"""Conversion of live and finished runs to rows and back."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from timeball.domain.instant import Micros
from timeball.domain.run import ledger, lifecycle
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.lifecycle import Failure, Hold, State
from timeball.domain.run.run import NewRun, Run
from timeball.domain.run.status import Status
from timeball.stores.sql.driver import Row
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.schema.runs import (
    HistoryRow,
    ListedHistoryRow,
    ListedRunRow,
    NewHistoryRow,
    NewRunRow,
    RuledHistoryRow,
    RuledRunRow,
    RunRow,
)
from timeball.stores.sql.schema.table import as_tuple

_decode_failure = msgspec.json.Decoder(Failure).decode
_ORIGINS: Final = {origin.value: origin for origin in Origin}
_NAMES: Final = {origin: name for name, origin in _ORIGINS.items()}
"""The stored name of each origin. `Enum.value` is written in Python and takes five times as long as this lookup."""
_READY: Final = State.READY.value
_BLOCKED: Final = State.BLOCKED.value


def new_run_row(run: NewRun, holds: int, *, serial: bool, eligible_at: Micros) -> NewRunRow:
    """Return the row of a new run. The type of the row says whether the run is constrained."""
    row = NewRunRow(
        run.id,
        run.job_id,
        run.tenant,
        run.version,
        run.fire_time,
        _NAMES[run.origin],
        run.priority,
        eligible_at,
        run.created_at,
        _BLOCKED if holds else _READY,
        int(serial),
        holds,
    )
    if (
        run.retry_of is None
        and run.due_at is None
        and run.start_by is None
        and run.ordering_key is None
        and not run.gated
        and run.profile is None
        and run.preemptible is None
    ):
        return row
    key = run.ordering_key and plain(run.ordering_key)
    rules: Row = (run.retry_of, run.due_at, run.start_by, key, int(run.gated), run.profile, run.preemptible)
    return RuledRunRow(*as_tuple(row), *rules)


def assigned_run_row(run: NewRun, token: int) -> Row:
    """Return the values of an `AssignedRunRow`: an unconstrained run that is assigned to a worker when it is inserted.
    `assigned` has the columns that such runs share."""
    return (
        run.id,
        run.job_id,
        run.tenant,
        run.version,
        run.fire_time,
        _NAMES[run.origin],
        run.priority,
        run.eligible_at,
        run.created_at,
        token,
    )


def assigned(session: str, worker: str, poll: int, now: Micros) -> dict[str, Any]:
    """Return the columns that all new runs have in common that one insert assigns to one poll, with their values."""
    return {
        "state": State.RUNNING.value,
        "attempt": 1,
        "session": session,
        "worker": worker,
        "poll": poll,
        "claimed_at": now,
    }


def ended(
    run: RunRow,
    status: Status,
    finished_at: Micros,
    *,
    started_at: Micros | None = None,
    reason: str = "",
    failure: str | None = None,
    fingerprint: str | None = None,
    result: str | None = None,
) -> NewHistoryRow:
    """Return the row of `history` for a live run that ends. `started_at` is when its last attempt started."""
    attempt_started = started_at if started_at is not None else run.attempt_started_at
    first_started = run.started_at if run.started_at is not None else attempt_started
    # The start of a lost attempt may be unknown: it was not before the claim.
    known_from = first_started if first_started is not None else run.claimed_at
    row = NewHistoryRow(
        run.id,
        run.job_id,
        run.tenant,
        run.version,
        run.fire_time,
        run.fire_time,
        1,
        run.origin,
        status.value,
        ledger.verdict(status, _ORIGINS[run.origin], run.due, known_from).value,
        reason or run.cancel_reason or "",
        run.attempt,
        run.token,
        run.worker,
        run.free_at,
        run.created_at,
        run.claimed_at,
        first_started,
        attempt_started,
        finished_at,
        run.cancel_requested_at,
        run.progress,
        run.progress_note,
        failure if failure is not None else run.failure,
        result,
        run.retry_of,
        None,
    )
    if run.due_at is None and fingerprint is None:
        return row
    ruled: Row = (run.due_at, fingerprint)
    return RuledHistoryRow(*as_tuple(row), *ruled)


def of_span(row: NewHistoryRow) -> NewHistoryRow:
    """Return a history row without the columns that only `RuledHistoryRow` has: the fire may share its ledger row with
    other fires."""
    return NewHistoryRow(*[getattr(row, column) for column in NewHistoryRow.__struct_fields__])


def unstarted(
    run: NewRun, verdict: Verdict, reason: str, now: Micros, *, until: Micros | None = None, fires: int = 1
) -> NewHistoryRow:
    """Return the history row of fires, or of a manual run, that never started."""
    return NewHistoryRow(
        run.id,
        run.job_id,
        run.tenant,
        run.version,
        run.fire_time,
        run.fire_time if until is None else until,
        fires,
        _NAMES[run.origin],
        Status.SKIPPED.value,
        verdict.value,
        reason,
        0,
        None,
        None,
        None,
        now,
        None,
        None,
        None,
        now,
        None,
        None,
        "",
        None,
        None,
        run.retry_of,
        None,
    )


def shown_as(now: Micros, state: str, attempt: int, due_at: Micros, eligible_at: Micros) -> Status:
    """Return the status that a live run is shown with."""
    return lifecycle.status(State(state), attempt=attempt, due_at=due_at, eligible_at=eligible_at, now=now)


def live_run(row: Row, now: Micros) -> Run:
    """Return the run of a row of a statement that reads live runs."""
    return shown_run(ListedRunRow(*row), now)


def shown_run(found: ListedRunRow, now: Micros) -> Run:
    status = shown_as(now, found.state, found.attempt, found.due, found.eligible_at)
    return Run(
        id=found.id,
        job_id=found.job_id,
        tenant=found.tenant,
        job_name=found.job_name or "",
        version=found.version,
        fire_time=found.fire_time,
        fire_until=found.fire_time,
        fires=1,
        origin=Origin(found.origin),
        status=status,
        verdict=Verdict.OPEN,
        reason="",
        attempt=found.attempt,
        token=found.token,
        worker=found.worker,
        eligible_at=found.free_at,
        created_at=found.created_at,
        claimed_at=found.claimed_at,
        started_at=found.started_at,
        attempt_started_at=found.attempt_started_at,
        finished_at=None,
        cancel_requested_at=found.cancel_requested_at,
        progress=found.progress,
        progress_note=found.progress_note,
        failure=_failure(found.failure),
        result=None,
        retry_of=found.retry_of,
        retried_as=None,
        due_at=found.due_at,
        holds=Hold(found.holds),
        gate=found.gate if found.holds & Hold.GATE else None,
        start_by=found.start_by,
        ordering_key=found.ordering_key,
        gated=bool(found.gated),
        profile=found.profile,
        cancel_reason=found.cancel_reason or "",
    )


def finished_run(row: Row) -> Run:
    """Return the run of a row of a statement that reads finished runs."""
    found = ListedHistoryRow(*row)
    return ended_run(found, found.job_name)


def ended_run(found: HistoryRow, job_name: str | None) -> Run:
    return Run(
        id=found.id,
        job_id=found.job_id,
        tenant=found.tenant,
        job_name=job_name or "",
        version=found.version,
        fire_time=found.fire_time,
        fire_until=found.fire_until,
        fires=found.fires,
        origin=Origin(found.origin),
        status=Status(found.status),
        verdict=Verdict(found.verdict),
        reason=found.reason,
        attempt=found.attempt,
        token=found.token,
        worker=found.worker,
        eligible_at=found.eligible_at,
        created_at=found.created_at,
        claimed_at=found.claimed_at,
        started_at=found.started_at,
        attempt_started_at=found.attempt_started_at,
        finished_at=found.finished_at,
        cancel_requested_at=found.cancel_requested_at,
        progress=found.progress,
        progress_note=found.progress_note,
        failure=_failure(found.failure),
        result=None if found.result is None else Raw(found.result.encode()),
        retry_of=found.retry_of,
        retried_as=found.retried_as,
        due_at=found.due_at,
        fingerprint=found.fingerprint,
        discarded_at=found.discarded_at,
    )


def _failure(text: str | None) -> Failure | None:
    return None if text is None else _decode_failure(text)
