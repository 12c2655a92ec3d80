"""The legacy routes `/jobs`: the same jobs, and a plain array of their executions."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from timeball.api.query import LegacyQuery, run_filter
from timeball.api.routes.jobs import jobs
from timeball.api.routes.runs.runs import page_of_runs
from timeball.api.routing import Answer, Call, Headers, Route, answer_json
from timeball.api.views import JobView
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import MILLISECOND
from timeball.domain.run.status import Status
from timeball.jobspec.documents import JOB_SHAPES


class Execution(Struct, frozen=True, rename="camel"):
    job_id: str
    execution_time: int
    """The fire time in milliseconds since 1970."""
    status: Status
    attempt: int


async def executions(call: Call) -> Answer:
    query: LegacyQuery = call.query
    page = await page_of_runs(call, run_filter(query, call.tenant), query)
    items = [Execution(run.job_id, run.fire_time // MILLISECOND, run.status, run.attempt) for run in page.items]
    more: Headers = [] if page.next_cursor is None else [(b"next-cursor", page.next_cursor.encode())]
    return answer_json(items, headers=more)


ROUTES: Final = (
    Route(
        method="POST",
        path="/jobs",
        permission=Permission.EDIT,
        summary="Create a job (legacy address)",
        audit="job.create",
        audited_by_job=True,
        handle=jobs.create,
        body=JOB_SHAPES,
        reads_raw=True,
        answer=JobView,
        status=201,
        headers={"Idempotency-Key": "As in POST /v1/jobs."},
        example={
            "taskId": "send-mail",
            "schedule": {"type": "CRON", "expression": "0 9 * * MON"},
            "parameters": {"to": "a@example.org"},
        },
    ),
    Route(
        method="GET",
        path="/jobs",
        permission=Permission.READ,
        summary="List executions (legacy form), newest first",
        description="A plain array. If there are more items, the header `Next-Cursor` has the cursor of the next page.",
        handle=executions,
        query=LegacyQuery,
        answer=list[Execution],
    ),
)
