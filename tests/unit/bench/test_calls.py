"""The count of Python calls per job, on which the speed gate relies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_calls_of_a_process_are_counted_in_a_shared_file(tmp_path: Path) -> None:
    counter = tmp_path / "calls"
    counter.write_bytes(bytes(8))
    command = [sys.executable, "-m", "bench.counted", str(counter), "version"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[3]).stdout
    assert "timeball" in printed
    assert int.from_bytes(counter.read_bytes(), sys.byteorder) > 1_000
