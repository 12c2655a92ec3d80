"""Explain the state of a run or a job: what it waits for, why it did not run, why it was late."""

from __future__ import annotations

from msgspec import Struct

from timeball.domain.diagnosis import why, why_ended
from timeball.domain.diagnosis.reasons import Code, Reason
from timeball.domain.diagnosis.snapshot import Past, Standing
from timeball.domain.errors import NotFound
from timeball.domain.job.job import JobState
from timeball.domain.run.status import Status
from timeball.operation.context import OperationContext
from timeball.operation.find import find_run_anywhere
from timeball.operation.schedules.closed_times import closures_of_job


class RunExplained(Struct, frozen=True):
    facts: Past
    reasons: list[Reason]
    """The most important reason comes first. There is at least one."""


class JobExplained(Struct, frozen=True):
    facts: Standing
    reasons: list[Reason]
    """The reasons of the job itself; at least one."""
    run: RunExplained | None
    """The first live run of the job, or else the newest finished one."""

    @property
    def answer(self) -> Reason:
        """The most important reason. It is the first reason of the job itself if the job is paused or cancelled, or if
        `run` is None, has ended or is due in the future. Otherwise it is the first reason of `run`."""
        run = self.run
        idle = run is None or run.facts.run.is_terminal or run.facts.run.status is Status.SCHEDULED
        return self.reasons[0] if run is None or idle or _stopped(self.facts) else run.reasons[0]


async def explain_run(context: OperationContext, tenant: str, run_id: str) -> RunExplained:
    facts = await context.store.circumstances(run_id)
    if facts is not None and facts.run.tenant == tenant:
        return RunExplained(facts, why.of_run(facts))
    found = await find_run_anywhere(context, tenant, run_id)
    if not found.is_archived:
        raise NotFound("run", run_id)
    attempts = await found.attempts()
    past = Past(now=context.store.now(), run=found.run, first_attempt=attempts[0] if attempts else None)
    return RunExplained(past, why_ended.archived(past))


async def explain_job(context: OperationContext, tenant: str, job_id: str) -> JobExplained:
    facts = await context.store.standing(job_id)
    if facts is None or facts.job.tenant != tenant:
        raise NotFound("job", job_id)
    run = None if facts.run is None else RunExplained(facts.run, why.of_run(facts.run))
    reasons = why.of_job(facts, await closures_of_job(context, facts.job))
    clock = context.store.clock_state()
    if clock.held_since is not None and facts.job.state is JobState.ACTIVE and facts.job.next_fire_at is not None:
        held = Reason(
            code=Code.CLOCK,
            text=clock.why,
            unblocks="Wait until the step of the clock is confirmed, or accept it now: timeball clock accept.",
            since=clock.held_since,
        )
        reasons = [held, *reasons]
    return JobExplained(facts, reasons, run)


def _stopped(facts: Standing) -> bool:
    return facts.job.state is not JobState.ACTIVE
