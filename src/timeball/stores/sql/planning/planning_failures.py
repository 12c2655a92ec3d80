"""Jobs whose planning failed. Each of them is postponed separately, and the reason is stored.

A failure moves `plan_at` of the job but not `next_fire_at`: the next successful plan starts at the fire that was due
first. A row in `planning_failures` is valid only while the job has the version and the `plan_at` that the row names, so
no plan or change of a job has to delete the row.
"""

from __future__ import annotations

from collections.abc import Sequence

from timeball.domain.job.job import Job
from timeball.domain.planning.planning_failure import PlanningFailure, retry_delay
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.schema.jobs import JobRow
from timeball.stores.sql.statements import query

PLANNING_FAILURES = query("planning_failures")
PUT_OFF = query("put_off")
NOTE_PLANNING_FAILURES = query("note_planning_failures")
PLAN_FAILED_NOW = query("plan_failed_now")


class PlanningFailures(StorePart):
    async def put_off(self, failed: Sequence[tuple[Job, str]]) -> None:
        async def work(tx: Tx) -> None:
            await put_off(tx, [(job.id, job.version, job.plan_at, reason) for job, reason in failed])

        if failed:
            await self._db.write(work)

    async def planning_failures(self, job_ids: Sequence[str]) -> dict[str, PlanningFailure]:
        async def work(tx: Tx) -> dict[str, PlanningFailure]:
            return await current(tx, job_ids)

        return await self._db.read(work) if job_ids else {}

    async def plan_failed_now(self) -> None:
        async def work(tx: Tx) -> None:
            await tx.execute(PLAN_FAILED_NOW)

        await self._db.write(work)


async def current(tx: Tx, job_ids: Sequence[str]) -> dict[str, PlanningFailure]:
    rows = await tx.fetch(PLANNING_FAILURES, b=list(dict.fromkeys(job_ids)))
    return {
        job_id: PlanningFailure(
            job_id=job_id, tenant=tenant, reason=reason, failures=failures, since=since, retry_at=retry_at
        )
        for job_id, tenant, reason, failures, since, retry_at in rows
    }


async def put_off(tx: Tx, failed: Sequence[tuple[str, int, int | None, str]]) -> None:
    """Delay the planning of jobs, given as id, version, `plan_at` and reason. Jobs that have changed or were planned
    since then stay as they are."""
    before = await current(tx, [job_id for job_id, *_ in failed])
    counts = {job_id: 1 + (before[job_id].failures if job_id in before else 0) for job_id, *_ in failed}
    reasons = {job_id: plain(reason) for job_id, _, _, reason in failed}
    moves = [(job_id, version, plan_at, retry_delay(counts[job_id])) for job_id, version, plan_at, _ in failed]
    moved = await tx.fetch(PUT_OFF, b=moves)
    notes = [(job_id, version, plan_at, counts[job_id], reasons[job_id]) for job_id, version, plan_at in moved]
    if notes:
        await tx.execute(NOTE_PLANNING_FAILURES, b=notes)


def unreadable(row: Row, reason: str) -> tuple[str, int, int | None, str]:
    """Return the arguments of `put_off` for a row of `jobs` that cannot be decoded."""
    found = JobRow(*row)
    return found.id, found.version, found.plan_at, reason
