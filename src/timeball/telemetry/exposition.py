"""The text of `/metrics`, in the format of Prometheus, from what a process has counted."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from math import inf
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from timeball.ports.metrics import Histogram

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4.encode()
PREFIX: Final = "timeball_"
Labels = tuple[str, ...]


def render(families: Iterable[Metric]) -> bytes:
    """Return the text of `/metrics` with these metrics."""
    registry = CollectorRegistry()
    registry.register(_Given(families))
    return generate_latest(registry)


class _Given(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, meaning, value=value)


def gauges(name: str, meaning: str, labels: Labels, values: Mapping[Labels, float]) -> Metric:
    family = GaugeMetricFamily(PREFIX + name, meaning, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def counter(name: str, meaning: str, value: float) -> Metric:
    return CounterMetricFamily(PREFIX + name, meaning, value=value)


def counters(name: str, meaning: str, labels: Labels, values: Mapping[Labels, float]) -> Metric:
    family = CounterMetricFamily(PREFIX + name, meaning, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def histograms(name: str, meaning: str, labels: Labels, found: Mapping[Labels, Histogram]) -> Metric:
    family = HistogramMetricFamily(PREFIX + name, meaning, labels=labels)
    for key, histogram in found.items():
        total = 0
        buckets = []
        for bound, count in zip((*histogram.bounds, inf), list(histogram.counts), strict=True):
            total += count
            buckets.append(("+Inf" if bound == inf else str(bound), total))
        family.add_metric(key, buckets, histogram.sum)
    return family


def build_info(role: str, version: str, store: str = "") -> Metric:
    values = {"role": role, "version": version, "python": platform.python_version(), "store": store}
    family = gauges("build_info", "The version of this process. The value is 1.", tuple(values), {})
    family.add_sample(family.name, values, 1)
    return family
