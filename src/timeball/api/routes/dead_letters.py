"""Runs that used up their retries and wait for a person."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from timeball.api.bodies import RetryDeadLetters
from timeball.api.problems import Problem, problem
from timeball.api.query import RunsQuery
from timeball.api.route import Answer, Call, Permission, Route, answer_json
from timeball.api.routes.runs import RunList, answer_runs
from timeball.domain import ids
from timeball.domain.errors import Invalid, NotFound, TimeballError
from timeball.operation.find import find_job
from timeball.operation.retry_run import retry_run
from timeball.ports.store import RunFilter

MOST_RETRIED: Final = 1_000
"""Dead letters one request retries; `more` says that there are others."""
AT_ONCE: Final = 50


class RetriedItem(Struct, frozen=True, rename="camel", kw_only=True):
    run_id: str
    retried_as: str | UnsetType = UNSET
    error: Problem | UnsetType = UNSET


class RetriedAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    retried: int
    refused: int
    more: bool
    """There are dead letters that match but were not looked at: ask again."""
    items: list[RetriedItem]


async def list_dead_letters(call: Call) -> Answer:
    query: RunsQuery = call.query
    return await answer_runs(call, query.filter(call.tenant, dead_letters=True), query)


async def retry(call: Call) -> Answer:
    run_ids, more = await _chosen(call, call.body)
    items: list[RetriedItem] = []
    for start in range(0, len(run_ids), AT_ONCE):
        some = run_ids[start : start + AT_ONCE]
        items += await asyncio.gather(*(_retry_one(call, run_id) for run_id in some))
    retried = sum(item.error is UNSET for item in items)
    return answer_json(RetriedAnswer(retried=retried, refused=len(items) - retried, more=more, items=items))


async def _chosen(call: Call, body: RetryDeadLetters) -> tuple[list[str], bool]:
    if sum((bool(body.run_ids), bool(body.job_id), body.all)) != 1:
        raise Invalid('say which: {"runIds": […]}, {"jobId": "…"} or {"all": true}')
    if body.run_ids:
        return list(dict.fromkeys(body.run_ids)), False
    if body.job_id:
        if not ids.is_id("j", body.job_id):
            raise NotFound("job", body.job_id[:100])
        await find_job(call.context, call.tenant, body.job_id)
    where = RunFilter(tenant=call.tenant, job_id=body.job_id or None, dead_letters=True)
    page = await call.context.store.list_runs(where, None, MOST_RETRIED)
    return [run.id for run in page.items], page.next_cursor is not None


async def _retry_one(call: Call, run_id: str) -> RetriedItem:
    try:
        if not ids.is_id("r", run_id):
            raise NotFound("run", run_id[:100])
        run = await retry_run(call.context, call.tenant, run_id)
    except TimeballError as error:
        return RetriedItem(run_id=run_id[:100], error=problem(error))
    return RetriedItem(run_id=run_id, retried_as=run.id)


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/dead-letters",
        permission=Permission.READ,
        summary="List dead letters, newest first",
        description="Runs that used up their retries and that nobody has retried yet.",
        handle=list_dead_letters,
        query=RunsQuery,
        answer=RunList,
    ),
    Route(
        method="POST",
        path="/v1/dead-letters:retry",
        permission=Permission.WRITE,
        summary="Retry dead letters",
        description=f"Those named, those of a job, or all; up to {MOST_RETRIED:,} in one request.",
        handle=retry,
        body=RetryDeadLetters,
        answer=RetriedAnswer,
        example={"all": True},
        problems=(404,),
    ),
)
