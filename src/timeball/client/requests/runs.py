"""Requests about runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack
from urllib.parse import quote

from timeball.client.models.diagnosis import RunWhy
from timeball.client.models.jobs import Triggered
from timeball.client.models.logs import LogChunk, LogPage
from timeball.client.models.runs import Bulk, Run, Runs, RunSpec
from timeball.client.requests.request import ApiRequest, Edit, get, post
from timeball.client.run_selection import RunFilters, RunSelection, narrowed


def _of_run(run_id: str, what: str = "") -> str:
    return f"/v1/runs/{quote(run_id, safe='')}{what}"


def runs(*, limit: int | None = None, cursor: str | None = None, **where: Unpack[RunFilters]) -> ApiRequest[Runs]:
    return get("/v1/runs", Runs, **_listed(where), limit=limit, cursor=cursor)


def pages_of_runs(where: RunFilters) -> Callable[[str | None], ApiRequest[Runs]]:
    """Return the function that returns the request of the page at a cursor."""
    chosen = _listed(where)
    return lambda cursor: get("/v1/runs", Runs, **chosen, cursor=cursor)


def _listed(where: RunFilters) -> dict[str, Any]:
    return {**narrowed(where), "archived": "true" if where.get("archived") else None}


def run(run_id: str) -> ApiRequest[Run]:
    return get(_of_run(run_id), Run)


def why_run(run_id: str) -> ApiRequest[RunWhy]:
    return get(_of_run(run_id, "/why"), RunWhy)


def cancel(run_id: str) -> ApiRequest[Run]:
    return post(_of_run(run_id, "/cancel"), Run, repeatable=True)


def retry(run_id: str, edit: Edit | None = None) -> ApiRequest[Run]:
    """Without an edit the request is repeatable: a run has at most one successor, which the server also returns to a
    repetition. The server refuses a repetition with another edit."""
    return post(_of_run(run_id, "/retry"), Run, _edited(edit) or None, repeatable=edit is None)


def replay(run_id: str, edit: Edit | None = None) -> ApiRequest[Triggered]:
    return post(_of_run(run_id, "/replay"), Triggered, _edited(edit) or None)


def run_spec(run_id: str) -> ApiRequest[RunSpec]:
    return get(_of_run(run_id, "/spec"), RunSpec)


def bulk(action: str, where: RunSelection, *, edit: Edit | None = None, dry_run: bool = False) -> ApiRequest[Bulk]:
    """With the `created_before` of an earlier answer the request is repeatable: no action is applied to a run twice."""
    chosen = narrowed(where)
    body = {"action": action, "filter": chosen, **_edited(edit), **({"dryRun": True} if dry_run else {})}
    return post("/v1/runs:bulk", Bulk, body, repeatable=dry_run or "createdBefore" in chosen)


def _edited(edit: Edit | None) -> dict[str, Any]:
    return {} if edit is None else {"edit": dict(edit)}


def logs(run_id: str, *, attempt: int | None = None, search: str | None = None) -> ApiRequest[bytes]:
    """Return the request for the output as plain text, exactly as the run wrote it, or for the lines of it that contain
    a text."""
    return ApiRequest(
        method="GET",
        path=_of_run(run_id, "/logs"),
        answer=bytes,
        params={"attempt": attempt, "search": search or None},
        headers={"Accept": "text/plain"},
        repeatable=True,
    )


def log_page(
    run_id: str,
    *,
    attempt: int | None = None,
    search: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ApiRequest[LogPage]:
    """Return the request for a page of the output as JSON, with the time and the stream of each chunk, or of each
    line that contains a text."""
    return get(_of_run(run_id, "/logs"), LogPage, attempt=attempt, search=search or None, limit=limit, cursor=cursor)


def follow(run_id: str, *, attempt: int | None = None, cursor: str | None = None) -> ApiRequest[LogChunk]:
    """Return the request for the output as a stream that ends with the run. Each line is the JSON of one chunk."""
    return ApiRequest(
        method="GET",
        path=_of_run(run_id, "/logs"),
        answer=LogChunk,
        params={"attempt": attempt, "follow": 1, "cursor": cursor},
        headers={"Accept": "application/x-ndjson"},
        repeatable=True,
    )


def result(run_id: str) -> ApiRequest[bytes]:
    return get(_of_run(run_id, "/result"), bytes)
