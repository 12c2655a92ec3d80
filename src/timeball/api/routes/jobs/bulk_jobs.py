"""The route that pauses, resumes, runs or cancels all jobs that match a filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from msgspec import Struct, structs

from timeball.api.bodies import BulkJobsBody
from timeball.api.problems import Problem, problem
from timeball.api.query import job_filter, place_after, refuse_empty
from timeball.api.routes.runs.dead_letters import CountedAnswer
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.domain import ids, instant
from timeball.domain.errors import Invalid
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import HOUR, SECOND, Micros, render
from timeball.operation.jobs import bulk
from timeball.operation.jobs.job_result import JobResult
from timeball.operation.jobs.pause import over, pause_jobs, resume_jobs
from timeball.operation.runs.cancel import cancel_jobs
from timeball.operation.runs.run_now import run_jobs
from timeball.ports.store.jobs import JobFilter

MAX_REASONS: Final = 100

_ALIVE: Final = frozenset({"scheduled", "paused", "completed"})
_POSSIBLE: Final = {"pause": _ALIVE, "resume": frozenset({"paused"}), "run": _ALIVE, "cancel": _ALIVE}
"""The statuses in which each action is possible."""
_USUAL: Final = {
    "pause": frozenset({"scheduled"}),
    "resume": frozenset({"paused"}),
    "run": frozenset({"scheduled"}),
    "cancel": frozenset({"scheduled", "paused"}),
}
"""The statuses that are selected if the filter has none."""


class UnchangedJob(Struct, frozen=True, rename="camel"):
    job_id: str
    error: Problem


class BulkJobsAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    matched: int
    """Number of jobs that this request processed."""
    changed: int
    skipped: int
    failed: list[UnchangedJob]
    """The errors of the first skipped jobs."""
    created_before: str
    """Send it in the filter to select the same jobs again, without jobs that were created since."""
    next_cursor: str | None
    """Send it as `cursor` to process the next jobs; null if all were processed."""


async def change(call: Call) -> Answer:
    body: BulkJobsBody = call.body
    call.audit_selection()
    until = _end_of_pause(call, body)
    where = _meant(call, body)
    stamp = _stamp(call, where) if body.action == "run" else None
    where = bulk.bounded(call.context, where, 0 if body.action == "run" else SECOND)
    created_before = render(ids.made_at(where.made_before or ""))
    if body.dry_run:
        matched = await call.context.store.count_jobs(where)
        return answer_json(CountedAnswer(matched=matched, created_before=created_before))

    async def act(job_ids: Sequence[str]) -> list[JobResult]:
        match body.action:
            case "pause":
                return await pause_jobs(call.context, call.tenant, job_ids, reason=body.reason, until=until)
            case "resume":
                return await resume_jobs(call.context, call.tenant, job_ids)
            case "run":
                return await run_jobs(call.context, call.tenant, job_ids, stamp)
            case "cancel":
                return await cancel_jobs(call.context, call.tenant, job_ids)
            case _:
                assert_never(body.action)

    cursor = place_after(body.cursor, "j", "/cursor")
    tally = await bulk.over_filter(call.context, where, act, cursor=cursor, limit=body.limit)
    return answer_json(
        BulkJobsAnswer(
            matched=tally.matched,
            changed=tally.changed,
            skipped=len(tally.refused),
            failed=[
                UnchangedJob(each.job_id, problem(each.error)) for each in tally.refused[:MAX_REASONS] if each.error
            ],
            created_before=created_before,
            next_cursor=tally.next_cursor,
        )
    )


def _end_of_pause(call: Call, body: BulkJobsBody) -> Micros | None:
    for given, name in ((body.reason, "reason"), (body.until, "until")):
        if given and body.action != "pause":
            raise Invalid(f"only a pause has {name!r}", f"/{name}")
    if body.until is None:
        return None
    until = instant.parse(body.until, "/until")
    if until <= call.context.store.now():
        raise over(until)
    return until


def _stamp(call: Call, where: JobFilter) -> Micros | None:
    """Return the instant from which the ids of new runs are made, so that a repeated request creates no second run. The
    day of a run is read from its id, so the instant must be recent."""
    if where.made_before is None:
        return None
    stamp = ids.made_at(where.made_before)
    if not call.context.store.now() - HOUR <= stamp <= call.context.store.now():
        raise Invalid(
            "to run jobs, `createdBefore` must be from an answer of the last hour; count the jobs again",
            "/filter/createdBefore",
        )
    return stamp


def _meant(call: Call, body: BulkJobsBody) -> JobFilter:
    where = job_filter(body.filter, call.tenant, "/filter")
    refuse_empty(body.filter)
    if impossible := sorted(where.status - _POSSIBLE[body.action]):
        raise Invalid(
            f"cannot {body.action} jobs that are {', '.join(impossible)};"
            f" possible are {', '.join(sorted(_POSSIBLE[body.action]))}",
            "/filter/status",
        )
    return structs.replace(where, status=where.status or _USUAL[body.action])


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/jobs:bulk",
        permission=Permission.RUN,
        summary="Pause, resume, run or cancel jobs over a filter",
        audit="job.bulk",
        description=(
            "Processes up to `limit` of the jobs that match, newest first, and works for about"
            f" {bulk.MAX_WORK // SECOND} seconds at most; send `nextCursor` as `cursor` for the next ones. Each job is"
            " changed by the rules of the single verb, and a job that refuses does not stop the others. `dryRun` only"
            " counts all that match. Without a status, `pause` and `run` select jobs that are scheduled, `resume` those"
            " that are paused, `cancel` both. It can be repeated: `pause`, `resume` and `cancel` unchanged, `run` with"
            " the `createdBefore` of the first answer in its filter, within an hour."
        ),
        handle=change,
        body=BulkJobsBody,
        answer=(BulkJobsAnswer, CountedAnswer),
        example={"action": "pause", "filter": {"tag": "etl"}, "reason": "the warehouse moves", "dryRun": True},
    ),
)
