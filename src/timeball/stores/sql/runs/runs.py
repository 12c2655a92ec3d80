"""Execution: claims, settlements, cancellation, and the start, progress and output of running attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import Final

from timeball.domain.dispatch import overlap
from timeball.domain.dispatch.fair_share import TenantShare
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.instant import Micros
from timeball.domain.job.large_values import REFERENCE
from timeball.domain.run.lifecycle import State
from timeball.domain.run.status import Status
from timeball.ports.store.runs import (
    Cancelling,
    Claimed,
    RunMark,
    Settled,
    Settlement,
    SlotRequest,
    Wanted,
    WorkerOrders,
)
from timeball.ports.worker_protocol import LogChunk, Progress, Started
from timeball.stores.sql.audit_log.recording import record_runs
from timeball.stores.sql.changes import record_claims, record_progress
from timeball.stores.sql.driver import Tx, scalar
from timeball.stores.sql.names import WEAVER
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.runs import ended
from timeball.stores.sql.rows.values import bounded, fits, plain
from timeball.stores.sql.runs import claiming, ordering_keys, settle_plain_success, settling
from timeball.stores.sql.runs.overlap import LiveRuns
from timeball.stores.sql.schema.runs import LOGS, LockedRunRow, LogRow, NewHistoryRow, RunRow
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.statements import query
from timeball.stores.sql.tenants.stored_bytes import Results, fitting_output

LOCK_HOLDERS = query("lock_holders")
NOTE_STARTS = query("note_starts")
NOTE_PROGRESS = query("note_progress")
LOCKS_OF = query("locks_of")
LOCK_RUNS = query("lock_runs")
RUN_STATUSES = query("run_statuses")
ASK_TO_CANCEL = query("ask_to_cancel")
HOLDING = query("holding")
HELD_ATTEMPTS = query("held_attempts")
WORKER_ORDERS = query("worker_orders")
RETRY_NOW = query("retry_now")
LIVE_TASK_RUNS = query("live_task_runs")
RUN_MARKS = query("run_marks")

MAX_SETTLED_TOGETHER: Final = 1_000
"""Maximum number of settlements in one transaction: deciding about that many takes 35 ms."""


class Runs(StorePart):
    async def run_marks(self, run_ids: Sequence[str]) -> dict[str, RunMark]:
        async def work(tx: Tx) -> dict[str, RunMark]:
            return {run_id: RunMark(*mark) for run_id, *mark in await tx.fetch(RUN_MARKS, b=list(run_ids))}

        return await self._db.read(work, slow=True) if run_ids else {}

    def share_workers(self, shares: Mapping[str, TenantShare]) -> None:
        self._sharing.shares = shares

    async def claim(self, wants: Sequence[SlotRequest], ahead: Micros) -> Claimed:
        async def work(tx: Tx) -> claiming.AssignedRun:
            assigned = await claiming.claim(tx, wants, ahead, self._credit, before, self._sharing)
            record_claims(tx, assigned.runs, assigned.now)
            return assigned

        before = self._db.now()
        wants = [want for want in wants if want.slots > 0]
        if not wants:
            return Claimed([], before)
        assigned = await self._db.write(work, once=True)
        self._pool_queues.claimed(assigned.queues, assigned.crowded, (want.room for want in wants))
        return assigned.claimed()

    async def next_eligible_at(self, after: Micros = 0, *, constrained_after: Micros = 0) -> Micros | None:
        async def work(tx: Tx) -> Micros | None:
            rows = await tx.fetch(claiming.NEXT_ELIGIBLE_AT, after=after, constrained_after=constrained_after)
            earliest: Micros | None = scalar(rows)
            return earliest

        return await self._db.read(work)

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled | None]:
        plain = [each for each in settlements if settle_plain_success.is_unconstrained(each)]
        if not plain:
            return await self._settle_by_rules(settlements)
        try:
            settled = await self._settle_plain(plain)
        except settle_plain_success.NotPlain:
            return await self._settle_by_rules(settlements)
        if len(settled) == len(settlements):
            return [*settled]
        moved = {id(each): ended for each, ended in zip(plain, settled, strict=False)}
        by_rules = iter(await self._settle_by_rules([each for each in settlements if id(each) not in moved]))
        return [moved[id(each)] if id(each) in moved else next(by_rules) for each in settlements]

    async def _settle_plain(self, plain: list[Settlement]) -> list[Settled]:
        """Settle plain successes. Settlements of runs that called a host with recent failures are removed from the
        list; the caller settles these.
        """
        results = Results(self._quotas, self._db.now())
        while plain:
            try:
                return await results.write(self._db, plain, partial(settle_plain_success.settling, results=results))
            except settle_plain_success.CalledFailingHosts as called:
                plain[:] = [each for each in plain if each.host is None or not called.hosts.may_include(each.host)]
        return []

    async def _settle_by_rules(self, settlements: Sequence[Settlement]) -> list[Settled | None]:
        settled: list[Settled | None] = []
        results = Results(self._quotas, self._db.now())
        for start in range(0, len(settlements), MAX_SETTLED_TOGETHER):
            some = settlements[start : start + MAX_SETTLED_TOGETHER]
            settled += await results.write(self._db, some, partial(partial, _settle, results))
        return settled

    async def note(
        self, session: str, started: Sequence[tuple[Started, Micros]], progress: Sequence[Progress]
    ) -> list[int]:
        reported = dict.fromkeys([(start.run_id, start.token) for start, _ in started])
        reported |= dict.fromkeys([(step.run_id, step.token) for step in progress])

        async def work(tx: Tx) -> list[int]:
            rows = await tx.fetch(LOCK_HOLDERS, b=sorted({run_id for run_id, _ in reported}))
            held = {(run_id, token) for run_id, _, token, holder in rows if holder == session}
            starts = {start.run_id: bounded(at) for start, at in started if (start.run_id, start.token) in held}
            steps = {
                step.run_id: (step.run_id, step.fraction, plain(step.note))
                for step in progress
                if (step.run_id, step.token) in held
            }
            if starts:
                await tx.execute(NOTE_STARTS, b=list(starts.items()))
            if steps:
                await tx.execute(NOTE_PROGRESS, b=list(steps.values()))
                held_steps = {step.run_id: step for step in progress if (step.run_id, step.token) in held}
                record_progress(tx, list(held_steps.values()), self._db.now())
            return [token for run_id, token in reported if (run_id, token) not in held]

        return await self._db.write(work) if reported else []

    async def append_logs(self, session: str, chunks: Sequence[LogChunk], now: Micros) -> list[int]:
        reported = dict.fromkeys((each.run_id, each.attempt, each.token) for each in chunks)

        async def work(tx: Tx) -> list[int]:
            rows = await tx.fetch(LOCK_HOLDERS, b=sorted({run_id for run_id, _, _ in reported}))
            held = {(run_id, attempt, token) for run_id, attempt, token, holder in rows if holder == session}
            kept = [
                as_tuple(LogRow(each.run_id, each.attempt, each.seq, _stream(each), now, plain(each.text)))
                for each in chunks
                if (each.run_id, each.attempt, each.token) in held and fits(each.seq)
            ]
            if kept and self._quotas.by_tenant:
                kept = await fitting_output(tx, self._quotas, kept, now)
            if kept:
                await tx.insert_missing(LOGS, kept)
            return list(dict.fromkeys(token for run, attempt, token in reported if (run, attempt, token) not in held))

        return await self._db.write(work) if chunks else []

    async def request_cancel(self, run_ids: Sequence[str]) -> list[Cancelling | None]:
        ids = list(dict.fromkeys(run_ids))

        async def work(tx: Tx) -> list[Cancelling | None]:
            runs, now = await lock_runs(tx, ids)
            if flows := [run.id for run in runs if run.session == WEAVER]:  # cancels the live runs of their tasks too
                tasks = [run_id for _, run_id in await tx.fetch(LIVE_TASK_RUNS, b=flows) if run_id not in ids]
                runs_of_tasks, _ = await lock_runs(tx, tasks)
                runs += runs_of_tasks
            found = await cancel(tx, runs, now)
            asked = [run.id for run in runs if run.cancel_requested_at is None]
            record_runs(tx, {run_id: {"cancelRequested": True, "status": found[run_id].status} for run_id in asked})
            if missing := [run_id for run_id in ids if run_id not in found]:
                for run_id, status in await tx.fetch(RUN_STATUSES, b=missing):
                    found[run_id] = Cancelling(run_id, Status(status))
            return [found.get(run_id) for run_id in run_ids]

        return await self._db.write(work) if ids else []

    async def holding(self, session: str) -> dict[int, Wanted]:
        async def work(tx: Tx) -> dict[int, Wanted]:
            rows = await tx.fetch(HOLDING, session=session)
            return {token: _wanted(asked, kill) for token, asked, kill in rows}

        return await self._db.read(work)

    async def held(self, session: str, attempts: Sequence[tuple[str, int, int]]) -> set[tuple[str, int, int]]:
        async def work(tx: Tx) -> set[tuple[str, int, int]]:
            rows = await tx.fetch(HELD_ATTEMPTS, b=sorted(set(attempts)), session=session)
            return {(run_id, attempt, token) for run_id, attempt, token in rows}

        return await self._db.read(work) if attempts else set()

    async def worker_orders(self) -> WorkerOrders:
        async def work(tx: Tx) -> WorkerOrders:
            rows = await tx.fetch(WORKER_ORDERS)
            return WorkerOrders(
                [(session, token, bool(kill)) for session, token, kill in rows if token is not None],
                [session for session, token, _ in rows if token is None],
            )

        return await self._db.read(work)

    async def retry_now(self, run_ids: Sequence[str]) -> list[bool]:
        async def work(tx: Tx) -> list[bool]:
            retried = {run_id for (run_id,) in await tx.fetch(RETRY_NOW, b=list(dict.fromkeys(run_ids)))}
            record_runs(tx, {run_id: {"retriedNow": True} for run_id in sorted(retried)})
            return [run_id in retried for run_id in run_ids]

        return await self._db.write(work) if run_ids else []


async def _settle(results: Results, settlements: Sequence[Settlement], tx: Tx) -> list[Settled | None]:
    settled = await settling.settle(tx, settlements)
    await results.count(tx, [each for each, ended in zip(settlements, settled, strict=True) if ended is not None])
    return settled


async def lock_runs(tx: Tx, ids: Sequence[str]) -> tuple[list[RunRow], Micros]:
    """Lock the jobs of those of these runs that end under the lock on their job, then the ordering keys of all, then
    the live runs. Return the live runs and the time of the store."""
    locks = await tx.fetch(LOCKS_OF, b=list(ids))
    locked = {job_id for job_id, serial, _, _ in locks if serial}
    await settling.lock_jobs(tx, locked)
    await ordering_keys.lock(tx, ((tenant, key) for _, _, tenant, key in locks if key is not None))
    runs = list(starmap(LockedRunRow, await tx.fetch(LOCK_RUNS, b=list(ids))))
    await settling.lock_jobs(tx, {run.job_id for run in runs if run.serial} - locked)
    return [*runs], _time_of(runs)


def _time_of(locked: Sequence[LockedRunRow]) -> Micros:
    """Return the time of the store at which these rows were read, which each row contains; 0 if there are no rows."""
    return locked[0].now if locked else 0


async def replace(tx: Tx, live: LiveRuns) -> None:
    """Cancel all active runs of a job in favour of the run that replaces them. The job and the ordering keys are
    locked."""
    assert live.successor is not None
    runs = list(starmap(LockedRunRow, await tx.fetch(LOCK_RUNS, b=live.active)))
    await cancel(
        tx,
        runs,
        _time_of(runs),
        reason=overlap.cancel_reason(live.policy, live.successor),
        kill=live.policy is Overlap.TERMINATE_PREVIOUS,
    )


async def cancel(
    tx: Tx, runs: Sequence[RunRow], now: Micros, *, reason: str | None = None, kill: bool = False
) -> dict[str, Cancelling]:
    """End waiting runs, and request the cancellation of running ones. Return what became of each, by id. With `kill`,
    the attempts of running ones are ended at once, without their grace period. The runs, their jobs and ordering keys
    are locked."""
    found: dict[str, Cancelling] = {}
    over: list[NewHistoryRow] = []
    for run in runs:
        if run.state == State.RUNNING:
            started = run.attempt_started_at is not None
            found[run.id] = Cancelling(run.id, Status.RUNNING, run.token, started)
        else:
            over.append(ended(run, Status.CANCELLED, now, reason=reason or ""))
            found[run.id] = Cancelling(run.id, Status.CANCELLED)
    if asked := [run_id for run_id, each in found.items() if each.status is Status.RUNNING]:
        await tx.execute(ASK_TO_CANCEL, b=asked, reason=reason, kill=int(kill))
    await settling.finish(tx, over)
    serial = {run.job_id for run in runs if run.serial and run.state != State.RUNNING}
    await settling.close_spans(tx, serial)
    await settling.release(tx, serial)
    await ordering_keys.release(
        tx, [gone for run in runs if run.state != State.RUNNING and (gone := ordering_keys.gone(run))]
    )
    return found


def _stream(chunk: LogChunk) -> str:
    """Return the stream of a chunk of output. A worker may not use the stream name that marks a reference to an
    object."""
    return plain(chunk.stream) if chunk.stream != REFERENCE else "stdout"


def _wanted(asked: Micros | None, kill: int) -> Wanted:
    if asked is None:
        return Wanted.GO_ON
    return Wanted.DIE if kill else Wanted.STOP
