"""The calculator uses the measured costs, and its results grow with what causes them."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from tests.architecture.source import ROOT
from timeball.cli.root import timeball
from timeball.cli.tools import capacity
from timeball.cli.tools.capacity import StoreKind, compute
from timeball.domain.instant import DAY

WORKER: dict[StoreKind, str] = {"sqlite": "in process", "postgresql": "separate, over HTTP"}


def figures(section: str, store: StoreKind, figure: str) -> list[float]:
    """Return the values of a figure in the committed results, for the configuration that a store is used in."""
    results = json.loads((ROOT / "bench" / "results" / f"{section}.json").read_text("utf-8"))
    return next(
        row["figures"][figure]["values"]
        for table in results["tables"]
        for row in table["rows"]
        if row["labels"] in ({"store": store}, {"store": store, "worker": WORKER[store]}) and figure in row["figures"]
    )


@pytest.mark.parametrize(
    ("constant", "section", "figure"),
    [
        (capacity.SUBMIT_US, "ingest", "server µs"),
        (capacity.LIFE_US, "lifecycle", "server µs"),
        (capacity.DATABASE_US, "lifecycle", "postgres µs"),
        (capacity.WORKER_US, "lifecycle", "worker µs"),
    ],
)
def test_costs_are_the_highest_of_the_measured(constant: dict[StoreKind, float], section: str, figure: str) -> None:
    for store, cost in constant.items():
        if cost:
            assert cost == pytest.approx(max(figures(section, store, figure)), rel=0.01), (store, figure)


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_the_rate_of_one_store_is_the_lowest_of_the_measured(store: StoreKind) -> None:
    assert capacity.LIMIT_PER_SECOND[store] == int(min(figures("lifecycle", store, "jobs/s")))


def test_sizes_are_those_of_the_page_about_scale() -> None:
    page = (ROOT / "docs/explanation/scale.md").read_text("utf-8")
    assert f"| {capacity.JOB_BYTES} + {capacity.RUN_BYTES} bytes |" in page
    assert f"| {capacity.LOG_BYTES / 1_000} KB |" in page


def test_results_are_in_proportion() -> None:
    small, large = (compute(jobs, 30 * DAY, store="postgresql") for jobs in (10_000_000, 20_000_000))
    assert large.disk_bytes == 2 * small.disk_bytes
    assert large.slots == pytest.approx(2 * small.slots, abs=1)
    assert compute(1_000, 60 * DAY).disk_bytes == 2 * compute(1_000, 30 * DAY).disk_bytes
    assert compute(1_000, DAY, recurring=True).disk_bytes < compute(1_000, DAY).disk_bytes
    assert compute(86_400, DAY, peak=1, p95_seconds=20).slots == 20


def test_a_load_that_is_too_much_is_said() -> None:
    assert compute(1_000_000, DAY).store == "sqlite"
    assert compute(1_000_000, DAY).warnings == ()
    assert compute(1_000_000_000, DAY).store == "postgresql"
    assert "scale.md" in compute(1_000_000_000, DAY).warnings[0]
    assert "use PostgreSQL" in compute(1_000_000_000, DAY, store="sqlite").warnings[0]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(timeball, ["capacity", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_prints_text_and_json() -> None:
    found: dict[str, Any] = json.loads(run("--jobs-per-day", "1e6", "--retention", "30d", "-o", "json"))
    assert found["disk_bytes"] == round(1_000_000 * 30 * 770 * 1.5)
    assert f"disk\t{found['disk_bytes']}\n" in run("--jobs-per-day", "1e6", "--retention", "30d")
    assert "34.6 GB" in run("--jobs-per-day", "1e6", "--retention", "30d", "-o", "table")


def test_a_retention_without_end_is_refused() -> None:
    result = CliRunner().invoke(timeball, ["capacity", "--jobs-per-day", "1", "--retention", "never"])
    assert (result.exit_code, "--retention" in result.stderr) == (2, True)
