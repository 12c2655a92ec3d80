"""Opens the export of traces, if it is configured. A process without an endpoint imports nothing of OpenTelemetry."""

from __future__ import annotations

import asyncio
import contextlib

import timeball
from timeball import system
from timeball.config import InvalidSetting, ServerConfig, WorkerConfig
from timeball.ports.telemetry.tracing import Tracing


def open_tracing(config: ServerConfig | WorkerConfig, stack: contextlib.AsyncExitStack) -> Tracing | None:
    if config.otlp_endpoint is None:
        return None
    try:
        from timeball.telemetry.otel import OtlpTracing
    except ModuleNotFoundError as error:
        raise InvalidSetting(
            f"--otlp-endpoint needs the OpenTelemetry SDK ({error}): pip install 'timeball[otel]'"
        ) from None
    tracing = OtlpTracing(config.otlp_endpoint, config.otlp_sample, timeball.__version__, system.wall)
    stack.push_async_callback(asyncio.to_thread, tracing.close)
    return tracing
