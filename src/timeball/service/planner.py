"""Turns fires that come into sight into runs, and moves each schedule on, in one transaction."""

from __future__ import annotations

from typing import Final

import structlog

from timeball.domain import ids, planning
from timeball.domain.calendar import OPEN
from timeball.domain.instant import Micros
from timeball.domain.overlap import REPLACING
from timeball.domain.planning import MOST_INSTANTS, MOST_RUNS, Plan
from timeball.operation.closures import closures_of
from timeball.operation.context import Context
from timeball.operation.follow import with_echoes
from timeball.operation.recall import recall
from timeball.ports.hints import Topic
from timeball.service.hints import LocalHints
from timeball.service.loop import TICK, Loop

_log = structlog.get_logger()
BATCH: Final = 500


class Planner(Loop):
    name = "planner"
    topics = (Topic.PLAN,)

    def __init__(self, context: Context, hints: LocalHints) -> None:
        super().__init__(context.clock, hints)
        self._context = context
        self._store = context.store
        self._dice = context.dice

    async def turn(self) -> Micros:
        jobs = await self._store.due_jobs(BATCH)
        if not jobs:
            upcoming = await self._store.next_plan_at()
            return TICK if upcoming is None else max(0, upcoming - self._store.now())
        taken = await recall(self._context, jobs)
        jobs = await with_echoes(self._context, jobs)
        closures = await closures_of(self._context, jobs)
        now = self._store.now()
        plans: list[Plan] = []
        # A long absence of many jobs must neither hold up the event loop nor make a transaction that is long.
        runs, instants = MOST_RUNS, MOST_INSTANTS
        for job in jobs:
            if job.spec.bound and job.id not in closures:
                continue  # a server that can read its calendars plans it
            try:
                plan = planning.plan(
                    job,
                    now,
                    taken.get(job.id, frozenset()),
                    closures.get(job.id, OPEN),
                    most_runs=runs,
                    most_instants=instants,
                )
            except Exception:
                _log.exception("a job cannot be planned; the others are", job=job.id)
                continue
            plans.append(plan)
            runs -= plan.runs
            instants -= plan.instants
            if runs <= 0 or instants <= 0:
                break
        fresh_ids = [[ids.run(now, self._dice) for _ in plan.steps] for plan in plans]
        await self._store.commit_plans(plans, fresh_ids)
        self._hints.give(Topic.READY)
        if any(plan.job.spec.overlap in REPLACING for plan in plans):
            self._hints.give(Topic.CANCEL)
        if any(plan.job.spec.is_workflow for plan in plans):
            self._hints.give(Topic.WORKFLOW)
        return 0 if plans else TICK
