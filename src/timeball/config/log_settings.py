"""The rows of the table of settings for logs and traces."""

from __future__ import annotations

from dataclasses import dataclass

from timeball.config import places, values
from timeball.config.setting import setting


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Logging:
    """Logging."""

    log_level: str = setting(
        values.LOG_LEVEL, "how much to log", "--log-level", default="info", note="debug, info, warning or error"
    )
    log_format: str = setting(values.LOG_FORMAT, "how to log", "--log-format", default="text", note="text or json")
    otlp_endpoint: str | None = setting(
        values.OTLP_URL,
        "where traces are sent, with OTLP over HTTP: an OpenTelemetry collector (needs timeball[otel])",
        "--otlp-endpoint",
        default=places.otlp_endpoint,
        default_text="OTEL_EXPORTER_OTLP_ENDPOINT, else nowhere",
    )
    otlp_sample: float = setting(
        values.RATIO, "which part of the traces that begin here is sent", "--otlp-sample", default=1.0
    )
