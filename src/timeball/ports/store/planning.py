"""The store for planning: the next fires of jobs, the past fires of backfills, and the data of the forecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.planning.backfill import Backfill, BackfillFires, BackfillProgress
from timeball.domain.planning.planning import JobPlan
from timeball.domain.planning.planning_failure import PlanningFailure
from timeball.ports.store.jobs import Answered, Idempotency
from timeball.ports.store.paging import Page


class PlanStore(Protocol):
    async def due_jobs(self, limit: int) -> list[Job]:
        """Return active jobs whose `plan_at` has come, longest overdue first. There is no lower bound: a job is
        returned however long it is overdue. Jobs that cannot be decoded are postponed, and not returned."""
        ...

    async def put_off(self, failed: Sequence[tuple[Job, str]]) -> None:
        """Postpone the planning of jobs, each given with the reason of the failure: from 15 seconds up to 10 minutes,
        twice as long after each failure in a row. A job that another server has planned or changed since it was read is
        left unchanged. The next fire of a job does not move.
        """
        ...

    async def planning_failures(self, job_ids: Sequence[str]) -> dict[str, PlanningFailure]:
        """Return why jobs are postponed now, by job id, without jobs that are not postponed."""
        ...

    async def plan_failed_now(self) -> None:
        """Make all postponed jobs due for planning now."""
        ...

    async def commit_plans(self, plans: Sequence[JobPlan], run_ids: Sequence[Sequence[str]]) -> list[str]:
        """Write plans and return the ids of the jobs whose plan was written. `run_ids` has one new id per step of each
        plan.

        Precondition: the job is active, and its version, its next fire, its deferred fire and the versions of its
        calendars are those that the plan was made from. A plan that fails this check is left out, so a repeated call
        writes nothing.

        - Each `PlannedFire` step counts in `Job.fired`, even if the overlap policy skips it.
        - For a job whose runs may not overlap, `overlap.admit` decides under the lock on the job: for due fires now;
          the run of a future fire is BLOCKED while another run is alive. BLOCKED runs of the job that fell due since
          the last plan are decided as well.
        - A job that follows another gets its next fire from the upstream events that are stored at that moment, even if
          the plan was made with fewer. A run that comes from an upstream event names the upstream run in `retry_of`.
        """
        ...

    async def apply_upstream_events(self, limit: int) -> int:
        """Turn stored upstream events into fires, for up to `limit` jobs that follow others. Return the number of jobs
        that changed. The events of a job are applied in the order in which the upstream runs ended; its `next_fire_at`
        may move. A fire is never before the last change of its job, and no two fires of a job are at the same instant.
        """
        ...

    async def upstream_events(self, job_ids: Sequence[str], limit: int) -> dict[str, tuple[Micros, ...]]:
        """Return the first fires from upstream events that wait to be planned, by job, in order: at most `limit` of
        each job."""
        ...

    async def cancelled_ahead(self, jobs: Sequence[Job]) -> dict[str, frozenset[Micros]]:
        """Return, by job, the fires from its next fire on that have a verdict already. Their runs were cancelled before
        an edit restarted the schedule, or were executed while the store's clock was ahead.
        """
        ...

    async def next_plan_at(self) -> Micros | None:
        """Return when the next job must be planned; None: no job has to be planned."""
        ...

    async def pauses_over(self, limit: int) -> list[Job]:
        """Return paused jobs whose pause has ended, the earliest end first, without jobs that cannot be decoded."""
        ...

    async def next_resume_at(self) -> Micros | None:
        """Return when the next pause ends, which may be in the past; None: no pause has an end."""
        ...


class BackfillStore(Protocol):
    """Every change of a backfill is made under the lock on its job."""

    async def begin_backfill(self, backfill: Backfill, idempotency: Idempotency | None = None) -> Answered | None:
        """Insert a backfill. Return `Accepted` with its id, also if it is stored already. Return the answer to the
        first request if the idempotency key was used before. None: the job does not exist or is cancelled.
        """
        ...

    async def backfills_to_advance(self, limit: int, after: str = "") -> list[str]:
        """Return the ids, greater than `after` and in order, of active backfills that `advance_backfills` can change:
        they may have another run while their job is active, or their last run has ended.
        """
        ...

    async def advance_backfills(self, ids: Sequence[str], ahead: Mapping[str, BackfillFires] | None = None) -> int:
        """Create READY runs for the next fires of each backfill, as many as its parallelism allows, and move its cursor
        behind these fires, in the same transaction. A backfill without a fire left whose runs have all ended becomes
        completed. No run is created while the job is paused. Return the number of new runs.

        `ahead` has the next fires of backfills whose jobs have calendars, by backfill id. If the cursor of such a
        backfill has moved since they were computed, no run is created for it.
        """
        ...

    async def cancel_backfill(self, backfill_id: str, reason: str) -> bool:
        """End a backfill and cancel its live runs. It gets no further runs. Return False, and change nothing, if the
        backfill is not active.
        """
        ...

    async def backfills(self, ids: Sequence[str]) -> dict[str, BackfillProgress]:
        """Return backfills with their progress by their ids, without those that do not exist."""
        ...

    async def list_backfills(
        self, tenant: str, job_id: str | None, cursor: str | None, limit: int, *, may_lag: bool = False
    ) -> Page[BackfillProgress]:
        """Return a page of the backfills of a tenant, or of one job, newest first."""
        ...


class ForecastStore(Protocol):
    async def firing_jobs(self, tenant: str, after: str, limit: int) -> Page[Job]:
        """Return a page of active jobs with a next fire whose ids are greater than `after`, oldest first."""
        ...

    async def mean_durations(self, job_ids: Sequence[str], since: Micros) -> dict[str, float]:
        """Return the mean duration in seconds of the newest successful runs of each job, among runs created at or after
        `since`. A job without such a run is left out.
        """
        ...
