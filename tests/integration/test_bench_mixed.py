"""`bench mixed` measures a load of all kinds with real processes. Only the presence of its figures is checked here."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench import recorder

pytestmark = [pytest.mark.parts, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]


def test_a_mixed_load_is_measured_beside_coroutines_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "mixed", "--quick", "--store", "sqlite", "--results", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode in (0, 1), ended.stderr  # 1: a bound was missed, which means nothing with such sizes
    findings = recorder.read(tmp_path / "mixed.json")
    assert findings.wrong == [], "a job started early, or the jobs in the database are not those that were submitted"
    rates, late, cpu, memory = findings.tables
    assert 0 < rates.rows[0].figures["load"].median < rates.rows[0].figures["capacity"].median
    assert [row.labels["jobs"] for row in late.rows] == [
        *("all", "http", "thread", "async", "shell"),
        "async alone, same CPU use",
    ]
    jobs = [row.figures["jobs"].median for row in late.rows]
    assert jobs[0] == sum(jobs[1:-1])
    assert [row.labels["load"] for row in cpu.rows] == ["mixed", "async alone"]
    assert [row.labels["process"] for row in memory.rows] == ["server", "guard"]
