"""The request for the stream of events."""

from __future__ import annotations

from timeball.client.models.events import StreamEvent
from timeball.client.requests.request import ApiRequest


def events(
    *,
    job_id: str | None = None,
    run_id: str | None = None,
    tag: str | None = None,
    status: str | None = None,
    kind: str | None = None,
    last_event_id: str = "",
) -> ApiRequest[StreamEvent]:
    """Return the request for the stream of events. `status` may name several statuses, separated by commas. With the id
    of the last event, the stream continues after that event."""
    headers = {"Accept": "text/event-stream"}
    return ApiRequest(
        method="GET",
        path="/v1/events",
        answer=StreamEvent,
        params={"jobId": job_id, "runId": run_id, "tag": tag, "status": status, "kind": kind},
        headers=headers | ({"Last-Event-ID": last_event_id} if last_event_id else {}),
        repeatable=True,
    )
