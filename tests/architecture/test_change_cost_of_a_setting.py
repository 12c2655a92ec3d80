"""A new setting takes two hand-written changes: its row in the table, and the code that uses it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.compiled import copy_package

ROOT = Path(__file__).parents[2]

ROW = """
    nap_seconds: float = setting(
        values.DURATION, "how long a worker naps", "--nap", name="nap", default="5s", secret=SECRET
    )

"""
USE = """
    raise SystemExit(f"naps {settings.nap_seconds} of {settings}")
"""
PATCH = {'class Logging:\n    """Logging."""\n': ROW, "settings = config.worker(flags)\n": USE}
"""What is added, by the text that it stands behind. Each is one place in one file of the source."""


@pytest.fixture(params=[False, True], ids=["plain", "secret"])
def patched(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of the source with one setting more."""
    for folder in ("src", "scripts"):
        copy_package(ROOT / folder, tmp_path / folder)
    for before, added in PATCH.items():
        [path] = [path for path in (tmp_path / "src").rglob("*.py") if before in path.read_text()]
        path.write_text(path.read_text().replace(before, before + added.replace("SECRET", str(request.param))))
    if request.param:
        (tmp_path / "nap").write_text("6s\n")
    return tmp_path


def test_a_setting_costs_two_places(patched: Path) -> None:
    assert len(PATCH) == 2
    is_secret = (patched / "nap").exists()
    assert "--nap TIME" in _run(patched, "-m", "timeball", "worker", "--help")
    assert _worker(patched).startswith("naps 5.0 of WorkerConfig(")
    assert _worker(patched, "--nap", "7s").startswith("naps 7.0")
    assert _worker(patched, TIMEBALL_NAP="8s").startswith("naps 8.0")
    (patched / "timeball.toml").write_text("nap = '9s'\n")
    assert _worker(patched).startswith("naps 9.0")
    assert _worker(patched, TIMEBALL_NAP="8s").startswith("naps 8.0")
    assert "from --nap cannot be used" in _worker(patched, "--nap", "long")
    assert ("nap_seconds" in _worker(patched)) != is_secret, "no configuration shows a secret"
    if is_secret:
        assert _worker(patched, TIMEBALL_NAP_FILE="nap").startswith("naps 6.0")
        (patched / "timeball.toml").write_text("nap_file = 'nap'\n")
        assert _worker(patched).startswith("naps 6.0")


def test_the_reference_page_of_a_setting_costs_nothing(patched: Path) -> None:
    page = _run(patched, "-c", "from scripts.settings_reference import page; print(page())")
    [row] = [line for line in page.splitlines() if "`--nap`" in line]
    assert "| How long a worker naps." in row
    assert "| 5s | server, worker, up |" in row
    assert ("`TIMEBALL_NAP_FILE`" in row) == ("`nap_file`" in row) == (patched / "nap").exists()


def _worker(patched: Path, *flags: str, **environ: str) -> str:
    return _run(patched, "-m", "timeball", "worker", "--token", "key", *flags, **environ)


def _run(patched: Path, *arguments: str, **environ: str) -> str:
    """What a command says that runs in the copy."""
    path = os.pathsep.join([str(patched / "src"), str(patched)])
    settings = {name: value for name, value in os.environ.items() if not name.startswith("TIMEBALL_")}
    environ = {**settings, "PYTHONPATH": path, "HOME": str(patched), "PYTHONDONTWRITEBYTECODE": "", **environ}
    done = subprocess.run([sys.executable, *arguments], cwd=patched, env=environ, capture_output=True, text=True)
    return done.stdout + done.stderr
