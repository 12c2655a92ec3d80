"""The route that streams events."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from timeball.api.query import Text, run_statuses
from timeball.api.routing import Answer, Call, Route
from timeball.domain import ids
from timeball.domain.errors import Invalid
from timeball.domain.events import JobEvent, RunEvent, RunsChangedEvent, WorkerEvent
from timeball.domain.identity.permission import Permission
from timeball.domain.task.kinds import KINDS
from timeball.operation.events.filters import EventFilter

EVENT_STREAM: Final = b"text/event-stream"
MAX_EVENT_ID_LENGTH: Final = 100
_KINDS: Final = (*KINDS, "workflow")


class EventsQuery(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    job_id: Text = ""
    run_id: Text = ""
    tag: Text = ""
    status: Annotated[Text, Meta(description="One or several statuses of runs, separated by commas.")] = ""
    kind: Annotated[Text, Meta(description="The kind of the task.")] = ""
    last_event_id: Annotated[
        str, Meta(max_length=MAX_EVENT_ID_LENGTH, description="For clients that cannot send `Last-Event-ID`.")
    ] = ""

    def filter(self) -> EventFilter:
        for prefix, name, ident in (("j", "jobId", self.job_id), ("r", "runId", self.run_id)):
            if ident and not ids.is_id(prefix, ident):
                raise Invalid(
                    f"{ident[:64]!r} is not the id of a {'job' if prefix == 'j' else 'run'}", f"/query/{name}"
                )
        if self.kind and self.kind not in _KINDS:
            raise Invalid(f"{self.kind[:64]!r} is not a kind of task; use one of {', '.join(_KINDS)}", "/query/kind")
        return EventFilter(
            job_id=self.job_id,
            run_id=self.run_id,
            tag=self.tag,
            statuses=run_statuses(self.status),
            kind=self.kind,
        )


async def stream(call: Call) -> Answer:
    query: EventsQuery = call.query
    where = query.filter()
    call.context.events.check_room(call.caller.credential)
    last_id = call.headers.get(b"last-event-id", b"")[:MAX_EVENT_ID_LENGTH].decode("latin-1") or query.last_event_id
    credential = call.headers.get(b"authorization") if call.session is None else call.session.digest
    frames = call.services.streams.open(call.caller, credential, where, last_id, call.request.client)
    return Answer(frames, content_type=EVENT_STREAM, headers=[(b"x-accel-buffering", b"no")])


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/events",
        permission=Permission.READ,
        summary="Stream events",
        description=(
            "Server-Sent Events: changes of runs, jobs and workers as they happen, each as a CloudEvent. The stream is"
            " a hint to read again, not a log. `id` is the event id; a client that connects again within a minute and"
            " sends it as `Last-Event-ID` gets the events in between. `event: reset` says that events were lost: read"
            " what you show again. A comment is sent every 15 seconds. More than 100 changes within 250 ms are sent as"
            " one `timeball.runs.changed`. The stream ends when its key is revoked, and when the client reads too"
            " slowly."
        ),
        handle=stream,
        query=EventsQuery,
        lasts=True,
        answer=(RunEvent, JobEvent, WorkerEvent, RunsChangedEvent),
        content_type="text/event-stream",
        headers={"Last-Event-ID": "The id of the last event that the client received."},
        problems=(422,),
    ),
)
