"""Between rows and the values of the domain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
import structlog
from msgspec import Raw
from msgspec.structs import replace

from timeball.domain.instant import MAX, Micros
from timeball.domain.job.job import Job, JobState, decode_spec, encode_spec
from timeball.domain.run import ledger, lifecycle
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.lifecycle import Failure, Hold, State
from timeball.domain.run.run import NewRun, Run
from timeball.domain.run.status import Status
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.schema import (
    HistoryRow,
    JobRow,
    ListedHistoryRow,
    ListedRunRow,
    NewHistoryRow,
    NewJobRow,
    NewRunRow,
    PlacedJobRow,
    PlannedJobRow,
    RuledHistoryRow,
    RuledRunRow,
    RunRow,
    as_tuple,
)

_encode = msgspec.json.Encoder().encode
_decode_failure = msgspec.json.Decoder(Failure).decode

WORKFLOW_TAG: Final = ""
"""Every workflow has it, so that they can be listed, and nobody can give it to a job: tags are not empty."""
LARGEST: Final = 2**63 - 1
MAX_TOLD: Final = 10_000
MAX_INLINE_SIZE: Final = 64 * 1024
"""Characters of specs that are read at once in the event loop's thread."""
T = TypeVar("T")
_ID, _SPEC = map(JobRow.__struct_fields__.index, ("id", "spec"))
_told: Final[set[str]] = set()
_log = structlog.get_logger()
_ORIGINS: Final = {origin.value: origin for origin in Origin}
_READY: Final = State.READY.value
_BLOCKED: Final = State.BLOCKED.value


def plain(text: str) -> str:
    """Text that both databases take: no NUL, which PostgreSQL refuses, and no half of a surrogate pair."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def bounded(instant: Micros | None) -> Micros | None:
    """An instant that was computed from a worker's words, kept within what can be stored."""
    return instant if instant is None else min(max(instant, 0), MAX)


def fits(number: int) -> bool:
    """Whether a number that came from outside is one the database can compare."""
    return 0 <= number <= LARGEST


def as_json(value: Any) -> str:
    return _encode(value).decode()


def failure_json(failure: Failure | None) -> str | None:
    """Whatever is in its texts: a failure that cannot be written is never forgotten, and never ends."""
    if failure is None:
        return None
    try:
        return as_json(failure)
    except UnicodeEncodeError:
        names = tuple(map(plain, failure.exceptions))
        return as_json(replace(failure, kind=plain(failure.kind), message=plain(failure.message), exceptions=names))


# --- jobs ---------------------------------------------------------------------------------------------------------


def new_job_row(job: Job) -> NewJobRow:
    """What a job is born with; its type says which columns that are."""
    if job.spec.task_id is None and job.next_fire_at is None and job.plan_at is None:
        return _one_shot(job)
    if job.slot is None:
        return PlannedJobRow(*as_tuple(_one_shot(job)), *_planned(job))
    slot: Row = (job.slot,)
    return PlacedJobRow(*as_tuple(_one_shot(job)), *_planned(job), *slot)


def job_row(job: Job) -> JobRow:
    later: Row = (
        job.version,
        job.state.value,
        plain(job.pause_reason),
        job.paused_until,
        job.last_span,
        job.owed,
        job.slot,
    )
    return JobRow(*as_tuple(_one_shot(job)), *_planned(job), *later)


def _one_shot(job: Job) -> NewJobRow:
    spec = job.spec
    return NewJobRow(
        job.id,
        job.tenant,
        plain(spec.name),
        encode_spec(spec).decode(),
        plain(spec.user_id),
        job.anchor,
        job.created_at,
        job.updated_at,
        job.fired,
    )


def _planned(job: Job) -> Row:
    return job.spec.task_id and plain(job.spec.task_id), job.next_fire_at, job.plan_at


def tag_rows(job: Job) -> list[Row]:
    rows = [(job.id, tag) for tag in dict.fromkeys(map(plain, job.spec.tags))]
    return [*rows, (job.id, WORKFLOW_TAG)] if job.spec.is_workflow else rows


def calendar_rows(job: Job) -> list[Row]:
    return [(job.id, name, job.tenant) for name in dict.fromkeys(job.spec.calendars)]


