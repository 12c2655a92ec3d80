"""The alert rules and the dashboard of `deploy/` use only metrics and labels that running processes have, and each
alert has its section in the documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.architecture.source import ROOT
from tests.support.api import serving
from tests.support.migrated import sqlite_store
from timeball import system
from timeball.ports.worker_protocol import RegisterWorker
from timeball.stores.postgres.store import PostgresStore
from timeball.telemetry.exposition import render
from timeball.worker.metrics import WorkerCollector
from timeball.worker.worker import Worker

RULES: list[dict[str, Any]] = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text("utf-8"))["groups"][0][
    "rules"
]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/dashboards/timeball.json").read_text("utf-8"))
OF_PROMETHEUS = {"up"}
"""Metrics that Prometheus itself makes."""
OF_TARGETS = {"job", "instance"}
"""Labels that Prometheus adds to every metric."""
WORDS = {
    *("by", "without", "on", "and", "or", "unless", "offset", "sum", "min", "max", "avg", "count", "rate", "increase"),
    *("histogram_quantile", "min_over_time", "clamp_min"),
}


def queries() -> Iterator[str]:
    for rule in RULES:
        yield rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


def used(query: str) -> tuple[set[str], set[str]]:
    """Return the metrics and the labels in a query."""
    selectors = re.findall(r"\{([^}]*)\}", query)
    grouped = re.findall(r"\b(?:by|on|without) \(([^)]*)\)", query)
    labels = {name for each in selectors for name in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", each)}
    labels |= {name.strip() for each in grouped for name in each.split(",") if name.strip()}
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\b(?:by|on|without) \([^)]*\)", "", query)
    return {name for name in re.findall(r"\b[a-zA-Z_]\w*", bare) if name not in WORDS} - {"e9"}, labels


async def test_every_query_uses_metrics_and_labels_that_exist(tmp_path: Path, postgres_dsn: str) -> None:
    texts = []
    for store in (sqlite_store(tmp_path / "timeball.db"), PostgresStore(postgres_dsn, monotonic=system.monotonic)):
        async with serving(store) as api:
            texts.append((await api("GET", "/metrics")).text)
    unused: Any = None
    worker = Worker(unused, {}, system.SystemClock(), RegisterWorker(name="w", slots=4), rng=system.rng())
    texts.append(render(WorkerCollector(worker).collect()).decode())
    exist: dict[str, set[str]] = {name: set() for name in OF_PROMETHEUS}
    found: list[Metric] = [family for text in texts for family in text_string_to_metric_families(text)]
    for family in found:
        for sample in family.samples:
            exist.setdefault(sample.name, set()).update(sample.labels)
    for query in queries():
        metrics, labels = used(query)
        assert metrics, query
        assert metrics <= exist.keys(), query
        assert labels <= OF_TARGETS.union(*(exist[each] for each in metrics)), query
    asked = {name for query in queries() for name in used(query)[0]}
    documented = set(re.findall(r"`(timeball_\w+)`", (ROOT / "docs/howto/metrics.md").read_text("utf-8")))
    base = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exist} - OF_PROMETHEUS
    assert base == documented
    assert len(asked) > 20


@pytest.mark.parametrize(
    ("query", "metrics", "labels"),
    [
        ('max by (a, b) (x{c=~"d", e="f"} offset 1h) > 1e9', {"x"}, {"a", "b", "c", "e"}),
        (
            "histogram_quantile(0.95, sum by (le) (rate(y_bucket[$__rate_interval]))) / on () z",
            {"y_bucket", "z"},
            {"le"},
        ),
    ],
)
def test_metrics_and_labels_of_a_query_are_found(query: str, metrics: set[str], labels: set[str]) -> None:
    assert used(query) == (metrics, labels)


def test_every_alert_has_a_section_that_says_what_to_do() -> None:
    page = (ROOT / "docs/howto/alerts.md").read_text("utf-8")
    sections = dict(re.findall(r"(?ms)^## (\w+)$(.*?)(?=^## |\Z)", page))
    assert list(sections) == [rule["alert"] for rule in RULES]
    for rule in RULES:
        text = sections[rule["alert"]]
        assert "**Look at**" in text
        assert "**Do**" in text
        assert rule["annotations"]["runbook_url"] == f"docs/howto/alerts.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("info", "warning", "critical")


def test_every_panel_says_what_it_shows() -> None:
    panels = [each for each in DASHBOARD["panels"] if each["type"] != "row"]
    assert len({each["id"] for each in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for panel in panels:
        assert panel["title"]
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
