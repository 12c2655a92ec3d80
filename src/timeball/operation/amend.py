"""Change a job so that the acknowledged change wins: the one way update, pause, resume and cancel take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from timeball.domain import ids, planning
from timeball.domain.errors import Conflict
from timeball.domain.instant import Micros
from timeball.domain.job import Job, JobState
from timeball.operation.context import Context
from timeball.operation.find import find_job
from timeball.ports.hints import Topic
from timeball.ports.store import Amended, Amendment, Fired, Outdated

TRIES: Final = 100

Decide = Callable[[Job, Micros], Amendment | None]
"""From a job as it is, the change to make; None: it already is as wanted. Raises to refuse."""


async def amend(context: Context, tenant: str, job_id: str, decide: Decide) -> None:
    """Read, decide, write if nobody was faster; again otherwise."""
    tries = 0
    while tries < TRIES:
        job = (await find_job(context, tenant, job_id)).job
        now = context.store.now()
        if _is_overdue(job, now):
            # Instants that already fell due belong to the old version: account for them first.
            await plan_job(context, job, now)
            continue
        amendment = decide(job, now)
        if amendment is None:
            return
        [answer] = await context.store.amend([amendment])
        match answer:
            case Amended():
                context.hints.give(Topic.PLAN)
                context.hints.give(Topic.READY)
                if amendment.cancel_runs:
                    context.hints.give(Topic.CANCEL)
                return
            case Fired(at):
                await context.clock.sleep(max(1, at - context.store.now()))
            case Outdated():
                tries += 1
            case _:
                assert_never(answer)
    raise Conflict(f"job {job_id} keeps changing; try again")


async def plan_job(context: Context, job: Job, now: Micros) -> None:
    """One bounded step of planning, as the planner would do it."""
    plan = planning.plan(job, now)
    await context.store.commit_plans([plan], [[ids.run(now, context.dice) for _ in plan.steps]])


def _is_overdue(job: Job, now: Micros) -> bool:
    return job.state is JobState.ACTIVE and job.next_fire_at is not None and job.next_fire_at <= now
