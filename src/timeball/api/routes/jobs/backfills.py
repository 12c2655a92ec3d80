"""Routes of backfills: they run the fires of a past range, again or for the first time."""

from __future__ import annotations

import hashlib
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from timeball.api import views
from timeball.api.bodies import BackfillBody
from timeball.api.query import PageQuery, Text
from timeball.api.routes.jobs.jobs import idempotency_key
from timeball.api.routing import JSON, Answer, Call, Headers, Route, answer_json
from timeball.api.rows import rows
from timeball.domain import ids, instant
from timeball.domain.errors import NotFound
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import render
from timeball.domain.planning.backfill import BackfillProgress
from timeball.operation.find import find_job
from timeball.operation.schedules.backfill import NewBackfill, begin, cancel_backfill, find_backfill, survey


class BackfillView(Struct, frozen=True, rename="camel", kw_only=True):
    """A backfill and its progress: `total` = `done` + `running` + `remaining`."""

    backfill_id: str
    job_id: str
    job_name: str
    since: str = field(name="from")
    until: str = field(name="to")
    parallelism: int
    status: Literal["running", "paused", "completed", "cancelled"]
    """`paused`: its job is paused, so no runs are created."""
    reason: str
    """Why the backfill was cancelled; empty otherwise."""
    total: int
    done: int
    """Fires whose run ended: `succeeded` + `failed` + `cancelled`."""
    succeeded: int
    failed: int
    """Runs that failed or used up their retries."""
    cancelled: int
    running: int
    """Live runs: they wait for a worker, execute, or wait for a retry."""
    remaining: int
    """Fires without a run yet; of a cancelled backfill, fires that never get one."""
    next_fire_time: str | None
    """The first of the remaining fires."""
    created_at: str
    finished_at: str | None


class BackfillRange(Struct, frozen=True, rename="camel", kw_only=True):
    """The answer to a dry run: the fires of the range."""

    job_id: str
    total: int
    first_fire_time: str | None
    last_fire_time: str | None


class BackfillList(Struct, frozen=True, rename="camel"):
    items: list[BackfillView]
    next_cursor: str | None


class BackfillsQuery(PageQuery, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    job_id: Annotated[Text, Meta(description="Only backfills of this job.")] = ""


async def create(call: Call) -> Answer:
    body: BackfillBody = call.body
    new = NewBackfill(
        tenant=call.tenant,
        job_id=call.job_id,
        since=instant.parse(body.since, "/from"),
        until=instant.parse(body.until, "/to") if body.until else None,
        parallelism=body.parallelism,
        key=idempotency_key(call),
        fingerprint=hashlib.sha256(msgspec.json.encode(("backfill", call.job_id, body))).hexdigest(),
    )
    if body.dry_run:
        found = await survey(call.context, new)
        return answer_json(
            BackfillRange(
                job_id=call.job_id,
                total=found.count,
                first_fire_time=views.moment(found.first),
                last_fire_time=views.moment(found.last),
            )
        )
    begun = await begin(call.context, new, _render)
    headers: Headers = [(b"location", b"/v1/backfills/" + begun.backfill_id.encode())]
    return Answer(
        begun.answer, 201, JSON, [*headers, (b"idempotency-replayed", b"true")] if begun.repeated else headers
    )


async def list_backfills(call: Call) -> Answer:
    query: BackfillsQuery = call.query
    job_id = query.job_id or None
    if job_id is not None:
        if not ids.is_id("j", job_id):
            raise NotFound("job", job_id[:100])
        await find_job(call.context, call.tenant, job_id)
    page = await call.context.store.list_backfills(call.tenant, job_id, query.after("b"), query.limit, may_lag=True)
    shown = rows(page.items, _view, "backfillId", lambda found: found.backfill.id)
    return answer_json({"items": shown, "nextCursor": page.next_cursor})


async def read(call: Call) -> Answer:
    return answer_json(_view(await find_backfill(call.context, call.tenant, _backfill_id(call))))


async def cancel(call: Call) -> Answer:
    return answer_json(_view(await cancel_backfill(call.context, call.tenant, _backfill_id(call))))


def _backfill_id(call: Call) -> str:
    """Return the id in the path. Raise `NotFound` for a malformed id, without a query."""
    ident = call.path["backfillId"]
    if not ids.is_id("b", ident):
        raise NotFound("backfill", ident[:100])
    return ident


def _render(progress: BackfillProgress) -> bytes:
    return msgspec.json.encode(_view(progress))


def _view(progress: BackfillProgress) -> BackfillView:
    asked = progress.backfill
    return BackfillView(
        backfill_id=asked.id,
        job_id=asked.job_id,
        job_name=progress.job_name,
        since=render(asked.since),
        until=render(asked.until),
        parallelism=asked.parallelism,
        status=progress.status,
        reason=asked.reason,
        total=asked.total,
        done=progress.done,
        succeeded=progress.succeeded,
        failed=asked.failed,
        cancelled=asked.cancelled,
        running=progress.alive,
        remaining=progress.remaining,
        next_fire_time=views.moment(asked.cursor),
        created_at=render(asked.created_at),
        finished_at=views.moment(asked.finished_at),
    )


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/jobs/{jobId}/backfill",
        permission=Permission.RUN,
        summary="Run the fires of a past range",
        audit="job.backfill",
        description=(
            "The fires run oldest first, at most `parallelism` at a time, with a lower priority than new runs. Each"
            " run executes the job as it is when the run is created, with the time of its fire. With `dryRun`, the"
            " fires are only counted. More than 100,000 fires, or a range in the future, give a 422."
        ),
        handle=create,
        body=BackfillBody,
        answer=(BackfillView, BackfillRange),
        status=201,
        headers={
            "Idempotency-Key": "A repeated request with this key and body gets the first answer and creates nothing."
        },
        example={"from": "2026-02-01T00:00:00Z", "to": "2026-03-01T00:00:00Z", "parallelism": 4},
        problems=(404, 409),
    ),
    Route(
        method="GET",
        path="/v1/backfills",
        permission=Permission.READ,
        summary="List backfills, newest first",
        handle=list_backfills,
        query=BackfillsQuery,
        answer=BackfillList,
        problems=(404,),
    ),
    Route(
        method="GET",
        path="/v1/backfills/{backfillId}",
        permission=Permission.READ,
        summary="Read a backfill and its progress",
        handle=read,
        answer=BackfillView,
        problems=(404,),
    ),
    Route(
        method="POST",
        path="/v1/backfills/{backfillId}/cancel",
        permission=Permission.RUN,
        summary="Cancel a backfill",
        audit="backfill.cancel",
        description="Creates no more runs of it, and cancels its live runs. Repeating it changes nothing.",
        handle=cancel,
        answer=BackfillView,
        problems=(404, 409),
    ),
)
