"""Routes that create, list, read, update and cancel jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import UNSET, Struct, UnsetType, structs

from timeball.api import views
from timeball.api.query import JobsQuery, job_filter
from timeball.api.routing import JSON, Answer, Call, Headers, Route, answer_json
from timeball.api.rows import rows
from timeball.api.views import JobView
from timeball.domain.errors import Invalid, PreconditionFailed, TimeballError
from timeball.domain.identity.caller import Caller
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import render
from timeball.domain.job.job import JobSpec
from timeball.domain.run import trace
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.jobspec import job_reader
from timeball.jobspec.documents import JOB_SHAPES, JobChange
from timeball.operation.find import find_scheduled
from timeball.operation.jobs.submit import Created, NewJob
from timeball.operation.jobs.update import Change, update
from timeball.operation.runs.cancel import cancel_job
from timeball.operation.schedules.closed_times import with_open_fires
from timeball.ports.store.jobs import JobStatus
from timeball.slices import Steps

EXAMPLE: Final = {
    "name": "nightly-etl",
    "task": {"kind": "shell", "command": ["python3", "etl.py"]},
    "parameters": {"days": 30},
    "schedule": {"type": "cron", "expression": "0 0 2 * * *", "timezone": "Europe/Berlin"},
    "retry": {"maxRetries": 3, "backoff": "exponential", "base": "5s", "cap": "1h"},
    "priority": "high",
    "timeout": "30m",
    "overlap": "queue",
    "catchUp": "last",
    "tags": ["etl"],
}

_REPLAYED: Final = (b"idempotency-replayed", b"true")


MAX_RECENT_RUNS: Final = 20
MAX_JOBS_WITH_RUNS: Final = 100
"""Maximum number of jobs on a page with their newest runs."""


class RecentRun(Struct, frozen=True, rename="camel", kw_only=True):
    run_id: str
    status: Status
    fire_time: str
    started_at: str | None
    ended_at: str | None
    late_ms: float | None


class ListedJob(JobView, frozen=True, rename="camel", kw_only=True):
    """A job in a list."""

    recent_runs: list[RecentRun] | UnsetType = UNSET
    """With `include=recentRuns`: at most 20 runs that are due, alive or finished, the newest fire first."""


class JobList(Struct, frozen=True, rename="camel"):
    items: list[ListedJob]
    next_cursor: str | None


class CancelledJob(Struct, frozen=True, rename="camel"):
    job_id: str
    status: Literal["cancelled"]


async def create(call: Call) -> Answer:
    body = await job_reader.read_job_in_slices(call.raw, call.context.clock)
    new = new_job(call, body, idempotency_key(call), len(call.raw))
    [created] = await call.services.submit([new])
    if isinstance(created, TimeballError):
        raise job_reader.pointed_back(created, body.origins) if isinstance(created, Invalid) else created
    return created_answer(created)


def new_job(call: Call, body: job_reader.JobBody, key: str | None, size: int) -> NewJob:
    """Return a job of the caller's tenant, and of the caller's user unless it has another one. Raise `Forbidden` if the
    caller may not set the user of a job."""
    spec, caller = body.spec, call.caller
    if (owner := caller.owner(spec.user_id)) != spec.user_id:
        spec = structs.replace(spec, user_id=owner)
    if key is not None and body.key is not None and key != body.key:
        raise Invalid("the header Idempotency-Key has another value", "/idempotencyKey")
    key = key if body.key is None else body.key
    parent = None if (header := call.headers.get(b"traceparent")) is None else _traceparent(header)
    if key is None:
        return NewJob(caller.tenant, spec, size=size, request=call.audited, traceparent=parent)
    return NewJob(caller.tenant, spec, key, job_reader.fingerprint(spec), size, call.audited, parent)


def _traceparent(header: bytes) -> str | None:
    """Return the trace that a client continues. A header that is not valid is ignored, as the standard asks."""
    context = trace.parse(header.decode("latin-1"))
    return None if context is None else context.render()


def idempotency_key(call: Call) -> str | None:
    key = call.headers.get(b"idempotency-key")
    return None if key is None else job_reader.check_key(key.decode("latin-1"), "/header/Idempotency-Key")


def created_answer(created: Created, at: str = "/v1/jobs/") -> Answer:
    headers: Headers = [(b"location", f"{at}{created.job_id}".encode())]
    if created.job is None:
        assert created.answer is not None, "a repeated request has the stored first answer"
        return Answer(created.answer, 201, JSON, [*headers, _REPLAYED])
    headers.append(etag(created.job))
    answer = views.render_job(created.job) if created.answer is None else created.answer
    return Answer(answer, 201, JSON, headers)


def etag(found: JobStatus) -> tuple[bytes, bytes]:
    return b"etag", b'"%d"' % found.job.version


async def answer_job(call: Call, found: JobStatus) -> Answer:
    return Answer(views.render_job(await call.context.large_value_store.whole_job(found)), 200, JSON, [etag(found)])


async def list_jobs(call: Call) -> Answer:
    query: JobsQuery = call.query
    with_runs = query.include == "recentRuns"
    limit = min(query.limit, MAX_JOBS_WITH_RUNS) if with_runs else query.limit
    page = await call.context.store.list_jobs(job_filter(query, call.tenant), query.after("j"), limit, may_lag=True)
    items = await with_open_fires(
        call.context, [await call.context.large_value_store.whole_job(each) for each in page.items]
    )
    runs: Mapping[str, Sequence[Run]] = {}
    if with_runs:
        runs = await call.context.store.recent_runs([each.job.id for each in items], MAX_RECENT_RUNS)

    def listed(found: JobStatus) -> ListedJob:
        recent = [_recent(run) for run in runs.get(found.job.id, ())] if with_runs else UNSET
        return views.extended_job_view(ListedJob, found, recent_runs=recent)

    shown = rows(items, listed, "jobId", lambda each: each.job.id)
    return answer_json({"items": shown, "nextCursor": page.next_cursor})


def _recent(run: Run) -> RecentRun:
    return RecentRun(
        run_id=run.id,
        status=run.status,
        fire_time=render(run.fire_time),
        started_at=views.moment(run.started_at),
        ended_at=views.moment(run.finished_at),
        late_ms=views.late_ms(run),
    )


async def read(call: Call) -> Answer:
    return await _answer_open(call, await find_scheduled(call.context, call.tenant, call.job_id))


async def change(call: Call) -> Answer:
    changed = owned(call.caller, await job_reader.change_from_in_slices(call.raw, call.context.clock))
    found = await update(call.context, call.tenant, call.job_id, changed, if_match=if_match(call), by=call.caller.name)
    return await _answer_open(call, found)


def owned(caller: Caller, change: Change) -> Change:
    """Return the same change. It raises `Forbidden` if it gives a job to another user, and the caller may not do
    that."""

    def checked(spec: JobSpec) -> JobSpec | Steps[JobSpec]:
        made = change(spec)
        if isinstance(made, JobSpec):
            return _with_owner(caller, spec, made)
        return _steps_with_owner(caller, spec, made)

    return checked


def _steps_with_owner(caller: Caller, old: JobSpec, making: Steps[JobSpec]) -> Steps[JobSpec]:
    return _with_owner(caller, old, (yield from making))


def _with_owner(caller: Caller, old: JobSpec, new: JobSpec) -> JobSpec:
    if new.user_id != old.user_id:
        caller.owner(new.user_id)
    return new


async def _answer_open(call: Call, found: JobStatus) -> Answer:
    return await answer_job(call, *await with_open_fires(call.context, [found]))


def if_match(call: Call) -> int | None:
    header = call.headers.get(b"if-match", b"").decode("latin-1").strip()
    if header in ("", "*"):
        return None
    version = header.removeprefix("W/").strip('"')
    if not (version.isascii() and version.isdigit() and len(version) <= 18):
        raise PreconditionFailed(f'If-Match is {header[:100]!r}, which is not an ETag of a job, such as "3"')
    return int(version)


async def cancel(call: Call) -> Answer:
    await cancel_job(call.context, call.tenant, call.job_id)
    return answer_json(CancelledJob(call.job_id, "cancelled"))


_UPDATE: Final = (
    "Partial: missing fields keep their values; `schedule` and `task` are replaced as a whole, `retry` is"
    " merged, null restores the default. A whole answer may be sent back with one change in it."
)


def update_routes(path: str, **rest: Any) -> tuple[Route, Route]:
    """Return the routes of `PUT` and `PATCH`, which do the same: both change the given fields."""

    def route(method: str) -> Route:
        return Route(
            method=method,
            path=path,
            permission=Permission.EDIT,
            reads_raw=True,
            headers={"If-Match": "The version (`ETag`) that the change is based on; 412 if it is not current."},
            example={"schedule": {"type": "interval", "expression": "15m"}},
            problems=(404, 409, 412),
            **rest,
        )

    return route("PUT"), route("PATCH")


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/jobs",
        permission=Permission.EDIT,
        summary="Create a job",
        audit="job.create",
        audited_by_job=True,
        description="Answered when the job is durable. Accepts several shapes of jobs, and returns the canonical one.",
        handle=create,
        body=JOB_SHAPES,
        reads_raw=True,
        answer=JobView,
        status=201,
        headers={
            "Idempotency-Key": "A repeated request with this key and body gets the first answer and creates nothing.",
            "traceparent": "The trace (W3C) that the runs of a job that fires once continue.",
        },
        example=EXAMPLE,
    ),
    Route(
        method="GET",
        path="/v1/jobs",
        permission=Permission.READ,
        summary="List jobs, newest first",
        handle=list_jobs,
        query=JobsQuery,
        answer=JobList,
    ),
    Route(
        method="GET",
        path="/v1/jobs/{jobId}",
        permission=Permission.READ,
        summary="Read a job",
        handle=read,
        answer=JobView,
        problems=(404,),
    ),
    *update_routes(
        "/v1/jobs/{jobId}",
        summary="Update a job",
        audit="job.update",
        description=_UPDATE,
        handle=change,
        body=JobChange,
        answer=JobView,
    ),
    Route(
        method="DELETE",
        path="/v1/jobs/{jobId}",
        permission=Permission.RUN,
        summary="Cancel a job",
        audit="job.cancel",
        description="Stops the schedule, cancels live runs, keeps the history. Repeating it changes nothing.",
        handle=cancel,
        answer=CancelledJob,
        problems=(404, 409),
    ),
)
