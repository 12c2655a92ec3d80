"""Routes that explain why a run or a job waits, did not run, or was late."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Struct, UnsetType

from timeball.api.routes.jobs.job_actions import LedgerItem, ledger_items
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.api.views import LatenessView, lateness_view
from timeball.domain.diagnosis.reasons import Code, Reason
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import render
from timeball.domain.run.status import Status
from timeball.operation.runs.explain import RunExplained, explain_job, explain_run


class ReasonView(Struct, frozen=True, rename="camel", kw_only=True):
    """One reason why a run or a job has its state."""

    code: Code
    text: str
    unblocks: str
    """What would remove the reason; empty if no action is needed."""
    since: str | UnsetType = UNSET
    until: str | UnsetType = UNSET
    """When the reason ends by itself, if it does."""
    run_id: str | UnsetType = UNSET
    """The id of the other run that is the cause, if there is one."""


class RunWhy(Struct, frozen=True, rename="camel", kw_only=True):
    """Why a run has its status. The first reason is the most important one now."""

    run_id: str
    job_id: str
    job_name: str
    status: Status
    answer: str
    reasons: list[ReasonView]
    lateness: LatenessView | None


class JobWhy(Struct, frozen=True, rename="camel", kw_only=True):
    """Why a job has its status."""

    job_id: str
    job_name: str
    state: str
    answer: str
    reasons: list[ReasonView]
    """The reasons of the job itself."""
    run: RunWhy | None
    """Its first live run, else the newest one that ended."""
    exceptions: list[LedgerItem]
    """The latest fires that did not start on time, newest first."""


async def why_run(call: Call) -> Answer:
    return answer_json(_run(await explain_run(call.context, call.tenant, call.run_id)))


async def why_job(call: Call) -> Answer:
    found = await explain_job(call.context, call.tenant, call.job_id)
    job = found.facts.job
    return answer_json(
        JobWhy(
            job_id=job.id,
            job_name=job.spec.name,
            state=job.state,
            answer=found.answer.text,
            reasons=[_reason(reason) for reason in found.reasons],
            run=None if found.run is None else _run(found.run),
            exceptions=await ledger_items(call, found.facts.exceptions),
        )
    )


def _run(found: RunExplained) -> RunWhy:
    run = found.facts.run
    return RunWhy(
        run_id=run.id,
        job_id=run.job_id,
        job_name=run.job_name,
        status=run.status,
        answer=found.reasons[0].text,
        reasons=[_reason(reason) for reason in found.reasons],
        lateness=lateness_view(run, found.facts.first_attempt),
    )


def _reason(reason: Reason) -> ReasonView:
    return ReasonView(
        code=reason.code,
        text=reason.text,
        unblocks=reason.unblocks,
        since=UNSET if reason.since is None else render(reason.since),
        until=UNSET if reason.until is None else render(reason.until),
        run_id=reason.run_id or UNSET,
    )


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/jobs/{jobId}/why",
        permission=Permission.READ,
        summary="Explain the state of a job",
        description="Returns its state, the reasons of its run, and the newest fires that did not start on time.",
        handle=why_job,
        answer=JobWhy,
        problems=(404,),
    ),
    Route(
        method="GET",
        path="/v1/runs/{runId}/why",
        permission=Permission.READ,
        summary="Explain why a run waits, did not run, or was late",
        description="Returns the reasons, the most important first, and what would unblock each.",
        handle=why_run,
        answer=RunWhy,
        problems=(404,),
    ),
)
