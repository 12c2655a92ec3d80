"""Every request there is, built without sending anything: the same for the synchronous and the asynchronous client.

A request names its method, path, parameters and body, what its answer is read as, and whether it may be sent
again when the connection broke and nobody knows what became of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote, urlencode

from msgspec import Struct

from timeball.client import models
from timeball.client.job_document import JobOptions, document, moment
from timeball.client.run_selection import Letters, LettersWhere, Runs, narrowed

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Params = dict[str, Any]
When = datetime | str
Edit = Mapping[str, Any]
"""The JSON of an edit, such as `{"parameters": {"region": "eu"}, "timeout": "1h"}`."""


class Request(Struct, Generic[T_co], frozen=True, kw_only=True):
    method: str
    path: str
    answer: type[T_co]
    """`bytes` is the body as it came."""
    params: Params = {}
    body: Any = None
    headers: dict[str, str] = {}
    repeatable: bool
    """Sending it twice does what sending it once does."""

    @property
    def target(self) -> str:
        query = urlencode([pair for pair in self.params.items() if pair[1] is not None], doseq=True)
        return f"{self.path}?{query}" if query else self.path


class Page(Protocol[T_co]):
    """The answer to a request for a part of a list."""

    @property
    def items(self) -> Sequence[T_co]: ...
    @property
    def next_cursor(self) -> str | None: ...


def _get(path: str, answer: type[T], **params: Any) -> Request[T]:
    return Request(method="GET", path=path, answer=answer, params=params, repeatable=True)


def _post(path: str, answer: type[T], body: Any = None, *, repeatable: bool = False) -> Request[T]:
    return Request(method="POST", path=path, answer=answer, body=body, repeatable=repeatable)


def _of_job(job_id: str, what: str = "") -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}{what}"


def _of_run(run_id: str, what: str = "") -> str:
    return f"/v1/runs/{quote(run_id, safe='')}{what}"


def _moment(value: When | None) -> str | None:
    return None if value is None else moment(value)


# --- jobs ---------------------------------------------------------------------------------------------------------


def new_job(name: str, options: JobOptions) -> Request[models.Job]:
    """Under a key that is made up here, if the caller brought none."""
    body = document({**options, "name": name} if name else options)
    return create_job(body, body.pop("idempotencyKey", None) or fresh_key())


def fresh_key() -> str:
    """An idempotency key that nobody else has."""
    from timeball.system import dice

    return f"{dice().getrandbits(128):032x}"


def create_job(body: Mapping[str, Any], idempotency_key: str) -> Request[models.Job]:
    """The key makes it repeatable: the server answers the second time what it answered the first time."""
    return Request(
        method="POST",
        path="/v1/jobs",
        answer=models.Job,
        body=body,
        headers={"Idempotency-Key": idempotency_key},
        repeatable=True,
    )


def batch(jobs: Iterable[JobOptions], idempotency_key: str | None) -> Request[models.Batch]:
    """A key of the whole batch counts as one key for each place in it."""
    bodies = [document(options) for options in jobs]
    return Request(
        method="POST",
        path="/v1/jobs:batch",
        answer=models.Batch,
        body=bodies,
        headers={} if idempotency_key is None else {"Idempotency-Key": idempotency_key},
        repeatable=idempotency_key is not None or all("idempotencyKey" in body for body in bodies),
    )


def job(job_id: str) -> Request[models.Job]:
    return _get(_of_job(job_id), models.Job)


def jobs(
    *,
    status: str | None = None,
    name: str | None = None,
    tag: str | None = None,
    user_id: str | None = None,
    task_id: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Request[models.Jobs]:
    return _get(
        "/v1/jobs",
        models.Jobs,
        status=status,
        name=name,
        tag=tag,
        userId=user_id,
        taskId=task_id,
        limit=limit,
        cursor=cursor,
    )


def update_job(job_id: str, body: Mapping[str, Any], version: int | None) -> Request[models.Job]:
    """With a version it fails if somebody else changed the job meanwhile, so it must not be sent twice."""
    return Request(
        method="PATCH",
        path=_of_job(job_id),
        answer=models.Job,
        body=body,
        headers={} if version is None else {"If-Match": f'"{version}"'},
        repeatable=version is None,
    )


def delete_job(job_id: str) -> Request[models.Cancelled]:
    return Request(method="DELETE", path=_of_job(job_id), answer=models.Cancelled, repeatable=True)


def pause(job_id: str, reason: str, until: When | None = None) -> Request[models.Job]:
    said = {"reason": reason, "until": _moment(until)}
    body = {name: value for name, value in said.items() if value}
    return _post(_of_job(job_id, "/pause"), models.Job, body or None, repeatable=True)


def resume(job_id: str) -> Request[models.Job]:
    return _post(_of_job(job_id, "/resume"), models.Job, repeatable=True)


def run_now(job_id: str) -> Request[models.Triggered]:
    return _post(_of_job(job_id, "/run"), models.Triggered)


def backfill(
    job_id: str, since: When, until: When | None, *, parallelism: int, idempotency_key: str
) -> Request[models.Backfill]:
    """The key makes it repeatable: the server answers the second time what it answered the first time."""
    return Request(
        method="POST",
        path=_of_job(job_id, "/backfill"),
        answer=models.Backfill,
        body=_range(since, until) | {"parallelism": parallelism},
        headers={"Idempotency-Key": idempotency_key},
        repeatable=True,
    )


def backfill_range(job_id: str, since: When, until: When | None) -> Request[models.BackfillRange]:
    """It changes nothing, though it is a POST."""
    body = _range(since, until) | {"dryRun": True}
    return _post(_of_job(job_id, "/backfill"), models.BackfillRange, body, repeatable=True)


def _range(since: When, until: When | None) -> dict[str, Any]:
    window = {"from": _moment(since), "to": _moment(until)}
    return {name: value for name, value in window.items() if value is not None}


def backfills(
    *, job_id: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Request[models.Backfills]:
    return _get("/v1/backfills", models.Backfills, jobId=job_id, limit=limit, cursor=cursor)


def backfill_progress(backfill_id: str) -> Request[models.Backfill]:
    return _get(f"/v1/backfills/{quote(backfill_id, safe='')}", models.Backfill)


def cancel_backfill(backfill_id: str) -> Request[models.Backfill]:
    return _post(f"/v1/backfills/{quote(backfill_id, safe='')}/cancel", models.Backfill, repeatable=True)


# --- workflows ----------------------------------------------------------------------------------------------------


def _of_workflow(workflow_id: str, what: str = "") -> str:
    return f"/v1/workflows/{quote(workflow_id, safe='')}{what}"


def _of_workflow_run(run_id: str, what: str = "") -> str:
    return f"/v1/workflow-runs/{quote(run_id, safe='')}{what}"


def new_workflow(name: str, tasks: Iterable[Mapping[str, Any]], options: JobOptions) -> Request[models.Workflow]:
    """Under a key that is made up here, if the caller brought none."""
    body = document({**options, "name": name} if name else options)
    return create_workflow({**body, "tasks": list(tasks)}, body.pop("idempotencyKey", None) or fresh_key())


def create_workflow(body: Mapping[str, Any], idempotency_key: str) -> Request[models.Workflow]:
    """The key makes it repeatable: the server answers the second time what it answered the first time."""
    return Request(
        method="POST",
        path="/v1/workflows",
        answer=models.Workflow,
        body={name: value for name, value in body.items() if name != "idempotencyKey"},
        headers={"Idempotency-Key": idempotency_key},
        repeatable=True,
    )


def workflow(workflow_id: str) -> Request[models.Workflow]:
    return _get(_of_workflow(workflow_id), models.Workflow)


def workflows(
    *,
    status: str | None = None,
    name: str | None = None,
    user_id: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Request[models.Workflows]:
    return _get("/v1/workflows", models.Workflows, status=status, name=name, userId=user_id, limit=limit, cursor=cursor)


def update_workflow(workflow_id: str, body: Mapping[str, Any], version: int | None) -> Request[models.Workflow]:
    """With a version it fails if somebody else changed it meanwhile, so it must not be sent twice."""
    return Request(
        method="PATCH",
        path=_of_workflow(workflow_id),
        answer=models.Workflow,
        body=body,
        headers={} if version is None else {"If-Match": f'"{version}"'},
        repeatable=version is None,
    )


def delete_workflow(workflow_id: str) -> Request[models.Cancelled]:
    return Request(method="DELETE", path=_of_workflow(workflow_id), answer=models.Cancelled, repeatable=True)


def run_workflow(workflow_id: str) -> Request[models.Triggered]:
    return _post(_of_workflow(workflow_id, "/run"), models.Triggered)


def pause_workflow(workflow_id: str, reason: str, until: When | None = None) -> Request[models.Workflow]:
    said = {"reason": reason, "until": _moment(until)}
    body = {name: value for name, value in said.items() if value}
    return _post(_of_workflow(workflow_id, "/pause"), models.Workflow, body or None, repeatable=True)


def resume_workflow(workflow_id: str) -> Request[models.Workflow]:
    return _post(_of_workflow(workflow_id, "/resume"), models.Workflow, repeatable=True)


def workflow_runs(
    workflow_id: str, *, status: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Request[models.Runs]:
    return _get(_of_workflow(workflow_id, "/runs"), models.Runs, status=status, limit=limit, cursor=cursor)


def workflow_run(run_id: str) -> Request[models.WorkflowRun]:
    return _get(_of_workflow_run(run_id), models.WorkflowRun)


def cancel_workflow_run(run_id: str) -> Request[models.WorkflowRun]:
    return _post(_of_workflow_run(run_id, "/cancel"), models.WorkflowRun, repeatable=True)


def retry_workflow_run(run_id: str) -> Request[models.WorkflowRun]:
    """A run is retried once: the second time answers the same successor."""
    return _post(_of_workflow_run(run_id, "/retry"), models.WorkflowRun, repeatable=True)


# --- about jobs ---------------------------------------------------------------------------------------------------


def status(job_id: str) -> Request[models.JobStatus]:
    return _get(_of_job(job_id, "/status"), models.JobStatus)


def next_of_job(job_id: str, count: int) -> Request[models.Fires]:
    return _get(_of_job(job_id, "/next"), models.Fires, count=count)


def ledger(
    job_id: str,
    *,
    since: When | None = None,
    until: When | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Request[models.Ledger]:
    window = {"from": _moment(since), "to": _moment(until)}
    return _get(_of_job(job_id, "/ledger"), models.Ledger, **window, limit=limit, cursor=cursor)


def why_job(job_id: str) -> Request[models.JobWhy]:
    return _get(_of_job(job_id, "/why"), models.JobWhy)


# --- runs ---------------------------------------------------------------------------------------------------------


def runs(
    *,
    job_id: str | None = None,
    status: str | Sequence[str] | None = None,
    since: When | None = None,
    until: When | None = None,
    tag: str | None = None,
    user_id: str | None = None,
    task_id: str | None = None,
    fingerprint: str | None = None,
    origin: str | None = None,
    archived: bool = False,
    limit: int | None = None,
    cursor: str | None = None,
) -> Request[models.Runs]:
    return _get(
        "/v1/runs",
        models.Runs,
        jobId=job_id,
        status=status,
        startTime=_moment(since),
        endTime=_moment(until),
        tag=tag,
        userId=user_id,
        taskId=task_id,
        fingerprint=fingerprint,
        origin=origin,
        archived="true" if archived else None,
        limit=limit,
        cursor=cursor,
    )


def run(run_id: str) -> Request[models.Run]:
    return _get(_of_run(run_id), models.Run)


def why_run(run_id: str) -> Request[models.RunWhy]:
    return _get(_of_run(run_id, "/why"), models.RunWhy)


def cancel(run_id: str) -> Request[models.Run]:
    return _post(_of_run(run_id, "/cancel"), models.Run, repeatable=True)


def retry(run_id: str, edit: Edit | None = None) -> Request[models.Run]:
    """A run is followed by one other at most: the second time, the server answers that one, or refuses another edit."""
    return _post(_of_run(run_id, "/retry"), models.Run, _edited(edit) or None, repeatable=edit is None)


def replay(run_id: str, edit: Edit | None = None) -> Request[models.Triggered]:
    return _post(_of_run(run_id, "/replay"), models.Triggered, _edited(edit) or None)


def run_spec(run_id: str) -> Request[models.RunSpec]:
    return _get(_of_run(run_id, "/spec"), models.RunSpec)


def bulk(action: str, where: Runs, *, edit: Edit | None = None, dry_run: bool = False) -> Request[models.Bulk]:
    """With the moment of an earlier answer it may be sent twice: nothing is done again."""
    chosen = narrowed(where)
    body = {"action": action, "filter": chosen, **_edited(edit), **({"dryRun": True} if dry_run else {})}
    return _post("/v1/runs:bulk", models.Bulk, body, repeatable=dry_run or "createdBefore" in chosen)


def _edited(edit: Edit | None) -> dict[str, Any]:
    return {} if edit is None else {"edit": dict(edit)}


def logs(run_id: str, *, attempt: int | None = None) -> Request[bytes]:
    """The text as the run wrote it."""
    return Request(
        method="GET",
        path=_of_run(run_id, "/logs"),
        answer=bytes,
        params={"attempt": attempt},
        headers={"Accept": "text/plain"},
        repeatable=True,
    )


def log_page(
    run_id: str, *, attempt: int | None = None, limit: int | None = None, cursor: str | None = None
) -> Request[models.LogPage]:
    """The same in pages of JSON, with the time and the stream of everything."""
    return _get(_of_run(run_id, "/logs"), models.LogPage, attempt=attempt, limit=limit, cursor=cursor)


def follow(run_id: str, *, attempt: int | None = None, cursor: str | None = None) -> Request[models.LogChunk]:
    """The same as a stream that lasts until the run ends; each line of the answer is a chunk."""
    return Request(
        method="GET",
        path=_of_run(run_id, "/logs"),
        answer=models.LogChunk,
        params={"attempt": attempt, "follow": 1, "cursor": cursor},
        headers={"Accept": "application/x-ndjson"},
        repeatable=True,
    )


def result(run_id: str) -> Request[bytes]:
    return _get(_of_run(run_id, "/result"), bytes)


# --- the rest -----------------------------------------------------------------------------------------------------


def dead_letters(where: LettersWhere, *, limit: int | None = None, cursor: str | None = None) -> Request[models.Runs]:
    return _get("/v1/dead-letters", models.Runs, **narrowed(where), limit=limit, cursor=cursor)


def dead_groups(where: LettersWhere, *, limit: int | None = None) -> Request[models.DeadGroups]:
    return _get("/v1/dead-letters/groups", models.DeadGroups, **narrowed(where), limit=limit)


def retry_dead(
    run_ids: Sequence[str], where: Letters, *, edit: Edit | None = None, dry_run: bool = False
) -> Request[models.Retrial]:
    return _about_letters("retry", models.Retrial, run_ids, where, edit, dry_run=dry_run)


def discard_dead(run_ids: Sequence[str], where: Letters, *, dry_run: bool = False) -> Request[models.Discarding]:
    return _about_letters("discard", models.Discarding, run_ids, where, None, dry_run=dry_run)


def _about_letters(
    verb: str, answer: type[T], run_ids: Sequence[str], where: Letters, edit: Edit | None, *, dry_run: bool
) -> Request[T]:
    """Those named, or those that are meant; the server refuses anything else, so that nothing happens by accident."""
    chosen = narrowed(where)
    body = {"runIds": list(run_ids), "filter": chosen, "edit": edit, "dryRun": dry_run}
    said = {name: value for name, value in body.items() if value}
    repeatable = dry_run or bool(run_ids) or "createdBefore" in chosen
    return _post(f"/v1/dead-letters:{verb}", answer, said, repeatable=repeatable)


def tasks(*, limit: int | None = None, cursor: str | None = None) -> Request[models.Tasks]:
    return _get("/v1/tasks", models.Tasks, limit=limit, cursor=cursor)


def task(task_id: str) -> Request[models.Task]:
    return _get(f"/v1/tasks/{quote(task_id, safe='')}", models.Task)


def put_task(task_id: str, body: Mapping[str, Any]) -> Request[models.Task]:
    path = f"/v1/tasks/{quote(task_id, safe='')}"
    return Request(method="PUT", path=path, answer=models.Task, body=body, repeatable=True)


def delete_task(task_id: str) -> Request[bytes]:
    return Request(method="DELETE", path=f"/v1/tasks/{quote(task_id, safe='')}", answer=bytes, repeatable=True)


def calendars(*, limit: int | None = None, cursor: str | None = None) -> Request[models.Calendars]:
    return _get("/v1/calendars", models.Calendars, limit=limit, cursor=cursor)


def calendar(name: str) -> Request[models.Calendar]:
    return _get(_of_calendar(name), models.Calendar)


def put_calendar(name: str, body: Mapping[str, Any]) -> Request[models.Calendar]:
    return Request(method="PUT", path=_of_calendar(name), answer=models.Calendar, body=body, repeatable=True)


def delete_calendar(name: str) -> Request[bytes]:
    return Request(method="DELETE", path=_of_calendar(name), answer=bytes, repeatable=True)


def _of_calendar(name: str) -> str:
    return f"/v1/calendars/{quote(name, safe='')}"


def forecast(*, since: When | None, until: When | None, bucket: str) -> Request[models.Forecast]:
    params: Params = {"from": _moment(since), "to": _moment(until), "bucket": bucket}
    return Request(method="GET", path="/v1/forecast", answer=models.Forecast, params=params, repeatable=True)


def preview_schedule(
    schedule: str | Mapping[str, Any],
    *,
    timezone: str | None,
    count: int,
    after: When | None,
    name: str,
    calendars: Sequence[str] = (),
    excluded: str | None = None,
    start_at: When | None = None,
    end_at: When | None = None,
    max_runs: int | None = None,
) -> Request[models.Preview]:
    """It changes nothing, though it is a POST."""
    said = {"expression": schedule} if isinstance(schedule, str) else {"schedule": dict(schedule)}
    rest: dict[str, Any] = {"timezone": timezone, "count": count, "after": _moment(after), "name": name or None}
    rest |= {"calendars": list(calendars) or None, "excluded": excluded}
    rest |= {"startAt": _moment(start_at), "endAt": _moment(end_at), "maxRuns": max_runs}
    body = said | {field: value for field, value in rest.items() if value is not None}
    return _post("/v1/schedules:preview", models.Preview, body, repeatable=True)


def workers() -> Request[models.Workers]:
    return _get("/v1/workers", models.Workers)


def clock() -> Request[models.StoreClock]:
    return _get("/v1/clock", models.StoreClock)


def accept_clock() -> Request[models.StoreClock]:
    return _post("/v1/clock:accept", models.StoreClock, repeatable=True)


def create_key(role: str, name: str) -> Request[models.Key]:
    return _post("/v1/api-keys", models.Key, {"role": role, "name": name})


def keys() -> Request[models.Keys]:
    return _get("/v1/api-keys", models.Keys)


def revoke_key(key_id: str) -> Request[bytes]:
    path = f"/v1/api-keys/{quote(key_id, safe='')}"
    return Request(method="DELETE", path=path, answer=bytes, repeatable=True)
