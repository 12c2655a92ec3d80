"""What a worker logs at its start about what its jobs may do."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from timeball import config
from timeball.bootstrap import confinement
from timeball.config import UpConfig


def settings(folder: Path, **flags: object) -> UpConfig:
    found = config.up({"data_dir": str(folder), "job_landlock": False, **flags}, {})
    found.scripts_dir.mkdir(parents=True, exist_ok=True)
    return found


def said(found: UpConfig) -> list[str]:
    with structlog.testing.capture_logs() as logs:
        confinement.confine(found)
    return [entry["event"] for entry in logs if entry["log_level"] == "warning" and "sudo" in entry["event"]]


@pytest.mark.parametrize(("uid", "survives"), [(0, False), (1000, True)])
def test_a_worker_whose_jobs_may_gain_privileges_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, survives: bool
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)
    assert said(settings(tmp_path)) == []
    [warning] = said(settings(tmp_path, no_new_privs=False))
    assert ("cannot kill" in warning) == survives