def job_of(row: Row) -> Job:
    found = JobRow(*row)
    return Job(
        id=found.id,
        tenant=found.tenant,
        spec=decode_spec(found.spec),
        version=found.version,
        state=JobState(found.state),
        anchor=found.anchor,
        next_fire_at=found.next_fire_at,
        plan_at=found.plan_at,
        created_at=found.created_at,
        updated_at=found.updated_at,
        pause_reason=found.pause_reason,
        last_span=found.last_span,
        fired=found.fired,
        paused_until=found.paused_until,
        owed=found.owed,
        slot=found.slot,
    )


def readable(rows: Iterable[Row], unreadable: list[tuple[Row, Exception]] | None = None) -> list[Job]:
    """The jobs of these rows, without those whose spec this version cannot read: an unknown time zone, a field of a
    newer version. These are logged once per process, and appended to `unreadable`."""
    jobs: list[Job] = []
    for row in rows:
        try:
            jobs.append(job_of(row))
        except Exception as error:
            unread(row[_ID], error)
            if unreadable is not None:
                unreadable.append((row, error))
    return jobs


async def read_jobs(tx: Tx, rows: Sequence[Row], unreadable: list[tuple[Row, Exception]] | None = None) -> list[Job]:
    """The same without keeping the event loop from turning, however large the specs are."""
    size = sum(len(row[_SPEC]) for row in rows)
    return await computed(tx, size, partial(readable, rows, unreadable))


async def computed(tx: Tx, size: int, work: Callable[[], T]) -> T:
    """The answer of work on so many characters; what takes more than a few milliseconds is done beside the event
    loop: 800 KB of a workflow with 90,000 needs take 100 ms."""
    return work() if size <= MAX_INLINE_SIZE else await tx.compute(work)


def unread(job_id: str, error: Exception) -> None:
    """Tell of a job, or another thing, that cannot be read, once."""
    if job_id not in _told and len(_told) < MAX_TOLD:
        _told.add(job_id)
        _log.error("a job cannot be read and is left alone", job=job_id, reason=str(error) or type(error).__name__)


# --- runs ---------------------------------------------------------------------------------------------------------


def new_run_row(run: NewRun, holds: int, *, serial: bool, eligible_at: Micros) -> NewRunRow:
    """What a run is born with; its type says whether rules apply to the run."""
    row = NewRunRow(
        run.id,
        run.job_id,
        run.tenant,
        run.version,
        run.fire_time,
        run.origin.value,
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
    """The values of an `AssignedRunRow`, of a simple run that a worker has from the start; `assigned` says the rest."""
    return (
        run.id,
        run.job_id,
        run.tenant,
        run.version,
        run.fire_time,
        run.origin.value,
        run.priority,
        run.eligible_at,
        run.created_at,
        token,
    )


def assigned(session: str, worker: str, poll: int, now: Micros) -> dict[str, Any]:
    """What is the same for all runs that are handed to one poll."""
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
    """The row of `history` of a live run that ends; `started_at` is when the attempt that ends it started."""
    attempt_started = started_at if started_at is not None else run.attempt_started_at
    first_started = run.started_at if run.started_at is not None else attempt_started
    # A lost attempt may never have said that it started: it did not before it was claimed.
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
    """The row of a run that ended, as one that may share its row with other instants: no rule is written of those."""
    return NewHistoryRow(*[getattr(row, column) for column in NewHistoryRow.__struct_fields__])


def unstarted(
    run: NewRun, verdict: Verdict, reason: str, now: Micros, *, until: Micros | None = None, fires: int = 1
) -> NewHistoryRow:
    """The history row of instants, or of a trigger, that never ran."""
    return NewHistoryRow(
        run.id,
        run.job_id,
        run.tenant,
        run.version,
        run.fire_time,
        run.fire_time if until is None else until,
        fires,
        run.origin.value,
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
    """What a live run is shown as."""
    return lifecycle.status(State(state), attempt=attempt, due_at=due_at, eligible_at=eligible_at, now=now)


def live_run(row: Row, now: Micros) -> Run:
    """A row of the statements that read live runs."""
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
    """A row of the statements that read finished runs."""
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
