"""Routes that list, read, cancel, retry and replay runs, and return their output and result."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from timeball.api import views
from timeball.api.bodies import DeadLetterFilter, EditBody
from timeball.api.query import DeadLettersQuery, LogsQuery, RunListQuery, refuse_empty, run_filter
from timeball.api.routes.runs.logs import LogPage, answer_logs
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.api.rows import rows
from timeball.api.views import RunView
from timeball.domain.errors import Conflict, Invalid
from timeball.domain.identity.permission import Permission
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.jobspec.spec_view import SpecView, spec_view
from timeball.operation.find import find_run, find_run_anywhere
from timeball.operation.runs.cancel import cancel_run
from timeball.operation.runs.replay_run import replay_run, retry_archived
from timeball.operation.runs.retry_run import retry_run
from timeball.ports.store.paging import Page
from timeball.ports.store.queries import RunFilter


class RunList(Struct, frozen=True, rename="camel"):
    items: list[RunView]
    next_cursor: str | None


class ReplayAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    job_id: str
    run_id: str
    replay_of: str
    status: Status
    detail: str


class RunSpecAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    run_id: str
    edited: bool
    """True if the spec was edited for this run; otherwise it is that of the job when the run became due."""
    spec: SpecView


async def page_of_runs(call: Call, where: RunFilter, query: DeadLettersQuery) -> Page[Run]:
    try:
        return await call.context.store.list_runs(where, query.cursor or None, query.limit, may_lag=True)
    except Invalid as error:
        raise Invalid(error.detail, "/query/cursor") from None


async def answer_runs(call: Call, where: RunFilter, query: DeadLettersQuery) -> Answer:
    page = await page_of_runs(call, where, query)
    shown = rows(page.items, views.run_view, "runId", lambda run: run.id)
    return answer_json({"items": shown, "nextCursor": page.next_cursor})


async def list_runs(call: Call) -> Answer:
    query: RunListQuery = call.query
    where = run_filter(query, call.tenant)
    if query.archived and query.worker_id:
        raise Invalid("no worker executes an archived run", "/query/workerId")
    return await (answer_archived(call, where, query) if query.archived else answer_runs(call, where, query))


async def answer_archived(call: Call, where: RunFilter, query: RunListQuery) -> Answer:
    archive = call.context.archive
    if archive is None:
        raise Invalid("this server has no archive; start it with --archive", "/query/archived")
    try:
        page = await archive.list_runs(where, query.cursor or None, query.limit)
    except Invalid as error:
        raise Invalid(error.detail, "/query/cursor") from None
    shown = rows(page.items, lambda run: views.run_view(run, archived=True), "runId", lambda run: run.id)
    return answer_json({"items": shown, "nextCursor": page.next_cursor})


def chosen_by(given: DeadLetterFilter, tenant: str) -> RunFilter:
    """Return the run filter for the `filter` of a body. An empty one is refused."""
    where = run_filter(given, tenant, "/filter")
    refuse_empty(given)
    return where


async def _answer_run(call: Call, run: Run) -> Answer:
    return answer_json(views.run_view(run, await call.context.store.attempts(run.id)))


async def read(call: Call) -> Answer:
    found = await find_run_anywhere(call.context, call.tenant, call.run_id)
    preemptions = [] if found.is_archived else await call.context.store.preemptions(found.run.id)
    return answer_json(
        views.run_view(found.run, await found.attempts(), archived=found.is_archived, preemptions=preemptions)
    )


async def cancel(call: Call) -> Answer:
    return await _answer_run(call, await cancel_run(call.context, call.tenant, call.run_id))


async def retry(call: Call) -> Answer:
    body: EditBody = call.body
    call.check_edit(body.edit)
    found = await find_run_anywhere(call.context, call.tenant, call.run_id)
    if found.is_archived:
        run_id, _ = await retry_archived(call.context, call.tenant, found.run, body.edit)
        return await _answer_run(call, await find_run(call.context, call.tenant, run_id))
    return await _answer_run(call, await retry_run(call.context, call.tenant, call.run_id, body.edit))


async def replay(call: Call) -> Answer:
    body: EditBody = call.body
    call.check_edit(body.edit)
    old = (await find_run_anywhere(call.context, call.tenant, call.run_id)).run
    run_id, status = await replay_run(call.context, call.tenant, call.run_id, body.edit)
    return answer_json(
        ReplayAnswer(
            job_id=old.job_id, run_id=run_id, replay_of=old.id, status=status, detail=views.status_text(status)
        )
    )


async def spec(call: Call) -> Answer:
    anywhere = await find_run_anywhere(call.context, call.tenant, call.run_id)
    run = anywhere.run
    if anywhere.is_archived:
        raise Conflict(
            f"run {run.id} is archived, and its spec is not in the archive: it was version {run.version} of job"
            f" {run.job_id}"
        )
    found = (await call.context.store.specs([run.id])).get(run.id)
    if found is None:
        raise Conflict(f"this version of Timeball cannot read the spec of run {run.id}")
    whole = await call.context.large_value_store.whole(found.spec)
    return answer_json(RunSpecAnswer(run_id=run.id, edited=found.edited, spec=spec_view(whole)))


async def logs(call: Call) -> Answer:
    found = await find_run_anywhere(call.context, call.tenant, call.run_id)
    return await answer_logs(call, found.run, call.query, found.archived_logs)


async def result(call: Call) -> Answer:
    run = (await find_run_anywhere(call.context, call.tenant, call.run_id)).run
    run = await call.context.large_value_store.whole_run(run)
    return Answer(status=204) if run.result is None else Answer(bytes(run.result))


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/runs",
        permission=Permission.READ,
        summary="List runs, newest first",
        description=(
            "In the order of their fire times. No run is missing or listed twice on the pages of a list, even if it"
            " ends between two pages. With `archived`, runs that are only in the archive, in the order in which they"
            " were created; a page may then be short or empty although there is a next one."
        ),
        handle=list_runs,
        query=RunListQuery,
        answer=RunList,
    ),
    Route(
        method="GET",
        path="/v1/runs/{runId}",
        permission=Permission.READ,
        summary="Read a run, with its attempts",
        description="Archived runs can be read as well, with their output and result.",
        handle=read,
        answer=RunView,
        problems=(404,),
    ),
    Route(
        method="POST",
        path="/v1/runs/{runId}/cancel",
        permission=Permission.RUN,
        summary="Cancel a run",
        audit="run.cancel",
        description=(
            "A waiting run ends at once. A running one stays `running` with `cancelRequestedAt` until its worker"
            " confirms or its lease lapses; its only possible end is `cancelled`."
        ),
        handle=cancel,
        answer=RunView,
        problems=(404,),
    ),
    Route(
        method="POST",
        path="/v1/runs/{runId}/retry",
        permission=Permission.RUN,
        summary="Retry a run",
        audit="run.retry",
        description=(
            "Returns the run that will execute: the same one if it waited for its backoff, otherwise a linked one that"
            " replaces it. With `edit`, it executes what the old one did, with these changes; the job does not"
            " change. For an archived run, a new run of its job is created, as by a replay."
        ),
        handle=retry,
        body=EditBody,
        body_optional=True,
        answer=RunView,
        example={"edit": {"parameters": {"region": "eu"}, "timeout": "1h"}},
        problems=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/runs/{runId}/replay",
        permission=Permission.RUN,
        summary="Replay a run",
        audit="run.replay",
        description=(
            "Creates a new run like one that has ended, in any way, any number of times: by the job's current spec"
            " (with `edit`, changed for this run only), under its overlap policy, in addition to its schedule."
        ),
        handle=replay,
        body=EditBody,
        body_optional=True,
        answer=ReplayAnswer,
        example={"edit": {"parameters": {"days": 7}}},
        problems=(404, 409),
    ),
    Route(
        method="GET",
        path="/v1/runs/{runId}/spec",
        permission=Permission.READ,
        summary="Read the spec of a run",
        handle=spec,
        answer=RunSpecAnswer,
        problems=(404, 409),
    ),
    Route(
        method="GET",
        path="/v1/runs/{runId}/logs",
        permission=Permission.READ,
        summary="Output of a run",
        description=(
            "Text by default. `Accept: application/json` returns a page of lines, `Accept: application/x-ndjson` one"
            " line of JSON each; `follow=1` streams until the run ends."
        ),
        handle=logs,
        lasts=True,
        query=LogsQuery,
        answer=LogPage,
        content_type="text/plain",
        problems=(404,),
    ),
    Route(
        method="GET",
        path="/v1/runs/{runId}/result",
        permission=Permission.READ,
        summary="Read the result of a run",
        description="204 if there is no result, or not yet.",
        handle=result,
        answer=Any,
        problems=(404,),
    ),
)
