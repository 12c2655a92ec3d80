"""The rows of the table of settings for metrics."""

from __future__ import annotations

from dataclasses import dataclass

from timeball.config import values
from timeball.config.setting import setting


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Measuring:
    """Metrics."""

    metrics_open: bool = setting(
        values.SWITCH,
        "offer /metrics without a key, to every client that reaches the server",
        "--metrics-open",
        default="off",
        protects=True,
    )
    metrics_tenants: bool = setting(
        values.SWITCH, "add the label `tenant` to the metrics of runs and queues", "--metrics-tenants", default="off"
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class MeasuringWorkers:
    """Metrics of a worker."""

    metrics_listen: tuple[str, int] | None = setting(
        values.LISTEN,
        "the address at which a worker offers /metrics, to every client that reaches it; several worker processes"
        " take the ports after it",
        "--metrics-listen",
        default_text="a worker opens no port",
        note="default: no port",
        protects=True,
    )
    """A host and a port."""
