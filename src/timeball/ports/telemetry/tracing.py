"""Where spans of traces go. A process without a configured exporter has no `Tracing` (None), and makes no span."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from timeball.domain.instant import Micros
from timeball.domain.run.trace import TraceSpan


class Tracing(Protocol):
    def samples(self, trace_id: str) -> bool:
        """True if a new trace with this id is recorded. Every process with the same sampling ratio returns the same."""
        ...

    def now(self) -> Micros:
        """Return the wall clock of this machine, for the times of spans; nothing is decided by it."""
        ...

    def record(self, spans: Sequence[TraceSpan]) -> None:
        """Take finished spans of sampled traces for export. Never blocks and never raises: spans may be lost."""
        ...
