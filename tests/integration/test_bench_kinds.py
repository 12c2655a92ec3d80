"""`bench kinds` measures every kind with real processes. Only the presence of its figures is checked here."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench import recorder
from bench.measurements import Findings, Table
from tests.support.thorough import THOROUGH

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
AT_LENGTH = pytest.mark.skipif(not THOROUGH, reason="TIMEBALL_THOROUGH is not set")
"""For kinds whose parts are also measured for another kind, or that another test measures."""


def measured(folder: Path, *arguments: str) -> Findings:
    command = [sys.executable, "-m", "bench", "kinds", "--quick", "--store", "sqlite", "--results", str(folder)]
    ended = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode in (0, 1), ended.stderr  # 1: a bound was missed, which means nothing with such sizes
    findings = recorder.read(folder / "kinds.json")
    assert findings.wrong == [], "the jobs in the database are not those that were submitted"
    return findings


def slots_by_kind(table: Table) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in table.rows:
        found.setdefault(row.labels["kind"], []).append(row.labels["slots"].partition(":")[0])
    return found


@pytest.mark.parametrize(
    ("kind", "slots"),
    [
        ("http", ["default", "200", "raw limit"]),
        pytest.param("async", ["default", "2,000"], marks=AT_LENGTH),
        pytest.param("thread", ["default", "200", "raw limit"], marks=AT_LENGTH),
    ],
)
def test_a_kind_is_measured_in_bursts_in_a_steady_state_and_one_by_one(
    tmp_path: Path, kind: str, slots: list[str]
) -> None:
    parts = [word for part in ("burst", "steady", "lateness") for word in ("--part", part)]
    bursts, costs, steady, lateness = measured(tmp_path, "--kind", kind, *parts).tables
    for table in (bursts, costs, steady):
        assert slots_by_kind(table) == {kind: slots}
        assert all(figure.median > 0 for row in table.rows for figure in row.figures.values())
    assert [row.labels["kind"] for row in lateness.rows] == [kind]
    assert all(row.figures["p50"].median > 0 for row in lateness.rows)


@pytest.mark.parts
def test_two_revisions_are_measured_in_turns(tmp_path: Path) -> None:
    [bursts, _] = measured(tmp_path, "--kind", "async", "--part", "burst", "--base", "HEAD").tables
    assert slots_by_kind(bursts) == {"async": ["default", "2,000", "default, base"]}
    assert {"× base", "CPU × base"} <= bursts.rows[0].figures.keys()


@pytest.mark.parts
def test_the_worker_is_measured_in_both_places(tmp_path: Path) -> None:
    [bursts, _] = measured(tmp_path, "--kind", "shell", "--part", "burst", "--worker", "both").tables
    assert [(row.labels["slots"].partition(":")[0], row.labels["worker"]) for row in bursts.rows] == [
        ("default", "in process"),
        ("200", "in process"),
        ("default", "separate, over HTTP"),
        ("raw limit", "in process"),
    ]
    assert all("× raw" in row.figures for row in bursts.rows[:3])


@pytest.mark.parts
@pytest.mark.parametrize("kind", [pytest.param("script", marks=AT_LENGTH), "process"])
def test_a_kind_can_be_measured_alone(tmp_path: Path, kind: str) -> None:
    bursts, _, lateness = measured(tmp_path, "--kind", kind, "--part", "burst", "--part", "lateness").tables
    assert slots_by_kind(bursts)[kind][0] == "default"
    assert lateness.rows[0].figures["p50"].median > 0
    assert lateness.rows[0].figures["raw p50"].median > 0
