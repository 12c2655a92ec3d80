"""Backfills: the fires of a past range become runs, each exactly once, a few at a time.

The cursor of a backfill moves in the transaction that inserts the runs before it, under the lock on the job. A crash at
any moment therefore neither skips a fire nor runs it twice, and two servers advance a backfill one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any, TypeVar

import msgspec

from timeball.domain.instant import render
from timeball.domain.job.job import Job, JobState, decode_spec, encode_spec
from timeball.domain.planning import backfill as rules
from timeball.domain.planning.backfill import Backfill, BackfillFires, BackfillProgress, BackfillState
from timeball.domain.run.run import NewRun
from timeball.domain.schedule.calendar import NamedCalendar
from timeball.ports.store.jobs import Accepted, Answered, Idempotency
from timeball.ports.store.paging import Page
from timeball.stores.sql.audit_log.recording import record
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.jobs.amend import LOCK_JOBS
from timeball.stores.sql.jobs.job_lists import NEWEST
from timeball.stores.sql.jobs.jobs import repeated_key
from timeball.stores.sql.new_runs import insert_runs
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.planning.plans import NOW
from timeball.stores.sql.rows.jobs import read_jobs
from timeball.stores.sql.rows.unreadable import unread
from timeball.stores.sql.rows.values import as_json, plain
from timeball.stores.sql.runs import ordering_keys, runs
from timeball.stores.sql.schema.jobs import BACKFILLS, BackfillRow, ListedBackfillRow, LiveBackfillRow
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.statements import query
from timeball.stores.sql.tenants.quotas import open_quotas

TO_ADVANCE = query("backfills_to_advance")
JOBS_OF_BACKFILLS = query("jobs_of_backfills")
LOCK_BACKFILLS = query("lock_backfills")
MOVE_BACKFILLS = query("move_backfills")
LIVE_OF_BACKFILL = query("live_of_backfill")
CANCEL_BACKFILL = query("cancel_backfill")
BY_ID = query("backfills")
LIST = query("list_backfills")
LIST_OF_JOB = query("list_backfills_of_job")

_R = TypeVar("_R", bound=BackfillRow)
_decode_calendars = msgspec.json.Decoder(tuple[NamedCalendar, ...]).decode


class Backfills(StorePart):
    async def begin_backfill(self, backfill: Backfill, idempotency: Idempotency | None = None) -> Answered | None:
        async def work(tx: Tx) -> Answered | None:
            job = next(iter(await read_jobs(tx, await tx.fetch(LOCK_JOBS, b=[backfill.job_id]))), None)
            if job is None or job.state is JobState.CANCELLED:
                return None
            if idempotency is not None:
                repeated = await repeated_key(tx, backfill.tenant, idempotency, backfill.id, backfill.created_at)
                if repeated is not None:
                    return repeated
            await tx.insert_missing(BACKFILLS, [as_tuple(_row(backfill))])
            asked = {"from": render(backfill.since), "to": render(backfill.until), "parallelism": backfill.parallelism}
            record(tx, "backfill", backfill.id, after={"jobId": backfill.job_id, **asked})
            return Accepted(backfill.id)

        self._db.require_space()
        return await self._db.write(work)

    async def backfills_to_advance(self, limit: int, after: str = "") -> list[str]:
        async def work(tx: Tx) -> list[str]:
            return [backfill_id for (backfill_id,) in await tx.fetch(TO_ADVANCE, after=after, limit=limit)]

        return await self._db.read(work)

    async def advance_backfills(self, ids: Sequence[str], ahead: Mapping[str, BackfillFires] | None = None) -> int:
        known = ahead or {}

        async def work(tx: Tx) -> int:
            jobs = await _lock_jobs(tx, ids)
            await ordering_keys.lock(tx, (ordering_keys.key_of_job(job) for job in jobs.values()))
            ((now,),) = await tx.fetch(NOW)
            quotas = None
            if self._quotas.by_tenant:
                quotas = await open_quotas(tx, self._quotas, (job.tenant for job in jobs.values()), now)
            new: list[NewRun] = []
            moves: list[tuple[str, int | None, int, str]] = []
            for found, row in _readable(starmap(LiveBackfillRow, await tx.fetch(LOCK_BACKFILLS, i=list(ids)))):
                job = jobs.get(found.job_id)
                if job is None or found.state is not BackfillState.ACTIVE:
                    continue
                alive_or_full = row.alive if job.state is JobState.ACTIVE else found.parallelism
                if quotas is not None and (days := quotas.runs_of(job.tenant)) is not None:  # the rest waits for a day
                    alive_or_full = max(alive_or_full, found.parallelism - days.left(now))
                try:
                    fires, cursor = rules.next_fires(found, job, alive_or_full, known.get(found.id))
                    runs_of_it = [rules.run_of(found, job, at, now) for at in fires]
                except Exception as error:
                    unread(found.id, error)
                    continue
                new += runs_of_it
                if quotas is not None:
                    for run in runs_of_it:
                        quotas.take_run(run.tenant, run.eligible_at)
                over = cursor is None and not fires and row.alive == 0
                state = BackfillState.COMPLETED if over else BackfillState.ACTIVE
                if fires or over:
                    moves.append((found.id, cursor, len(fires), state.value))
            if moves:
                await tx.execute(MOVE_BACKFILLS, i=moves)
            await _insert(tx, new)
            if quotas is not None:
                await quotas.write()
            return len(new)

        return await self._db.write(work) if ids else 0

    async def cancel_backfill(self, backfill_id: str, reason: str) -> bool:
        async def work(tx: Tx) -> bool:
            await _lock_jobs(tx, [backfill_id])
            alive = [run_id for (run_id,) in await tx.fetch(LIVE_OF_BACKFILL, id=backfill_id)]
            if not await tx.fetch(CANCEL_BACKFILL, id=backfill_id, reason=plain(reason)):
                return False
            record(tx, "backfill", backfill_id, after={"state": BackfillState.CANCELLED.value})
            if alive:
                locked, now = await runs.lock_runs(tx, alive)
                await runs.cancel(tx, locked, now, reason=reason)
            return True

        return await self._db.write(work)

    async def backfills(self, ids: Sequence[str]) -> dict[str, BackfillProgress]:
        async def work(tx: Tx) -> dict[str, BackfillProgress]:
            found = _progress(starmap(ListedBackfillRow, await tx.fetch(BY_ID, i=list(dict.fromkeys(ids)))))
            return {each.backfill.id: each for each in found}

        return await self._db.read(work) if ids else {}

    async def list_backfills(
        self, tenant: str, job_id: str | None, cursor: str | None, limit: int, *, may_lag: bool = False
    ) -> Page[BackfillProgress]:
        where: dict[str, Any] = {"tenant": tenant, "before": plain(cursor) if cursor else NEWEST, "limit": limit + 1}
        if job_id is not None:
            where["job_id"] = job_id

        async def work(tx: Tx) -> Page[BackfillProgress]:
            found = await tx.fetch(LIST if job_id is None else LIST_OF_JOB, **where)
            rows = list(starmap(ListedBackfillRow, found[:limit]))
            return Page(_progress(rows), rows[-1].id if len(found) > limit else None)

        return await self._db.read(work, slow=True, may_lag=may_lag)


async def _lock_jobs(tx: Tx, ids: Sequence[str]) -> dict[str, Job]:
    job_ids = [job_id for (job_id,) in await tx.fetch(JOBS_OF_BACKFILLS, i=list(ids))]
    return {job.id: job for job in await read_jobs(tx, await tx.fetch(LOCK_JOBS, b=job_ids))} if job_ids else {}


async def _insert(tx: Tx, new: Sequence[NewRun]) -> None:
    """Insert the runs of backfills. Limits and ordering keys apply to them, the overlap policy does not."""
    await insert_runs(tx, [(run, 0, True) for run in new])


def _row(backfill: Backfill) -> BackfillRow:
    return BackfillRow(
        backfill.id,
        backfill.tenant,
        backfill.job_id,
        encode_spec(backfill.spec).decode(),
        as_json(backfill.calendars),
        backfill.slot,
        backfill.anchor,
        backfill.since,
        backfill.until,
        backfill.parallelism,
        backfill.total,
        backfill.state.value,
        plain(backfill.reason),
        backfill.cursor,
        backfill.made,
        backfill.failed,
        backfill.cancelled,
        backfill.created_at,
        backfill.finished_at,
    )


def _backfill(found: BackfillRow) -> Backfill:
    return Backfill(
        id=found.id,
        tenant=found.tenant,
        job_id=found.job_id,
        spec=decode_spec(found.spec),
        calendars=_decode_calendars(found.calendars),
        slot=found.slot,
        anchor=found.anchor,
        since=found.since,
        until=found.until,
        parallelism=found.parallelism,
        total=found.total,
        state=BackfillState(found.state),
        reason=found.reason,
        cursor=found.cursor_at,
        made=found.made,
        failed=found.failed,
        cancelled=found.cancelled,
        created_at=found.created_at,
        finished_at=found.finished_at,
    )


def _readable(rows: Iterable[_R]) -> Iterator[tuple[Backfill, _R]]:
    """Yield backfills with their rows. A backfill that this version cannot decode is logged and left out, so that it
    does not stop the others."""
    for row in rows:
        try:
            found = _backfill(row)
        except Exception as error:
            unread(row.id, error)
        else:
            yield found, row


def _progress(rows: Iterable[ListedBackfillRow]) -> list[BackfillProgress]:
    return [BackfillProgress(found, row.job_name, JobState(row.job_state), row.alive) for found, row in _readable(rows)]
