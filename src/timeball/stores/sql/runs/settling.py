"""Settlement of attempts: `lifecycle.settle` decides, this module persists, guarded by id, attempt, token, session and
state.

Locks are taken in this order: jobs, ordering keys, runs, gates, each sorted by id, so that there are no deadlocks. The
exception is a run that was marked as serial after it was claimed: its job is locked after it. If that causes a
deadlock, the database ends it and the driver repeats the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import starmap
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Struct

from timeball.domain.instant import MAX, Micros
from timeball.domain.run import circuit_breaker, lifecycle
from timeball.domain.run.error_fingerprint import cache_normalized, fingerprint
from timeball.domain.run.ledger import Origin
from timeball.domain.run.lifecycle import Event, Failed, Failure, Lost, Released, State, Succeeded, Transition
from timeball.domain.run.status import GAVE_UP, Status
from timeball.domain.task.retry import Delivery, Retry
from timeball.domain.workflow.progress import TaskState
from timeball.ports.store.runs import Settled, Settlement
from timeball.stores.sql.changes import record_holds, record_waiting
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.inserts import insert_history
from timeball.stores.sql.rows.runs import ended
from timeball.stores.sql.rows.unreadable import unread
from timeball.stores.sql.rows.values import bounded, failure_json, plain
from timeball.stores.sql.runs import follows, gates, ordering_keys
from timeball.stores.sql.runs.backfill_counts import count_ended
from timeball.stores.sql.runs.gates import FailingHosts, GateAnswer, GateKey
from timeball.stores.sql.runs.ordering_keys import EndedRun
from timeball.stores.sql.schema.runs import (
    ATTEMPTS,
    OFFLOADED_SIZES,
    AttemptRow,
    NewHistoryRow,
    OffloadedSizeRow,
    RunRow,
)
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.statements import many, query

LOCK_JOB_IDS = query("lock_job_ids")
LOCK_ATTEMPTS = many(query("lock_attempts"))
SPECS_OF_JOBS = query("specs_of_jobs")
DELETE_RUNS = query("delete_runs")
READY_AGAIN = query("ready_again")
DROP_LOGS = query("drop_logs")
NOW_AND_HEALTH = query("now_and_health")
RELEASE = query("release")
CLOSE_SPANS = query("close_spans")
END_TASKS = query("end_tasks")

MAX_FINGERPRINTS_INLINE: Final = 20
"""Maximum number of distinct failure messages whose fingerprints are computed in the thread of the event loop."""
MAX_REASON_LENGTH: Final = 500
"""Maximum number of characters of a failure that a workflow task stores. Its run stores the whole message."""


class _Rules(Struct):
    """The rules of a spec that settlement needs; other fields are not decoded."""

    retry: Retry = Retry()
    delivery: Delivery = "at_least_once"
    on_failure: Literal["block", "continue"] = msgspec.field(default="block", name="onFailure")


_decode_rules = msgspec.json.Decoder(_Rules).decode
_ANY_RULES = _Rules()
_Key = tuple[str, int, int | None, str | None]


class _Writes(Struct):
    """The rows to write for a batch of settlements."""

    history: list[NewHistoryRow] = []
    again: list[tuple[str, int, Micros, Micros | None, str | None, Micros | None]] = []
    attempts: list[Row] = []
    dropped_logs: list[tuple[str, int]] = []
    """Attempts that were released, by run id and attempt number. Their output is deleted, because the next attempt gets
    the same number.
    """
    released: set[str] = set()
    """The ids of jobs whose runs may not overlap and one of whose runs ended: their next run may be unblocked."""
    gone: list[EndedRun] = []
    """Runs with an ordering key that ended."""
    returned: list[EndedRun] = []
    """Runs with an ordering key that were released."""
    permits: set[GateKey] = set()
    """Gates at which a permit became free."""
    answers: list[GateAnswer] = []
    """Results of calls to hosts."""
    waiting: list[tuple[RunRow, Status]] = []
    """Runs that wait for another attempt."""
    offloaded: list[Row] = []
    """Sizes of results that are objects in the object storage."""
    without_answer: list[str] = []
    """The ids of runs that ended without an answer from a host. One of them may have been the probe of its host."""


async def settle(tx: Tx, settlements: Sequence[Settlement]) -> list[Settled | None]:
    """Decide and persist the ends of attempts. Return one result per settlement; None if the session does not hold the
    attempt.
    """
    locked = {each.job_id for each in settlements if each.serial}
    await lock_jobs(tx, locked)
    await ordering_keys.lock(tx, (each.turn for each in settlements))
    rows = await tx.fetch(LOCK_ATTEMPTS, b=sorted({each.run_id for each in settlements}))
    runs = {(run.id, run.attempt, run.token, run.session): run for run in starmap(RunRow, rows)}
    await lock_jobs(tx, {run.job_id for run in runs.values() if run.serial} - locked)
    rules = await _rules(tx, settlements, runs)
    await _find_fingerprints(tx, settlements, rules)

    ((now, some_host_failing, probing, followed),) = await tx.fetch(NOW_AND_HEALTH)
    called = some_host_failing and any(each.host is not None for each in settlements)
    failing = await gates.failing_hosts(tx) if called else gates.NO_HOSTS
    writes = _Writes()
    answers: list[Settled | None] = []
    for each in settlements:
        # The guard: id, attempt, token, session, and RUNNING. Each attempt ends once, also when one batch reports it
        # twice.
        run = runs.pop((each.run_id, each.attempt, each.token, each.session), None)
        if run is None:
            answers.append(None)
            continue
        rule = rules.get(run.id, _ANY_RULES)
        transition = lifecycle.settle(
            each.outcome,
            attempt=run.attempt,
            started=_may_have_started(run, each),
            cancel_requested=run.cancel_requested_at is not None,
            policy=rule.retry,
            delivery=rule.delivery,
            now=now,
            spread=each.spread,
            letters=run.origin != Origin.TASK,
        )
        status = _apply(writes, run, each, transition)
        frees = _share(writes, run, each, transition, rule, failing, bool(probing))
        backfills = status is not None and run.origin == Origin.BACKFILL
        answers.append(Settled(run.id, status, frees, backfills, is_workflow_task=run.origin == Origin.TASK))
    followed_runs = await follows.record_upstream_ends(tx, writes.history) if followed else set()
    await _persist(tx, writes)
    record_waiting(tx, writes.waiting, now)
    await gates.settle(tx, writes.permits, writes.answers, writes.without_answer, now)
    return [_with_followers(each, followed_runs) for each in answers] if followed_runs else answers


async def _find_fingerprints(tx: Tx, settlements: Sequence[Settlement], rules: dict[str, _Rules]) -> None:
    """Compute the fingerprints of failures that end their runs in another thread, and cache them, if there are more
    than `MAX_FINGERPRINTS_INLINE`: one takes up to 0.5 ms."""
    messages = {
        each.outcome.failure.message
        for each in settlements
        if isinstance(each.outcome, Failed)
        and (rule := rules.get(each.run_id)) is not None
        and (each.attempt > rule.retry.max_retries or rule.delivery == "at_most_once")
    }
    if len(messages) > MAX_FINGERPRINTS_INLINE:
        await tx.compute(partial(cache_normalized, messages))


def _with_followers(answer: Settled | None, followed_runs: set[str]) -> Settled | None:
    return (
        answer
        if answer is None or answer.run_id not in followed_runs
        else msgspec.structs.replace(answer, upstream_events=True)
    )


async def lock_jobs(tx: Tx, ids: Iterable[str]) -> None:
    if ids := list(ids):
        await tx.fetch(LOCK_JOB_IDS, b=ids)


async def finish(tx: Tx, ended_runs: Sequence[NewHistoryRow]) -> None:
    """Move runs to the history and end their workflow tasks. The rows of the runs are locked. This function creates no
    upstream events; the module `follows` does."""
    if ended_runs:
        await insert_history(tx, ended_runs)
        await tx.execute(DELETE_RUNS, b=[run.id for run in ended_runs])
        await count_ended(tx, ended_runs)
        if tasks := [_task_ended(run) for run in ended_runs if run.origin == Origin.TASK]:
            await tx.execute(END_TASKS, b=tasks)


def _task_ended(run: NewHistoryRow) -> tuple[str, str, str]:
    """Return the id, the task state and the reason for a workflow task whose run ended."""
    match Status(run.status):
        case Status.SUCCEEDED:
            return run.id, TaskState.SUCCEEDED.value, ""
        case Status.CANCELLED:
            return run.id, TaskState.CANCELLED.value, run.reason or "it was cancelled"
        case _:
            message = "" if run.failure is None else msgspec.json.decode(run.failure, type=Failure).message
            return run.id, TaskState.FAILED.value, run.reason or message[:MAX_REASON_LENGTH]


async def release(tx: Tx, job_ids: Iterable[str]) -> None:
    """Unblock the next run of each of these jobs, whose runs may not overlap, if no other live run of the job blocks
    it. The jobs are locked."""
    if (ids := list(job_ids)) and (released := await tx.fetch(RELEASE, b=ids)):
        record_holds(tx, released)
        await close_spans(tx, [row[1] for row in released])


async def close_spans(tx: Tx, job_ids: Iterable[str]) -> None:
    """Close the ledger spans of jobs: a blocked fire was not skipped, so that later skipped fires start a new row."""
    if ids := list(job_ids):
        await tx.execute(CLOSE_SPANS, b=ids)


async def _rules(tx: Tx, settlements: Sequence[Settlement], runs: dict[_Key, RunRow]) -> dict[str, _Rules]:
    """Return, by run id, the rules (such as the retry policy) of the runs whose outcomes need them. Rules that this
    version of Timeball cannot decode are left out."""
    held = [
        run
        for each in settlements
        if (run := runs.get((each.run_id, each.attempt, each.token, each.session))) is not None
        and _needs_rules(run, each)
    ]
    if not held:
        return {}
    of_jobs = {run.job_id for run in held if run.spec is None}
    specs: dict[str, str] = dict(await tx.fetch(SPECS_OF_JOBS, b=list(of_jobs))) if of_jobs else {}
    rules: dict[str, _Rules] = {}
    for run in held:
        spec = run.spec if run.spec is not None else specs.get(run.job_id)
        if spec is not None:
            try:
                rules[run.id] = _decode_rules(spec)
            except msgspec.MsgspecError as error:
                unread(run.job_id, error)
    return rules


def _needs_rules(run: RunRow, settlement: Settlement) -> bool:
    """True if the outcome needs the rules of the job, such as the retry policy."""
    outcome = settlement.outcome
    return isinstance(outcome, Failed | Lost) or (isinstance(outcome, Released) and _may_have_started(run, settlement))


def _may_have_started(run: RunRow, settlement: Settlement) -> bool:
    """True if the attempt may have started. A worker reports a start when it gives the attempt to an executor, and may
    report later that nothing was executed."""
    if isinstance(settlement.outcome, Released) and not settlement.outcome.begun:
        return False
    return settlement.started_at is not None or run.attempt_started_at is not None


def _apply(writes: _Writes, run: RunRow, settlement: Settlement, transition: Transition) -> Status | None:
    """Add the next state of a run to the rows to write. Return its terminal status; None if the run stays alive."""
    to = transition.to
    if isinstance(to, Status):
        writes.history.append(_ended(run, settlement, to, transition))
        if to is Status.SUCCEEDED and settlement.offloaded:
            size = OffloadedSizeRow(run.id, run.attempt, "result", settlement.offloaded)
            writes.offloaded.append(as_tuple(size))
        if run.serial and run.origin != Origin.TASK:
            writes.released.add(run.job_id)
        return to
    assert to is State.READY
    # A run that was claimed before its time and was released must not run before that time.
    eligible_at = min(max(transition.eligible_at, run.due), MAX)
    if transition.event is Event.GIVE_BACK:
        may_have_started = _may_have_started(run, settlement)
        of_this_attempt = run.attempt == 1 or (not may_have_started and run.started_at == run.attempt_started_at)
        started_at = None if of_this_attempt else run.started_at
        # The start deadline does not apply again to a run that has started in time.
        start_by = None if may_have_started else run.start_by
        writes.again.append((run.id, run.attempt - 1, eligible_at, started_at, run.failure, start_by))
        writes.dropped_logs.append((run.id, run.attempt))
        writes.waiting.append((run, Status.QUEUED))
        return None
    reported = _started_at(run, settlement)
    attempt_started = reported if reported is not None else run.attempt_started_at
    started_at = run.started_at if run.started_at is not None else attempt_started
    failure = failure_json(transition.failure)
    writes.again.append((run.id, run.attempt, eligible_at, started_at, failure, run.start_by))
    attempt = AttemptRow(
        run.id,
        run.attempt,
        settlement.token,
        run.worker or "",
        attempt_started,
        _finished_at(settlement, attempt_started),
        failure,
        run.claimed_at,
        run.free_at,
    )
    writes.attempts.append(as_tuple(attempt))
    writes.waiting.append((run, Status.RETRYING))
    return None


def _share(
    writes: _Writes,
    run: RunRow,
    settlement: Settlement,
    transition: Transition,
    rules: _Rules,
    failing: FailingHosts,
    probing: bool,
) -> bool:
    """Record the effects on other runs: the next run of the job or the ordering key, and runs that wait for the permit
    or the host. Return True if one of them may start now. `probing` is True if any run of the store probes its host
    after failures; this run may be that probe.
    """
    frees = bool(run.serial) or run.ordering_key is not None or run.permit is not None
    if run.ordering_key is not None and isinstance(transition.to, Status):
        exhausted = transition.to in GAVE_UP
        key = (run.tenant, run.ordering_key)
        writes.gone.append(EndedRun(key, run.id, keeps_key=exhausted and rules.on_failure == "block"))
    elif run.ordering_key is not None and transition.event is Event.GIVE_BACK:
        writes.returned.append(EndedRun((run.tenant, run.ordering_key), run.id))
    if run.permit is not None:
        writes.permits.add((run.tenant, run.permit))
    if settlement.host is not None and isinstance(settlement.outcome, Succeeded | Failed):
        outcome = settlement.outcome
        failed = isinstance(outcome, Failed) and circuit_breaker.is_host_failure(outcome.failure)
        was_failing = failing.includes(run.tenant, settlement.host)
        if failed or was_failing:
            writes.answers.append(GateAnswer(run.tenant, settlement.host, run.id, failed))
        return frees or was_failing
    if probing and not isinstance(settlement.outcome, Succeeded):
        writes.without_answer.append(run.id)
        return True
    return frees


def _started_at(run: RunRow, settlement: Settlement) -> Micros | None:
    """Return when the attempt started, by the clock of the server that received the report. That clock may be slightly
    behind the one of the claiming server, so the time is never before the run was due."""
    reported = bounded(settlement.started_at)
    return None if reported is None else max(reported, run.due)


def _finished_at(settlement: Settlement, started_at: Micros | None) -> Micros:
    return min(max(settlement.finished_at, started_at or 0), MAX)


def _ended(run: RunRow, settlement: Settlement, status: Status, transition: Transition) -> NewHistoryRow:
    outcome = settlement.outcome
    result = None
    if isinstance(outcome, Succeeded) and status is Status.SUCCEEDED and outcome.result is not UNSET:
        result = plain(bytes(outcome.result).decode("utf-8", "replace"))
    given_back = isinstance(outcome, Released) and status is Status.CANCELLED
    started_at = None if given_back else _started_at(run, settlement)
    return ended(
        run,
        status,
        _finished_at(settlement, started_at),
        started_at=started_at,
        failure=failure_json(transition.failure),
        fingerprint=None if transition.failure is None else fingerprint(transition.failure),
        result=result,
    )


async def _persist(tx: Tx, writes: _Writes) -> None:
    await finish(tx, writes.history)
    if writes.offloaded:
        await tx.insert_missing(OFFLOADED_SIZES, writes.offloaded)
    if writes.attempts:
        await tx.insert(ATTEMPTS, writes.attempts)
    if writes.again:
        await tx.execute(READY_AGAIN, b=writes.again)
    if writes.dropped_logs:
        await tx.execute(DROP_LOGS, b=writes.dropped_logs)
    await release(tx, writes.released)
    await ordering_keys.release(tx, writes.gone)
    if writes.returned:
        await ordering_keys.reconsider(tx, writes.returned)
