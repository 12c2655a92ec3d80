"""Exports spans over OTLP/HTTP with the OpenTelemetry SDK, which the extra `timeball[otel]` installs. Imported only if
an endpoint is configured, because the import takes longer than all other imports of a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from timeball.domain.instant import Micros
from timeball.domain.run.trace import TraceSpan

MAX_WAITING: Final = 50_000
"""Maximum number of spans that wait for their export; more are dropped, and the exporter logs that."""
MAX_BATCH: Final = 2_000
EXPORT_EVERY_MS: Final = 1_000
CLOSE_MS: Final = 3_000
"""Maximum time for the last export of a stopping process."""
_RATIO_RANGE: Final = 1 << 64
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_KINDS: Final[Mapping[str, SpanKind]] = {
    "submit": SpanKind.SERVER,
    "fire": SpanKind.INTERNAL,
    "claim": SpanKind.PRODUCER,
    "execute": SpanKind.CONSUMER,
    "settle": SpanKind.INTERNAL,
}


class OtlpTracing:
    """Implements the port of tracing. A thread sends spans in batches. If the receiver does not answer, only spans are
    lost: no run fails or waits because of it."""

    def __init__(self, endpoint: str, ratio: float, version: str, wall: Callable[[], Micros]) -> None:
        """`ratio` is the part of the traces beginning here that is recorded, from 0 to 1. The headers, certificates and
        timeouts of the export come from the variables `OTEL_EXPORTER_OTLP_…` of the SDK, and attributes of the process
        from `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`.
        """
        self.now: Final = wall
        self._bound = int(ratio * _RATIO_RANGE)
        named = Resource({"service.name": "timeball", "service.version": version})
        self._resource = Resource.create().merge(named).merge(OTELResourceDetector().detect())
        self._batches = BatchSpanProcessor(
            OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces"),
            max_queue_size=MAX_WAITING,
            max_export_batch_size=MAX_BATCH,
            schedule_delay_millis=EXPORT_EVERY_MS,
        )

    def samples(self, trace_id: str) -> bool:
        return int(trace_id[16:], 16) < self._bound

    def record(self, spans: Sequence[TraceSpan]) -> None:
        for span in spans:
            self._batches.on_end(self._readable(span))

    def _readable(self, span: TraceSpan) -> ReadableSpan:
        trace_id = int(span.trace_id, 16)
        return ReadableSpan(
            name=span.name,
            context=_context(trace_id, span.span_id),
            parent=None if span.parent_id is None else _context(trace_id, span.parent_id),
            resource=self._resource,
            attributes=span.attributes,
            kind=_KINDS[span.name],
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=span.start * 1_000,
            end_time=span.end * 1_000,
        )

    def close(self) -> None:
        """Send the spans that were not sent yet. Blocks for at most `CLOSE_MS`, in a thread of the caller."""
        self._batches.force_flush(CLOSE_MS)
        close: Callable[[], None] = self._batches.shutdown
        close()


def _context(trace_id: int, span_id: str) -> SpanContext:
    return SpanContext(trace_id, int(span_id, 16), is_remote=False, trace_flags=_SAMPLED)
