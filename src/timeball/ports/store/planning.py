"""The store for who plans: the instants that come next, those of the past that a backfill fires, and a forecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.planning.backfill import Ahead, Backfill, BackfillProgress
from timeball.domain.planning.planning import Plan
from timeball.domain.planning.planning_failure import PlanningFailure
from timeball.ports.store.jobs import Answered, Idempotency
from timeball.ports.store.paging import Page


class PlanStore(Protocol):
    async def due_jobs(self, limit: int) -> list[Job]:
        """Active jobs whose `plan_at` has come, longest overdue first. No lower bound: nothing is ever skipped. Jobs
        that cannot be read are put off."""
        ...

    async def put_off(self, failed: Sequence[tuple[Job, str]]) -> None:
        """Plan these jobs later, for the given reasons, where no other server planned or changed them since they were
        read: the later, the more often in a row. Their next fire stays what it is."""
        ...

    async def planning_failures(self, job_ids: Sequence[str]) -> dict[str, PlanningFailure]:
        """Why jobs are not planned now, of those that are put off."""
        ...

    async def plan_failed_now(self) -> None:
        """End the delay of all jobs that are put off."""
        ...

    async def commit_plans(self, plans: Sequence[Plan], run_ids: Sequence[Sequence[str]]) -> list[str]:
        """Write each plan where the job is active and its version, next fire and what it is owed still are what the
        plan was made from, and the calendars too; answers the ids of those jobs. Each fire counts in `Job.fired`,
        whatever becomes of it. Under each serial job's lock overlap is decided by `overlap.admit`: for instants that
        are due, now; for a future one, BLOCKED while another run is alive. Runs of the job that are BLOCKED and fell
        due since are decided too. `run_ids` holds one fresh id per step of each plan. A job that follows another goes
        on with what it has heard of by then, whatever the plan knew; a run that comes of an end names that run in
        `retry_of`."""
        ...

    async def apply_upstream_events(self, limit: int) -> int:
        """Let some jobs that follow others hear of the ends of runs that were written down for them, in the order in
        which those ended: each becomes an instant of the job, whose `next_fire_at` may move. Answers how many jobs did.
        An instant is never before the last change of its job, and no two of a job are the same."""
        ...

    async def upstream_events(self, job_ids: Sequence[str], most: int) -> dict[str, tuple[Micros, ...]]:
        """The first instants of jobs that follow others which wait to be planned, in order: at most so many of each."""
        ...

    async def cancelled_ahead(self, jobs: Sequence[Job]) -> dict[str, frozenset[Micros]]:
        """The instants from each job's next fire on that have their verdict already: their runs were cancelled before
        an edit let the schedule begin anew."""
        ...

    async def next_plan_at(self) -> Micros | None:
        """When the earliest job has to be planned."""
        ...

    async def pauses_over(self, limit: int) -> list[Job]:
        """Paused jobs whose pause is over, those first that wait the longest; without those that cannot be read."""
        ...

    async def next_resume_at(self) -> Micros | None:
        """When the earliest pause is over, or was."""
        ...


class BackfillStore(Protocol):
    """Whatever happens to a backfill happens under the lock on its job."""

    async def begin_backfill(self, backfill: Backfill, idempotency: Idempotency | None = None) -> Answered | None:
        """Insert it, once: `Accepted`, with its id, also if it is there already. None: its job is gone or cancelled."""
        ...

    async def backfills_to_advance(self, limit: int, after: str = "") -> list[str]:
        """Those that have room for another run while their job is active, or whose last run ended, in the order of
        their ids; only those behind `after`."""
        ...

    async def advance_backfills(self, ids: Sequence[str], ahead: Mapping[str, Ahead] | None = None) -> int:
        """Turn the next fires of each into READY runs, as many as there is room for, and move its cursor behind them;
        or, if all of them ended, call it completed. Nothing of one whose job is paused. How many runs were made.

        `ahead`: the next fires of those whose jobs have calendars, by their ids. One that has moved on since is left
        as it is."""
        ...

    async def cancel_backfill(self, backfill_id: str, reason: str) -> bool:
        """Make no more runs of it, and cancel those that are alive. False: it is not active."""
        ...

    async def backfills(self, ids: Sequence[str]) -> dict[str, BackfillProgress]: ...

    async def list_backfills(
        self, tenant: str, job_id: str | None, cursor: str | None, limit: int, *, may_lag: bool = False
    ) -> Page[BackfillProgress]:
        """Newest first."""
        ...


class ForecastStore(Protocol):
    async def firing_jobs(self, tenant: str, after: str, limit: int) -> Page[Job]:
        """Active jobs that have a next fire, oldest first, after an id."""
        ...

    async def mean_durations(self, job_ids: Sequence[str], since: Micros) -> dict[str, float]:
        """The seconds that the last few runs took that succeeded, of those made since a moment, where there are any."""
        ...
