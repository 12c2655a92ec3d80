"""Traces (W3C Trace Context): the trace that a run belongs to, and the spans of its way from the submit to its end.

    submit ──▶ fire ──▶ claim ──▶ execute ──▶ settle

The id of a span is computed from what it is about, so a message that is sent twice makes the same span twice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from timeball.domain.instant import Micros

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
MAX_TRACEPARENT_LENGTH: Final = 55
"""Length of a rendered context."""


class TraceContext(Struct, frozen=True, gc=False):
    """A position in a trace: what a span or a run belongs to."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str | None
    """16 hexadecimal digits: the parent of what follows. None: the trace begins here."""
    sampled: bool

    def child(self, span_id: str) -> TraceContext:
        return TraceContext(self.trace_id, span_id, self.sampled)

    def render(self) -> str:
        """Return the context as the header `traceparent`."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


class TraceSpan(Struct, frozen=True, gc=False, kw_only=True):
    """A finished step of a trace."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str | None
    start: Micros
    end: Micros
    attributes: Mapping[str, str | int]
    error: str = ""
    """Why the step failed; empty if it succeeded."""


def parse(header: str | None) -> TraceContext | None:
    """Return the context in a header `traceparent`. None if there is none or it is not valid: as the standard asks, an
    invalid header is ignored.
    """
    match = None if header is None else _TRACEPARENT.fullmatch(header.strip())
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == "ff" or (version == "00" and more) or not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & 1))


def trace_id_of(name: str) -> str:
    """Return the id of the trace that begins with a job or a run."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def span_id_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def submit_span_id(job_id: str) -> str:
    return span_id_of(f"{job_id}/submit")


def execute_span_id(run_id: str, attempt: int) -> str:
    return span_id_of(f"{run_id}/{attempt}")


def context_without_trace(run_id: str, attempt: int) -> TraceContext:
    """Return the context that an attempt passes to its job if its run is in no trace: one trace for each run."""
    return TraceContext(trace_id_of(run_id), execute_span_id(run_id, attempt), sampled=True)


def span(
    name: str,
    parent: TraceContext,
    span_id: str,
    start: Micros,
    end: Micros,
    attributes: Mapping[str, str | int],
    error: str = "",
) -> TraceSpan:
    """Return a span below `parent`. Times that come from two clocks may be out of order: it never ends before its
    start.
    """
    return TraceSpan(
        name=name,
        trace_id=parent.trace_id,
        span_id=span_id,
        parent_id=parent.span_id,
        start=start,
        end=max(start, end),
        attributes=attributes,
        error=error,
    )
