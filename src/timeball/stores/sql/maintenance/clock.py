"""Writes that correct stored times when the clock of the machine of an SQLite store steps.

If the store was ahead of the clock, one transaction sets it back when a user accepts the clock:

- Timers (leases, retry delays, rate limits) keep their remaining time.
- Runs whose scheduled fire is in the future, and that no worker has begun, are deleted and planned again. All other
  live runs stay; their times move back.
- Future fires that were recorded as missed or skipped lose their verdict.
- Runs that were created in the future leave the sums of usage, and are added to them later.
- Every schedule is planned again from the corrected time. Future fires that were executed or cancelled keep their
  verdict: `verdicts_until` tells the planner to look for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import starmap, takewhile
from typing import Final

from msgspec import Struct

from timeball.domain import ids
from timeball.domain.audit_log.entry import SYSTEM_CHAIN
from timeball.domain.audit_log.values import Values
from timeball.domain.instant import SECOND, Micros, render
from timeball.domain.job.job import Job
from timeball.domain.planning import planning
from timeball.domain.run.lifecycle import State
from timeball.domain.schedule.schedule import Immediate
from timeball.ports.store_clock import ClockState
from timeball.stores.sql.audit_log.recording import record
from timeball.stores.sql.driver import Tx, scalar
from timeball.stores.sql.jobs.amend import Writes, persist
from timeball.stores.sql.maintenance.usage import recount_after
from timeball.stores.sql.rows.jobs import readable
from timeball.stores.sql.schema.jobs import JobRow
from timeball.stores.sql.schema.runs import RunRow
from timeball.stores.sql.statements import query

MAX_LEASE: Final = 15 * SECOND
"""Maximum remaining time of a lease when the store is opened."""
MAX_JOBS_PER_PAGE: Final = 1_000
MOVE_LENGTHS: Final = tuple(map(query, ("move_leases", "move_leads", "move_gates")))
MOVE_WAITS: Final = tuple(map(query, ("move_let_through", "move_attempts", "move_pauses", "move_backoffs")))
MOVE_ATTEMPTS: Final = tuple(map(query, ("move_attempts", "move_pauses")))
KEEP_LEASES = query("keep_leases")
CAP_LEASES = query("cap_leases")
RUNS_AHEAD = query("runs_ahead")
SET_BACK_INSTANTS = query("set_back_instants")
SPANS_AHEAD = query("spans_ahead")
DROP_SPANS = query("drop_spans")
CUT_SPANS = query("cut_spans")
VERDICTS_AHEAD = query("verdicts_ahead")
JOBS_AFTER = query("jobs_after")
LOCK_JOBS = query("lock_jobs")
NOTE_VERDICTS_AHEAD = query("note_verdicts_ahead")
VERDICTS_UNTIL = query("verdicts_until")
SET_BACK_BY: Final = tuple(map(query, ("set_back_runs", "set_back_follows", "set_back_echoes", "set_back_keys")))
SET_TO_NOW: Final = tuple(
    map(
        query,
        (
            "set_back_jobs",
            "set_back_workers",
            "set_back_preemptions",
            "set_back_idempotency",
            "set_back_versions",
            "set_back_profiles",
            "set_back_calendars",
        ),
    )
)


class SetBack(Struct, frozen=True):
    """The numbers of rows that were set back after a user accepted the clock."""

    jobs: int
    """Jobs whose next fire was planned again."""
    runs: int
    """Runs that were deleted, because their scheduled fire is in the future."""
    spans: int
    """Ledger rows whose future fires lost their verdict."""


async def move_timers(tx: Tx, step: Micros) -> None:
    """Move all timers by a step of the clock, so that their remaining time stays the same. Dates do not move."""
    for each in (*MOVE_LENGTHS, *MOVE_WAITS):
        await tx.execute(each, step=step)


async def keep_leases(tx: Tx, away: Micros, mark: Micros) -> None:
    """Extend the leases by the time for which no server was running, to at most `MAX_LEASE` from now. The store cannot
    distinguish this time from a step of the clock between two starts, and a worker may have held its runs the whole
    time. If that time is longer than `MAX_LEASE`, the start times of attempts move by the rest of it: no attempt can
    have run for longer than its lease."""
    await tx.execute(KEEP_LEASES, away=away, mark=mark)
    if away > MAX_LEASE:  # no attempt outlives its lease, so none has run for longer than a lease
        for each in MOVE_ATTEMPTS:
            await tx.execute(each, step=away - MAX_LEASE)
    await tx.execute(CAP_LEASES, longest=MAX_LEASE)


def record_acceptance(tx: Tx, before: ClockState) -> None:
    """Record that a user accepts the step of the clock for which planning is held, if it is."""
    if before.held_since is not None:
        values: Values = {"secondsAhead": before.ahead // SECOND, "heldSince": render(before.held_since)}
        record(tx, "clock", "store", after=values, chain=SYSTEM_CHAIN)


async def verdicts_until(tx: Tx) -> Micros:
    return int(scalar(await tx.fetch(VERDICTS_UNTIL)) or 0)


async def set_back(tx: Tx, mark: Micros, now: Micros) -> SetBack:
    """Set a store whose time was `mark` back to `now`. The clock of the transaction returns `now` already."""
    back = mark - now
    for each in MOVE_LENGTHS:
        await tx.execute(each, step=-back)
    await tx.execute(CAP_LEASES, longest=MAX_LEASE)
    spans = await _reopen_spans(tx, now)
    taken: dict[str, set[Micros]] = defaultdict(set)
    for job_id, fire_time in await tx.fetch(VERDICTS_AHEAD):
        taken[job_id].add(fire_time)
    ahead: dict[str, list[RunRow]] = defaultdict(list)
    for run in starmap(RunRow, await tx.fetch(RUNS_AHEAD)):
        ahead[run.job_id].append(run)
        if _has_begun(run):
            taken[run.job_id].add(run.fire_time)
    jobs, runs = await _plan_anew(tx, now, back, ahead, taken)
    for each in SET_BACK_BY:
        await tx.execute(each, back=back)
    for each in SET_TO_NOW:
        await tx.execute(each)
    await recount_after(tx, ids.first_run(now))
    await tx.execute(NOTE_VERDICTS_AHEAD, mark=mark)
    return SetBack(jobs, runs, spans)


async def _plan_anew(
    tx: Tx, now: Micros, back: Micros, ahead: Mapping[str, list[RunRow]], taken: Mapping[str, set[Micros]]
) -> tuple[int, int]:
    jobs = runs = 0
    after = ""
    while rows := await tx.fetch(JOBS_AFTER, after=after, limit=MAX_JOBS_PER_PAGE):
        after = JobRow(*rows[-1]).id
        writes = Writes()
        instants: list[str] = []
        for job in readable(rows):
            live = ahead.get(job.id, [])
            if isinstance(job.spec.schedule, Immediate) or job.spec.follows is not None:
                instants += [run.id for run in live]
                live = []
            unstarted = [run for run in live if not _has_begun(run)]
            changed = planning.set_back(job, now, back, len(unstarted), frozenset(taken.get(job.id, ())))
            writes.dropped += unstarted
            if changed != job:
                writes.jobs.append(changed)
        await persist(tx, writes, now)
        if instants:
            await tx.execute(SET_BACK_INSTANTS, b=instants, back=back)
        jobs += len(writes.jobs)
        runs += len(writes.dropped)
    return jobs, runs


def _has_begun(run: RunRow) -> bool:
    return run.attempt > 0 or run.state == State.RUNNING


async def _reopen_spans(tx: Tx, now: Micros) -> int:
    found = [tuple(row) for row in await tx.fetch(SPANS_AHEAD)]
    dropped = [span_id for span_id, _, first in found if first > now]
    begun = {job_id for _, job_id, first in found if first <= now}
    jobs = {job.id: job for job in readable(await tx.fetch(LOCK_JOBS, b=sorted(begun)))} if begun else {}
    cut = [(span_id, *_up_to(jobs.get(job_id), first, now)) for span_id, job_id, first in found if first <= now]
    if dropped:
        await tx.execute(DROP_SPANS, b=dropped)
    if cut:
        await tx.execute(CUT_SPANS, b=cut)
    return len(found)


def _up_to(job: Job | None, first: Micros, now: Micros) -> tuple[Micros, int]:
    """Return the last fire of a ledger span that is not in the future, and the number of such fires."""
    if job is None:
        return first, 1
    last, count = first, 1
    for at in takewhile(lambda at: at <= now, planning.fires(job, first)):
        last, count = at, count + 1
    return last, count
