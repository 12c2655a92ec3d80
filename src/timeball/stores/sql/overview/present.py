"""The present state for the overview: counts of live runs, jobs and workers, and the next fires."""

from __future__ import annotations

from typing import Final

from timeball.domain.dispatch.placement import PLAIN, need_of
from timeball.domain.workflow.definition import WORKFLOW_PROFILE
from timeball.ports.store.overview import MAX_COUNTED, Present, Upcoming
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.names import resolve
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.runs.workers import serves
from timeball.stores.sql.statements import query

_STATES: Final = ("ready", "blocked")
_NOT_DUE: Final = "w.due > {now}"
DUE_READY_RUNS = query(
    "due_runs",
    waiting=resolve("{state.ready}"),
    not_due=f"{_NOT_DUE} OR (w.attempt = 0 AND w.eligible_at > {{now}})",
)
DUE_BLOCKED_RUNS = query("due_runs", waiting=resolve("{state.blocked}"), not_due=_NOT_DUE)
UPCOMING_RUNS = tuple(query("upcoming_runs", waiting=resolve(f"{{state.{state}}}")) for state in _STATES)
WAITING_RUNS = query("waiting_runs")
RUNNING_RUNS = query("running_runs")
COUNTED_JOBS = query("counted_jobs")
LEASED_SLOTS = query("leased_slots")
UPCOMING_JOBS = query("upcoming_jobs")

MAX_CLASSIFIED: Final = 2_000
"""Maximum number of ready runs, and of blocked runs, whose rows are read. Further runs are counted as due, although
jitter may still delay some of them."""


class PresentReads(StorePart):
    async def present(self, tenant: str) -> Present:
        async def work(tx: Tx) -> Present:
            limits = {"tenant": tenant, "limit": MAX_COUNTED}
            ((ready, blocked, ready_later, blocked_later, retrying),) = await tx.fetch(WAITING_RUNS, **limits)
            exact = {"tenant": tenant, "limit": MAX_CLASSIFIED}
            ((_, not_due, retried, oldest),) = await tx.fetch(DUE_READY_RUNS, **exact)
            ((_, not_due_blocked, _, _),) = await tx.fetch(DUE_BLOCKED_RUNS, **exact)
            retries = retried or 0 if ready < MAX_CLASSIFIED else min(retrying, ready)
            not_due, not_due_blocked = int(not_due or 0), int(not_due_blocked or 0)
            running = await tx.fetch(RUNNING_RUNS, **limits)
            ((firing, following, paused),) = await tx.fetch(COUNTED_JOBS, **limits)
            rows = await tx.fetch(LEASED_SLOTS)
            leased = [row[:2] for row in rows if serves(tenant, *row[2:])]
            counts = [ready, blocked, ready_later, blocked_later, retrying, firing, following, paused]
            counts.append(sum(count for _, _, _, count in running))
            return Present(
                now=self._db.now(),
                scheduled=min(MAX_COUNTED, ready_later + blocked_later + not_due + not_due_blocked),
                blocked=blocked - not_due_blocked,
                queued=ready - not_due - int(retries),
                running=int(sum(own for _, _, own, _ in running)),
                retrying=int(retries),
                oldest_queued_at=oldest,
                jobs=min(firing + following, MAX_COUNTED),
                paused_jobs=paused,
                capped=max(counts) >= MAX_COUNTED,
                workers=sum(workers for workers, _ in leased),
                slots=int(sum(slots for _, slots in leased)),
                busy=sum(map(_slots, running)),
            )

        return await self._db.read(work, slow=True, may_lag=True)

    async def upcoming(self, tenant: str, limit: int) -> list[Upcoming]:
        async def work(tx: Tx) -> list[Upcoming]:
            found: dict[str, Upcoming] = {}
            for each in UPCOMING_RUNS:
                for job_id, name, fire_time in await tx.fetch(each, tenant=tenant, limit=limit):
                    _keep_first(found, Upcoming(job_id, name, fire_time))
            for job_id, name, fire_time, has_calendar in await tx.fetch(UPCOMING_JOBS, tenant=tenant, limit=limit):
                _keep_first(found, Upcoming(job_id, name, fire_time, bool(has_calendar)))
            return sorted(found.values(), key=lambda each: (each.fire_time, each.job_id))[:limit]

        return await self._db.read(work, slow=True, may_lag=True)


def _keep_first(found: dict[str, Upcoming], each: Upcoming) -> None:
    known = found.get(each.job_id)
    if known is None or each.fire_time < known.fire_time:
        found[each.job_id] = each


def _slots(row: Row) -> int:
    """Return the slots that the tenant's runs of one profile take."""
    profile, is_workflow, count, _ = row
    if is_workflow:
        return 0
    return int(count) * (PLAIN if profile is None or profile == WORKFLOW_PROFILE else need_of(profile)).slots
