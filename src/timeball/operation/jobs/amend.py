"""Change a job so that an acknowledged change is never lost. The operations update, pause, resume and cancel use this
module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from msgspec import structs

from timeball.domain import ids
from timeball.domain.errors import Conflict, TimeballError
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobState, is_overdue
from timeball.domain.planning import planning, upcoming_fires
from timeball.domain.planning.planning import Span
from timeball.domain.planning.planning_failure import reason_of
from timeball.domain.run.ledger import FORGONE, UNPLANNABLE, Verdict
from timeball.operation.context import OperationContext
from timeball.operation.find import find_job
from timeball.operation.jobs.follow import with_upstream_events
from timeball.operation.schedules.cancelled_fires import cancelled_fires
from timeball.operation.schedules.closed_times import closures_to_plan
from timeball.ports.store.jobs import Amended, Amendment, Fired, Outdated
from timeball.ports.wakeups import Topic

TRIES: Final = 100
INSTANTS_PER_SLICE: Final = 20_000
"""Number of fires to count before other tasks of the event loop get their turn."""

Decide = Callable[[Job, Micros], Amendment | None]
"""Returns the change to make for the current job; None if the job is in the requested state already. Raises an error to
refuse the request."""


async def amend(context: OperationContext, tenant: str, job_id: str, decide: Decide) -> None:
    """Read the job, call `decide`, and write the change. Due fires of the job are planned first, since they belong to
    the old version. If another request has changed the job since it was read, start again; after 100 times raise
    `Conflict`. If a worker holds the run of a future fire, wait for that fire and start again."""
    tries = 0
    while tries < TRIES:
        job = (await find_job(context, tenant, job_id)).job
        now = context.store.now()
        unplannable = ""
        if is_overdue(job, now) or await _is_put_off(context, job, now):
            # Fires that are due already belong to the old version: plan them first.
            unplannable = await _plan(context, job, now)
            if not unplannable:
                continue
        amendment = decide(job, now)
        if amendment is not None and unplannable:
            amendment = _without_plan(job, amendment, now, unplannable)
        if amendment is not None and not amendment.keep_schedule and (unplannable or job.state is JobState.PAUSED):
            closing, unclosed = await _forgone(context, job, unplannable and f"{UNPLANNABLE}: {unplannable}")
            # Counting the fires may have taken long.
            amendment = decide(job, context.store.now())
            if amendment is not None and unplannable:
                amendment = _without_plan(job, amendment, context.store.now(), unplannable)
            amendment = amendment and structs.replace(amendment, closing=closing, unclosed=unclosed)
        if amendment is None:
            return
        [answer] = await context.store.amend([amendment])
        match answer:
            case Amended():
                context.wakeups.wake(Topic.PLAN)
                context.wakeups.wake(Topic.READY)
                if amendment.cancel_runs:
                    context.wakeups.wake(Topic.CANCEL)
                    context.wakeups.wake(Topic.WORKFLOW)
                return
            case Fired(at):
                await context.clock.sleep(max(1, at - context.store.now()))
            case Outdated():
                tries += 1
            case _:
                assert_never(answer)
    raise Conflict(f"job {job_id} keeps changing; try again")


async def _is_put_off(context: OperationContext, job: Job, now: Micros) -> bool:
    """True if a fire of the job is due and the planner has postponed the job because its planning failed."""
    if job.state is not JobState.ACTIVE or job.next_fire_at is None or job.next_fire_at > now:
        return False
    return bool(await context.store.planning_failures([job.id]))


async def _plan(context: OperationContext, job: Job, now: Micros) -> str:
    """Plan the job. Return the reason why it cannot be planned; an empty string if a plan was committed."""
    try:
        await plan_job(context, job, now)
    except TimeballError:
        raise
    except Exception as error:
        return reason_of(error)
    return ""


def _without_plan(job: Job, amendment: Amendment, now: Micros, reason: str) -> Amendment:
    """Return the amendment of a job whose due fires cannot be planned. A user can always cancel or pause a job: a pause
    keeps its due fires for the catch-up rule, and any other change gives them a verdict without a run."""
    amendment = structs.replace(amendment, unplannable=True)
    if amendment.state is JobState.PAUSED or not amendment.keep_schedule:
        return amendment
    try:
        following = next(planning.fires(job.with_(spec=amendment.spec), now), None)
    except Exception as error:
        detail = "cancel it, pause it, or give it another schedule"
        raise Conflict(f"job {job.id} cannot be planned ({reason}): {detail}") from error
    return structs.replace(amendment, keep_schedule=False, next_fire_at=following, anchor=job.anchor)


async def plan_job(context: OperationContext, job: Job, now: Micros) -> None:
    """Plan due fires of a job, at most as many as one plan may have, by the rules of the planner."""
    taken = (await cancelled_fires(context, [job])).get(job.id, frozenset())
    [job] = await with_upstream_events(context, [job])
    plan = planning.plan(job, now, taken, await closures_to_plan(context, job))
    await context.store.commit_plans([plan], [[ids.run(now, context.rng) for _ in plan.steps]])


async def _forgone(
    context: OperationContext, job: Job, unplannable: str = ""
) -> tuple[tuple[Span, ...], Micros | None]:
    """Return two things: the fires that were due while the job was paused or could not be planned, and that a change
    now skips for good, and the next fire. If the fires cannot be computed, only the first of them is returned."""
    if job.spec.follows is not None or job.next_fire_at is None:
        return (), None  # the fires of a job that follows another are in the store
    try:
        return await _counted(context, job, unplannable or FORGONE)
    except TimeballError:
        raise
    except Exception as error:
        if job.next_fire_at > context.store.now():
            return (), job.next_fire_at
        reason = f"{unplannable or FORGONE}; the fires after it cannot be computed: {reason_of(error)}"
        return (Span(job.next_fire_at, job.next_fire_at, 1, Verdict.MISSED, reason),), None


async def _counted(context: OperationContext, job: Job, reason: str) -> tuple[tuple[Span, ...], Micros | None]:
    """Return the due fires as one span, and the next fire. There may be millions of due fires, so they are counted
    without blocking the event loop."""
    taken = (await cancelled_fires(context, [job])).get(job.id, frozenset())
    first = last = coming = None
    count = 0
    for instant in upcoming_fires.instants(job, taken):
        if instant > context.store.now():
            coming = instant
            break
        first, last, count = first or instant, instant, count + 1
        if count % INSTANTS_PER_SLICE == 0:
            await context.clock.sleep(1)
    if first is None or last is None:
        return (), coming
    return (Span(first, last, count, Verdict.MISSED, reason),), coming
