"""Requests about jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Unpack
from urllib.parse import quote

from timeball.client.job_document import document
from timeball.client.job_selection import JobFilters, JobSelection, narrowed_jobs
from timeball.client.models.diagnosis import JobWhy, Ledger
from timeball.client.models.job import Job, JobOptions
from timeball.client.models.jobs import Batch, BulkJobs, Cancelled, Jobs, JobStatus, JobVersions, Triggered
from timeball.client.models.schedules import Fires
from timeball.client.requests.request import ApiRequest, When, fresh_key, get, moment_text, post


def of_job(job_id: str, what: str = "") -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}{what}"


def new_job(name: str, options: JobOptions) -> ApiRequest[Job]:
    """Return the request that submits a job. An idempotency key is generated if the options have none."""
    body = document({**options, "name": name} if name else options)
    return create_job(body, body.pop("idempotencyKey", None) or fresh_key())


def create_job(body: Mapping[str, Any], idempotency_key: str) -> ApiRequest[Job]:
    """The request is repeatable because of its idempotency key: the server returns the same answer to a repetition."""
    return ApiRequest(
        method="POST",
        path="/v1/jobs",
        answer=Job,
        body=body,
        headers={"Idempotency-Key": idempotency_key},
        repeatable=True,
    )


def batch(jobs: Iterable[JobOptions], idempotency_key: str | None) -> ApiRequest[Batch]:
    """Return the request that submits several jobs. An idempotency key of the batch counts as one key for each of its
    positions."""
    bodies = [document(options) for options in jobs]
    return ApiRequest(
        method="POST",
        path="/v1/jobs:batch",
        answer=Batch,
        body=bodies,
        headers={} if idempotency_key is None else {"Idempotency-Key": idempotency_key},
        repeatable=idempotency_key is not None or all("idempotencyKey" in body for body in bodies),
    )


def job(job_id: str) -> ApiRequest[Job]:
    return get(of_job(job_id), Job)


def jobs(*, limit: int | None = None, cursor: str | None = None, **where: Unpack[JobFilters]) -> ApiRequest[Jobs]:
    return get("/v1/jobs", Jobs, **narrowed_jobs(where), limit=limit, cursor=cursor)


def pages_of_jobs(where: JobFilters) -> Callable[[str | None], ApiRequest[Jobs]]:
    """Return the function that returns the request of the page at a cursor."""
    chosen = narrowed_jobs(where)
    return lambda cursor: get("/v1/jobs", Jobs, **chosen, cursor=cursor)


def bulk_jobs(
    action: str,
    where: JobSelection,
    *,
    reason: str = "",
    until: When | None = None,
    dry_run: bool = False,
    cursor: str | None = None,
) -> ApiRequest[BulkJobs]:
    """The request is repeatable, because a job that was changed is not changed again. Only `run` is not, unless it has
    the `created_before` of an earlier answer."""
    chosen = narrowed_jobs(where)
    fields = {"reason": reason, "until": moment_text(until), "dryRun": dry_run, "cursor": cursor}
    body = {"action": action, "filter": chosen, **{name: value for name, value in fields.items() if value}}
    return post("/v1/jobs:bulk", BulkJobs, body, repeatable=dry_run or action != "run" or "createdBefore" in chosen)


def update_job(job_id: str, body: Mapping[str, Any], version: int | None) -> ApiRequest[Job]:
    """With a `version` the request is not repeatable: the first one changes the version, so a second would fail."""
    return ApiRequest(
        method="PATCH",
        path=of_job(job_id),
        answer=Job,
        body=body,
        headers={} if version is None else {"If-Match": f'"{version}"'},
        repeatable=version is None,
    )


def delete_job(job_id: str) -> ApiRequest[Cancelled]:
    return ApiRequest(method="DELETE", path=of_job(job_id), answer=Cancelled, repeatable=True)


def pause(job_id: str, reason: str, until: When | None = None) -> ApiRequest[Job]:
    fields = {"reason": reason, "until": moment_text(until)}
    body = {name: value for name, value in fields.items() if value}
    return post(of_job(job_id, "/pause"), Job, body or None, repeatable=True)


def resume(job_id: str) -> ApiRequest[Job]:
    return post(of_job(job_id, "/resume"), Job, repeatable=True)


def run_now(job_id: str) -> ApiRequest[Triggered]:
    return post(of_job(job_id, "/run"), Triggered)


def versions(job_id: str, *, limit: int | None = None, cursor: str | None = None) -> ApiRequest[JobVersions]:
    return get(of_job(job_id, "/versions"), JobVersions, limit=limit, cursor=cursor)


def status(job_id: str) -> ApiRequest[JobStatus]:
    return get(of_job(job_id, "/status"), JobStatus)


def next_of_job(job_id: str, count: int) -> ApiRequest[Fires]:
    return get(of_job(job_id, "/next"), Fires, count=count)


def ledger(
    job_id: str,
    *,
    since: When | None = None,
    until: When | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ApiRequest[Ledger]:
    window = {"from": moment_text(since), "to": moment_text(until)}
    return get(of_job(job_id, "/ledger"), Ledger, **window, limit=limit, cursor=cursor)


def why_job(job_id: str) -> ApiRequest[JobWhy]:
    return get(of_job(job_id, "/why"), JobWhy)
