"""The first span of a trace: `submit`, from the arrival of a new job to its commit."""

from __future__ import annotations

from collections.abc import Sequence

from timeball.domain.instant import Micros
from timeball.domain.run import trace
from timeball.domain.run.trace import TraceContext
from timeball.ports.telemetry.tracing import Tracing


def context_for_runs(tracing: Tracing | None, traceparent: str | None, job_id: str) -> str | None:
    """Return the trace that the runs of a new one-shot continue: the trace of its client, at the span of the submit if
    that is recorded. None: each run begins a trace of its own.
    """
    if tracing is None:
        return traceparent
    parent = _parent(tracing, traceparent, job_id)
    return parent.child(trace.submit_span_id(job_id)).render() if parent.sampled else traceparent


def record(tracing: Tracing, jobs: Sequence[tuple[str, str, str, str | None]], start: Micros) -> None:
    """Record the submits of jobs that arrived at `start`: the id, the tenant, the name, and the trace of the client."""
    end = tracing.now()
    made = []
    for job_id, tenant, name, traceparent in jobs:
        parent = _parent(tracing, traceparent, job_id)
        if parent.sampled:
            about: dict[str, str | int] = {"timeball.job.id": job_id, "timeball.tenant": tenant}
            if name:
                about["timeball.job.name"] = name
            made.append(trace.span("submit", parent, trace.submit_span_id(job_id), start, end, about))
    tracing.record(made)


def _parent(tracing: Tracing, traceparent: str | None, job_id: str) -> TraceContext:
    if (context := trace.parse(traceparent)) is not None:
        return context
    trace_id = trace.trace_id_of(job_id)
    return TraceContext(trace_id, None, tracing.samples(trace_id))
