"""Routes of one job: status, run now, pause, resume, runs, logs, next fires and ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Literal

from msgspec import UNSET, Struct, UnsetType, field, structs

from timeball.api import views
from timeball.api.bodies import PauseBody
from timeball.api.query import JobLogsQuery, LedgerQuery, NextQuery, RunListQuery, run_filter, time_of
from timeball.api.routes.jobs.jobs import answer_job
from timeball.api.routes.runs.logs import LogPage, answer_logs
from timeball.api.routes.runs.runs import RunList, answer_archived, answer_runs
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.api.rows import rows
from timeball.api.views import JobView, LatenessView
from timeball.domain import instant
from timeball.domain.errors import Invalid
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import Micros, render
from timeball.domain.job.job import Job
from timeball.domain.planning import planning, upcoming_fires
from timeball.domain.preview import preview
from timeball.domain.preview.preview import Marked
from timeball.domain.run.ledger import Verdict
from timeball.domain.run.run import Attempt, Run
from timeball.domain.run.status import Status
from timeball.domain.schedule.closed_times import OPEN, Closures
from timeball.domain.schedule.schedule import sentence
from timeball.operation.find import find_job
from timeball.operation.jobs.pause import pause, resume
from timeball.operation.runs.run_now import run_now
from timeball.operation.schedules.closed_times import closures_of_job
from timeball.ports.store.jobs import JobStatus
from timeball.slices import beside


class StatusAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    """The status of the run that started last, else of the next pending run, else of the job."""

    job_id: str
    status: str
    start_time: str | None
    progress: str | None
    executor_id: str | None
    run_id: str | None
    attempt: int | None
    detail: str | UnsetType = UNSET
    """For a job that follows another one: when it fires."""


class RunNowAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    job_id: str
    run_id: str
    status: Status
    detail: str


class ComingFire(Struct, frozen=True, rename="camel"):
    fire_time: str
    mark: Literal["excluded", "next_open"] | UnsetType = UNSET
    """`excluded`: a calendar is closed at this time, so it does not run; `next_open`: the excluded fires run once,
    here.
    """
    note: str | UnsetType = UNSET


class NextAnswer(Struct, frozen=True, rename="camel", kw_only=True):
    job_id: str
    status: str
    items: list[ComingFire]
    detail: str


class LedgerItem(Struct, frozen=True, rename="camel", kw_only=True):
    """One fire, or several consecutive fires (`count` > 1) with the same verdict."""

    fire_time: str
    fire_until: str
    since: str = field(name="from")
    until: str = field(name="to")
    count: int
    verdict: Verdict
    reason: str
    run_id: str | None
    status: Status
    late_ms: float | None
    lateness: LatenessView | None
    attempts: int


class LedgerAnswer(Struct, frozen=True, rename="camel"):
    due: int
    counts: dict[Verdict, int]
    items: list[LedgerItem]
    next_cursor: str | None


class LogsAddress(Struct, frozen=True, rename="camel"):
    job_id: str
    run_id: str | None
    url: str | None
    """The URL of the output, relative to the server that answered, like every URL in an answer: the server's name in a
    request (Host, X-Forwarded-Proto) comes from the client and is not trusted.
    """


async def status(call: Call) -> Answer:
    found = await find_job(call.context, call.tenant, call.job_id)
    run = await call.context.store.current_run(call.job_id)
    return answer_json(
        StatusAnswer(
            job_id=call.job_id,
            status=found.status if run is None else run.status,
            start_time=None if run is None else views.moment(run.started_at),
            progress=None if run is None else views.progress(run),
            executor_id=None if run is None else run.worker,
            run_id=None if run is None else run.id,
            attempt=None if run is None else run.attempt,
            detail=await _after_what(call, found) or UNSET,
        )
    )


async def _after_what(call: Call, found: JobStatus) -> str:
    """Return `fires after each success of job j_… (nightly)` for a job that follows another one and may still fire;
    otherwise an empty string.
    """
    wanted = found.job.spec.follows
    if wanted is None or found.status not in ("scheduled", "paused"):
        return ""
    followed = (await call.context.store.jobs([wanted.job])).get(wanted.job)
    text = sentence(wanted, "" if followed is None else followed.job.spec.name)
    over = ", which was cancelled" if followed is None or followed.status == "cancelled" else ""
    return f"fires {text}{over}"


async def run(call: Call) -> Answer:
    run_id, status = await run_now(call.context, call.tenant, call.job_id)
    return answer_json(
        RunNowAnswer(
            job_id=call.job_id,
            run_id=run_id,
            status=status,
            detail=views.status_text(status),
        )
    )


async def pause_job(call: Call) -> Answer:
    body: PauseBody = call.body
    until = None if body.until is None else instant.parse(body.until, "/until")
    return await answer_job(call, await pause(call.context, call.tenant, call.job_id, reason=body.reason, until=until))


async def resume_job(call: Call) -> Answer:
    return await answer_job(call, await resume(call.context, call.tenant, call.job_id))


async def runs(call: Call) -> Answer:
    query: RunListQuery = call.query
    where = structs.replace(run_filter(query, call.tenant), job_id=call.job_id)
    if query.archived:  # also runs of a job that was deleted with its last run
        return await answer_archived(call, where, query)
    await find_job(call.context, call.tenant, call.job_id)
    return await answer_runs(call, where, query)


async def logs(call: Call) -> Answer:
    await find_job(call.context, call.tenant, call.job_id)
    newest = await call.context.store.current_run(call.job_id)
    query: JobLogsQuery = call.query
    if query.as_ == "url":
        url = None if newest is None else f"/v1/runs/{newest.id}/logs"
        return answer_json(LogsAddress(call.job_id, None if newest is None else newest.id, url))
    return await answer_logs(call, newest, query)


async def next_fires(call: Call) -> Answer:
    found = await find_job(call.context, call.tenant, call.job_id)
    query: NextQuery = call.query
    job = found.job
    items: list[ComingFire] = []
    match found.status:
        case "scheduled":
            detail = await _after_what(call, found)
        case "paused":
            because = f" ({job.pause_reason})" if job.pause_reason else ""
            detail = f"paused{because}: none of these fires until it is resumed"
            if job.spec.follows is not None:
                detail = f"paused{because}; its catch-up rule decides about runs that end before it is resumed"
            if job.paused_until is not None:
                detail = (
                    f"paused{because} until {render(job.paused_until)}; its catch-up rule decides about fires before"
                )
        case _:
            detail = f"the job is {found.status}: nothing will fire"
    if found.status in ("scheduled", "paused"):
        closures = await closures_of_job(call.context, job)
        # Finding rare days and passing long closures takes a while, so it runs in a thread and does not block the event
        # loop.
        coming = await beside(_first, found, call.context.store.now(), closures, query.count)
        items = [ComingFire(render(each.at), each.mark or UNSET, each.note or UNSET) for each in coming]
    return answer_json(NextAnswer(job_id=job.id, status=found.status, items=items, detail=detail))


def _first(found: JobStatus, now: Micros, closures: Closures, count: int) -> list[Marked]:
    return list(islice(_coming(found, now, closures), count))


def _coming(found: JobStatus, now: Micros, closures: Closures) -> Iterable[Marked]:
    job = found.job
    if job.exhausted:  # the last run may still be in the future
        return [Marked(at) for at in (found.next_run_at,) if at is not None and at > now]
    after = now if job.paused_until is None else max(now, job.paused_until - 1)
    coming = upcoming_fires.coming(job, after, closures)
    if closures is OPEN and job.deferred_fire is None:
        return map(Marked, coming)
    return _with_marks(job, coming, after, closures)


def _with_marks(job: Job, coming: Iterator[Micros], after: Micros, closures: Closures) -> Iterator[Marked]:
    """Yield the fires, and between them those that calendars exclude."""
    marked = preview.around(lambda at: planning.fires(job, at), after, closures, job.spec.excluded)
    following = next(marked, None)
    for at in coming:
        while following is not None and following.at < at:
            if following.mark == "excluded":
                yield following
            following = next(marked, None)
        deferred_fire = Marked(at, "next_open", "runs once for excluded fires") if following is None else following
        yield deferred_fire if deferred_fire.at == at else Marked(at)


async def ledger(call: Call) -> Answer:
    found = await find_job(call.context, call.tenant, call.job_id)
    query: LedgerQuery = call.query
    store = call.context.store
    since = time_of(query.since, "from")
    until = time_of(query.until, "to")
    since = found.job.created_at if since is None else since
    until = min(store.now() + 1, instant.MAX) if until is None else until
    if until < since:
        raise Invalid("'to' is before 'from'", "/query/to")
    sums = await store.ledger_sums(call.job_id, since, until, may_lag=True)
    try:
        page = await store.ledger(call.job_id, since, until, query.cursor or None, query.limit, may_lag=True)
    except Invalid as error:
        raise Invalid(error.detail, "/query/cursor") from None
    first = await _first_attempts(call, page.items)
    items = rows(page.items, lambda row: _ledger_item(row, first.get(row.id)), "runId", lambda row: row.id)
    return answer_json({"due": sums.due, "counts": sums.counts, "items": items, "nextCursor": page.next_cursor})


async def _first_attempts(call: Call, runs: Sequence[Run]) -> dict[str, Attempt]:
    return await call.context.store.first_attempts([run.id for run in runs if run.attempt > 1])


async def ledger_items(call: Call, runs: Sequence[Run]) -> list[LedgerItem]:
    first = await _first_attempts(call, runs)
    return [_ledger_item(run, first.get(run.id)) for run in runs]


def _ledger_item(row: Run, first: Attempt | None) -> LedgerItem:
    never_ran = row.fires > 1 or row.verdict is Verdict.MISSED
    return LedgerItem(
        fire_time=render(row.fire_time),
        fire_until=render(row.fire_until),
        since=render(row.fire_time),
        until=render(row.fire_until),
        count=row.fires,
        verdict=row.verdict,
        reason=row.reason,
        run_id=None if never_ran else row.id,
        status=row.status,
        late_ms=views.late_ms(row),
        lateness=views.lateness_view(row, first),
        attempts=row.attempt,
    )


def _get(path: str, summary: str, *, problems: tuple[int, ...] = (404,), **rest: Any) -> Route:
    return Route(
        method="GET",
        path=f"/v1/jobs/{{jobId}}/{path}",
        permission=Permission.READ,
        summary=summary,
        problems=problems,
        **rest,
    )


def _post(path: str, summary: str, **rest: Any) -> Route:
    return Route(
        method="POST",
        path=f"/v1/jobs/{{jobId}}/{path}",
        permission=Permission.RUN,
        summary=summary,
        problems=(404, 409),
        **rest,
    )


ROUTES: Final = (
    _get("status", "Read the current status of a job", handle=status, answer=StatusAnswer),
    _post(
        "run",
        "Run the job now, in addition to its schedule",
        audit="job.run",
        description="Respects the overlap policy: `status` is `queued`, `blocked` or `skipped`, `detail` the reason.",
        handle=run,
        answer=RunNowAnswer,
    ),
    _post(
        "pause",
        "Pause the schedule",
        audit="job.pause",
        description="Until it is resumed, or until `until`, a time in the future.",
        handle=pause_job,
        body=PauseBody,
        body_optional=True,
        answer=JobView,
        example={"reason": "the warehouse moves", "until": "2026-03-01T06:00:00Z"},
    ),
    _post(
        "resume",
        "Resume the schedule",
        audit="job.resume",
        description="The catch-up rule decides about the fires during the pause.",
        handle=resume_job,
        answer=JobView,
    ),
    _get("runs", "List the job's runs, newest first", handle=runs, query=RunListQuery, answer=RunList),
    _get(
        "logs",
        "Output of the newest run",
        description="Text by default. `?as=url` returns its URL, `Accept: application/json` the lines as JSON.",
        handle=logs,
        lasts=True,
        query=JobLogsQuery,
        answer=(LogPage, LogsAddress),
        content_type="text/plain",
        problems=(404,),
    ),
    _get(
        "next",
        "The next fires",
        description="Fires that calendars exclude are marked; of each closure only the first few are listed.",
        handle=next_fires,
        query=NextQuery,
        answer=NextAnswer,
    ),
    _get(
        "ledger",
        "List every fire with its verdict",
        description="`counts` adds up to `due`; fires whose run is still live count as `open`.",
        handle=ledger,
        query=LedgerQuery,
        answer=LedgerAnswer,
    ),
)
