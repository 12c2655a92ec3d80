"""Requests of the overview."""

from __future__ import annotations

from timeball.client.models.overview import SloReport, Stats, Timeline
from timeball.client.requests.request import ApiRequest, When, get, moment_text


def stats(window: str | None = None) -> ApiRequest[Stats]:
    return get("/v1/stats", Stats, window=window)


def timeline(
    *,
    since: When | None = None,
    until: When | None = None,
    by: str | None = None,
    lanes: int | None = None,
    q: str | None = None,
    tag: str | None = None,
) -> ApiRequest[Timeline]:
    window = {"from": moment_text(since), "to": moment_text(until)}
    return get("/v1/timeline", Timeline, **window, by=by, lanes=lanes, q=q, tag=tag)


def slo(job_id: str | None = None, *, tag: str | None = None) -> ApiRequest[SloReport]:
    return get("/v1/slo", SloReport, jobId=job_id, tag=tag)
