"""Runs: list, read, cancel, retry, output and result."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from timeball.api import views
from timeball.api.query import LogsQuery, RunsQuery
from timeball.api.route import Answer, Call, Permission, Route, answer_json
from timeball.api.routes.logs import LogPage, answer_logs
from timeball.api.views import RunView
from timeball.domain.run import Run
from timeball.operation.cancel import cancel_run
from timeball.operation.find import find_run
from timeball.operation.retry_run import retry_run
from timeball.ports.store import RunFilter


class RunList(Struct, frozen=True, rename="camel"):
    items: list[RunView]
    next_cursor: str | None


async def answer_runs(call: Call, where: RunFilter, query: RunsQuery) -> Answer:
    page = await call.context.store.list_runs(where, query.after("r"), query.limit)
    return answer_json(RunList([views.run_view(run) for run in page.items], page.next_cursor))


async def list_runs(call: Call) -> Answer:
    query: RunsQuery = call.query
    return await answer_runs(call, query.filter(call.tenant), query)


async def _answer_run(call: Call, run: Run) -> Answer:
    return answer_json(views.run_view(run, await call.context.store.attempts(run.id)))


async def read(call: Call) -> Answer:
    return await _answer_run(call, await find_run(call.context, call.tenant, call.run_id))


async def cancel(call: Call) -> Answer:
    return await _answer_run(call, await cancel_run(call.context, call.tenant, call.run_id))


async def retry(call: Call) -> Answer:
    return await _answer_run(call, await retry_run(call.context, call.tenant, call.run_id))


async def logs(call: Call) -> Answer:
    return await answer_logs(call, await find_run(call.context, call.tenant, call.run_id), call.query)


async def result(call: Call) -> Answer:
    run = await find_run(call.context, call.tenant, call.run_id)
    return Answer(status=204) if run.result is None else Answer(bytes(run.result))


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/runs",
        permission=Permission.READ,
        summary="List runs, newest first",
        handle=list_runs,
        query=RunsQuery,
        answer=RunList,
    ),
    Route(
        method="GET",
        path="/v1/runs/{runId}",
        permission=Permission.READ,
        summary="Read a run, with its attempts",
        handle=read,
        answer=RunView,
        problems=(404,),
    ),
    Route(
        method="POST",
        path="/v1/runs/{runId}/cancel",
        permission=Permission.WRITE,
        summary="Cancel a run",
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
        permission=Permission.WRITE,
        summary="Retry a run",
        description="Answers the run that will execute: the same one if it waited for its backoff, else a linked one.",
        handle=retry,
        answer=RunView,
        problems=(404, 409),
    ),
    Route(
        method="GET",
        path="/v1/runs/{runId}/logs",
        permission=Permission.READ,
        summary="Output of a run",
        description=(
            "Text by default. `Accept: application/json` answers a page of lines, `Accept: application/x-ndjson` one"
            " line of JSON each; `follow=1` stays until the run ends."
        ),
        handle=logs,
        query=LogsQuery,
        answer=LogPage,
        content_type="text/plain",
        problems=(404,),
    ),
    Route(
        method="GET",
        path="/v1/runs/{runId}/result",
        permission=Permission.READ,
        summary="What a run returned",
        description="204 if there is nothing, or not yet.",
        handle=result,
        answer=Any,
        problems=(404,),
    ),
)
