"""The planner: the loop that turns upcoming fires into runs and moves each job to its next fire, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from timeball.domain import ids
from timeball.domain.dispatch.overlap import REPLACING
from timeball.domain.errors import Unavailable
from timeball.domain.instant import MILLISECOND, Micros
from timeball.domain.job.job import Job
from timeball.domain.planning import planning
from timeball.domain.planning.planning import MAX_INSTANTS, MAX_RUNS, JobPlan
from timeball.domain.planning.planning_failure import reason_of
from timeball.domain.schedule.closed_times import OPEN
from timeball.operation.context import OperationContext
from timeball.operation.jobs.follow import with_upstream_events
from timeball.operation.schedules.cancelled_fires import cancelled_fires
from timeball.operation.schedules.closed_times import closures_of
from timeball.ports.wakeups import Topic
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalWakeups
from timeball.slices import wait_for_slice

_log = structlog.get_logger()
BATCH: Final = 500
SLICE_LENGTH: Final = 5 * MILLISECOND
"""Maximum time that planning blocks the event loop before it yields."""
MAX_REPORTED: Final = 10_000
"""Maximum number of failures that the planner remembers, so that it logs each only once."""


class Planner(Loop):
    name = "planner"
    topics = (Topic.PLAN,)

    def __init__(self, context: OperationContext, wakeups: LocalWakeups) -> None:
        super().__init__(context.clock, wakeups)
        self._context = context
        self._store = context.store
        self._rng = context.rng
        self._is_first_turn = True
        self._reported: set[tuple[str, str]] = set()
        """Pairs of a job that could not be planned and a reason that was logged."""

    async def turn(self) -> Micros:
        if self._store.planning_held():
            return TICK  # the wall clock stepped ahead, and nothing has confirmed it yet
        if self._is_first_turn:  # this version may be able to plan jobs that an earlier one could not
            await self._store.plan_failed_now()
            self._is_first_turn = False
        jobs = await self._store.due_jobs(BATCH)
        if not jobs:
            upcoming = await self._store.next_plan_at()
            return TICK if upcoming is None else max(0, upcoming - self._store.now())
        await self._plan(jobs)
        return 0

    async def _plan(self, jobs: Sequence[Job]) -> None:
        """Plan jobs in one transaction. If that fails, plan each half by itself, down to single jobs; a job that still
        fails is postponed.
        """
        try:
            await self._plan_together(jobs)
        except Unavailable:
            raise
        except Exception as error:
            if len(jobs) == 1:
                await self._put_off([(jobs[0], reason_of(error))])
                return
            half = len(jobs) // 2
            await self._plan(jobs[:half])
            await self._plan(jobs[half:])

    async def _plan_together(self, jobs: Sequence[Job]) -> None:
        taken = await cancelled_fires(self._context, jobs)
        jobs = await with_upstream_events(self._context, jobs)
        closures = await closures_of(self._context, jobs)
        now = self._store.now()
        plans: list[JobPlan] = []
        failed: list[tuple[Job, str]] = []
        # Many fires are due if jobs were not planned for a long time. `MAX_RUNS` and `MAX_INSTANTS` limit the fires of
        # one transaction, and slices of `SLICE_LENGTH` let other tasks of the event loop run.
        runs, instants = MAX_RUNS, MAX_INSTANTS
        slice_end = self._clock.monotonic() + SLICE_LENGTH
        for job in jobs:
            if job.spec.bound and job.id not in closures:
                failed.append((job, f"a calendar cannot be read: {', '.join(job.spec.calendars)}"))
                continue
            try:
                plan = planning.plan(
                    job,
                    now,
                    taken.get(job.id, frozenset()),
                    closures.get(job.id, OPEN),
                    most_runs=runs,
                    most_instants=instants,
                )
            except Exception as error:
                failed.append((job, reason_of(error)))
                continue
            plans.append(plan)
            if job.spec.bound:
                await wait_for_slice()  # the evaluation of calendars takes CPU time
            runs -= plan.runs
            instants -= plan.instants
            if runs <= 0 or instants <= 0:
                break
            if self._clock.monotonic() >= slice_end:
                await asyncio.sleep(0)
                slice_end = self._clock.monotonic() + SLICE_LENGTH
        fresh_ids = [[ids.run(now, self._rng) for _ in plan.steps] for plan in plans]
        await self._store.commit_plans(plans, fresh_ids)
        if failed:
            await self._put_off(failed)
        self._wakeups.wake(Topic.READY)
        if any(plan.job.spec.overlap in REPLACING for plan in plans):
            self._wakeups.wake(Topic.CANCEL)
        if any(plan.job.spec.is_workflow for plan in plans):
            self._wakeups.wake(Topic.WORKFLOW)

    async def _put_off(self, failed: Sequence[tuple[Job, str]]) -> None:
        await self._store.put_off(failed)
        for job, reason in failed:
            if (job.id, reason) not in self._reported and len(self._reported) < MAX_REPORTED:
                self._reported.add((job.id, reason))
                _log.error(
                    "a job cannot be planned and is postponed; the others are planned", job=job.id, reason=reason
                )
