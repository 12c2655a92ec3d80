"""A receiver of traces in the process of a test: OTLP over HTTP, decoded with the messages of OpenTelemetry."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class ReceivedSpan(NamedTuple):
    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    attributes: dict[str, str | int]
    error: str
    service: str


class OtlpReceiver:
    def __init__(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.receive(self.path, gzip.decompress(body) if self.headers["content-encoding"] else body)
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._spans: dict[str, ReceivedSpan] = {}
        self.batches: list[int] = []
        """Number of spans of each request."""
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def receive(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        request = ExportTraceServiceRequest.FromString(body)
        found = [
            ReceivedSpan(
                span.name,
                span.trace_id.hex(),
                span.span_id.hex(),
                span.parent_span_id.hex(),
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                {each.key: each.value.int_value or each.value.string_value for each in span.attributes},
                span.status.message,
                next(each.value.string_value for each in part.resource.attributes if each.key == "service.name"),
            )
            for part in request.resource_spans
            for scope in part.scope_spans
            for span in scope.spans
        ]
        self.batches.append(len(found))
        self._spans.update({span.id: span for span in found})

    def trace(self, trace_id: str) -> list[ReceivedSpan]:
        """Return the spans of a trace that arrived so far, parents first."""
        mine = {span.id: span for span in list(self._spans.values()) if span.trace == trace_id}

        def depth(span: ReceivedSpan) -> int:
            return 0 if span.parent not in mine else 1 + depth(mine[span.parent])

        return sorted(mine.values(), key=lambda span: (depth(span), span.start))

    @property
    def traces(self) -> set[str]:
        return {span.trace for span in list(self._spans.values())}
