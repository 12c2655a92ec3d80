"""Requests about backfills."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from timeball.client.models.backfills import Backfill, BackfillRange, Backfills
from timeball.client.requests.jobs import of_job
from timeball.client.requests.request import ApiRequest, When, get, moment_text, post


def backfill(
    job_id: str, since: When, until: When | None, *, parallelism: int, idempotency_key: str
) -> ApiRequest[Backfill]:
    """The request is repeatable because of its idempotency key: the server returns the same answer to a repetition."""
    return ApiRequest(
        method="POST",
        path=of_job(job_id, "/backfill"),
        answer=Backfill,
        body=_range(since, until) | {"parallelism": parallelism},
        headers={"Idempotency-Key": idempotency_key},
        repeatable=True,
    )


def backfill_range(job_id: str, since: When, until: When | None) -> ApiRequest[BackfillRange]:
    """The request is repeatable although it is a POST, because it changes nothing on the server."""
    body = _range(since, until) | {"dryRun": True}
    return post(of_job(job_id, "/backfill"), BackfillRange, body, repeatable=True)


def _range(since: When, until: When | None) -> dict[str, Any]:
    window = {"from": moment_text(since), "to": moment_text(until)}
    return {name: value for name, value in window.items() if value is not None}


def backfills(
    *, job_id: str | None = None, limit: int | None = None, cursor: str | None = None
) -> ApiRequest[Backfills]:
    return get("/v1/backfills", Backfills, jobId=job_id, limit=limit, cursor=cursor)


def backfill_progress(backfill_id: str) -> ApiRequest[Backfill]:
    return get(f"/v1/backfills/{quote(backfill_id, safe='')}", Backfill)


def cancel_backfill(backfill_id: str) -> ApiRequest[Backfill]:
    return post(f"/v1/backfills/{quote(backfill_id, safe='')}/cancel", Backfill, repeatable=True)
