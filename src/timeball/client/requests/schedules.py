"""Requests about future fires: forecasts and previews of schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from timeball.client.models.schedules import Forecast, Preview
from timeball.client.requests.request import ApiRequest, Params, When, moment_text, post


def forecast(*, since: When | None, until: When | None, bucket: str) -> ApiRequest[Forecast]:
    params: Params = {"from": moment_text(since), "to": moment_text(until), "bucket": bucket}
    return ApiRequest(method="GET", path="/v1/forecast", answer=Forecast, params=params, repeatable=True)


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
) -> ApiRequest[Preview]:
    """The request is repeatable although it is a POST, because it changes nothing on the server."""
    fields = {"expression": schedule} if isinstance(schedule, str) else {"schedule": dict(schedule)}
    optional: dict[str, Any] = {"timezone": timezone, "count": count, "after": moment_text(after), "name": name or None}
    optional |= {"calendars": list(calendars) or None, "excluded": excluded}
    optional |= {"startAt": moment_text(start_at), "endAt": moment_text(end_at), "maxRuns": max_runs}
    body = fields | {field: value for field, value in optional.items() if value is not None}
    return post("/v1/schedules:preview", Preview, body, repeatable=True)
