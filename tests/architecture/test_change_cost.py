"""The cost of a change: a task kind, a terminal status and a live state, each as a patch of a few hand-written files.

Migrations, docs and tests come on top. A patch is applied to a copy of the source, and a process that imports the copy
uses what was added: a list that some other file keeps by hand would make it fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.changes import patches
from tests.architecture.changes.patches import Patch
from tests.support.compiled import copy_package

pytestmark = pytest.mark.xdist_group("copied source")

ROOT = Path(__file__).parents[2]

COSTS: dict[str, tuple[Patch, int]] = {
    "task kind": (patches.TASK_KIND, 4),
    "terminal status": (patches.TERMINAL_STATUS, 7),
    "live state": (patches.LIVE_STATE, 10),
}
"""By what is added: the patch, and the files that it may touch at most."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    copy_package(ROOT / "src", folder / "src")
    return folder / "src/timeball"


@pytest.fixture
def package(copy: Path) -> Iterator[Path]:
    """A copy of the source, which is as before after each test."""
    yield copy
    for path in copy.rglob("*"):
        if path.is_dir() or path.parent.name == "__pycache__":
            continue
        original = ROOT / "src/timeball" / path.relative_to(copy)
        if not original.exists():
            path.unlink()
        elif path.stat().st_mtime_ns != original.stat().st_mtime_ns:
            shutil.copy2(original, path)


@pytest.mark.parametrize("change", COSTS)
def test_a_change_costs_a_few_files_and_works(change: str, package: Path) -> None:
    patch, limit = COSTS[change]
    assert len(patch) <= limit
    patches.apply(patch, package)
    done = _check(change, package)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("change", "left_out", "complaint"),
    [
        ("task kind", "bootstrap/worker.py", "assert tuple(by_kind) == KINDS"),
        ("terminal status", "domain/diagnosis/why_ended.py", "reasons[0].code.value"),
        ("live state", "stores/sql/reading/run_filters.py", "await _listed(store, shelved)"),
    ],
)
def test_a_change_without_one_of_its_files_does_not_work(
    change: str, left_out: str, complaint: str, package: Path
) -> None:
    patch, _ = COSTS[change]
    patches.apply({name: edits for name, edits in patch.items() if name != left_out}, package)
    done = _check(change, package)
    assert done.returncode == 1
    assert complaint in done.stderr


def _check(change: str, package: Path) -> subprocess.CompletedProcess[str]:
    source = package.parent
    settings = {name: value for name, value in os.environ.items() if not name.startswith("TIMEBALL_")}
    environ = {**settings, "PYTHONPATH": str(source), "HOME": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "tests.architecture.changes.checks", str(source), change]
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
