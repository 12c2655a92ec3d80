"""Encodes events as frames of `text/event-stream`."""

from __future__ import annotations

from typing import Final, assert_never

import msgspec
from msgspec import UNSET

from timeball.domain.events import (
    RUN_EVENTS,
    CloudEvent,
    EventType,
    JobEvent,
    JobEventData,
    RunEvent,
    RunEventData,
    RunsChangedEvent,
    WorkerEvent,
    WorkerEventData,
)
from timeball.domain.instant import MILLISECOND, Micros, render
from timeball.operation.events.job_facts import JobFacts
from timeball.operation.events.summary import RunsSummary
from timeball.ports.store.changes import Change, JobChange, RunChange, WorkerChange

RETRY_MILLISECONDS: Final = 1_000
"""Milliseconds that a client waits before it connects again."""
RETRY_FRAME: Final = f"retry: {RETRY_MILLISECONDS}\n\n".encode()
_encode = msgspec.json.Encoder().encode


def id_frame(event_id: str) -> bytes:
    """Return a comment that sets the last event id of the client without an event."""
    return f": alive\nid: {event_id}\n\n".encode()


def reset_frame(event_id: str) -> bytes:
    """Return the frame that says that events were lost. The client then has to read the data that it shows again."""
    return f"id: {event_id}\nevent: reset\ndata: {{}}\n\n".encode()


def change_frame(event_id: str, change: Change, facts: JobFacts | None, now: Micros) -> bytes:
    match change:
        case RunChange():
            what = RUN_EVENTS[change.status] if change.progress is None else EventType.RUN_PROGRESS
            subject = f"runs/{change.run_id}"
            data = _run_data(change, facts)
            return _frame(RunEvent(id=event_id, type=what, subject=subject, time=render(change.at), data=data))
        case JobChange():
            job = JobEventData(job_id=change.job_id, name=UNSET if facts is None else facts.name)
            subject, time = f"jobs/{change.job_id}", render(change.at)
            return _frame(JobEvent(id=event_id, type=change.type, subject=subject, time=time, data=job))
        case WorkerChange():
            worker = WorkerEventData(worker_id=change.session, name=change.name or UNSET)
            subject = f"workers/{change.session}"
            return _frame(WorkerEvent(id=event_id, type=change.type, subject=subject, time=render(now), data=worker))
        case _:
            assert_never(change)


def summary_frame(event_id: str, summary: RunsSummary, now: Micros) -> bytes:
    what, data = EventType.RUNS_CHANGED, summary.data
    return _frame(RunsChangedEvent(id=event_id, type=what, subject=None, time=render(now), data=data))


def _run_data(change: RunChange, facts: JobFacts | None) -> RunEventData:
    late = None if change.started_at is None or change.due_at is None else change.started_at - change.due_at
    fraction, note = change.progress or (None, "")
    return RunEventData(
        run_id=change.run_id,
        job_id=change.job_id if facts is None else facts.job_id,
        job_name=UNSET if facts is None else facts.name,
        status=change.status,
        attempt=change.attempt or UNSET,
        fire_time=UNSET if change.fire_time is None else render(change.fire_time),
        tags=UNSET if facts is None else facts.tags,
        kind=UNSET if facts is None else facts.kind,
        worker_id=change.worker or UNSET,
        late_ms=UNSET if late is None else max(0, late) // MILLISECOND,
        progress=UNSET if fraction is None else fraction,
        note=note or UNSET,
    )


def _frame(event: CloudEvent) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event.id.encode(), event.type.encode(), _encode(event))
