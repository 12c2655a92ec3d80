"""The supervisor of worker processes, on a machine that lacks something for a moment."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import errno, os
from timeball.bootstrap.supervisor import Supervisor

failures = [errno.EAGAIN]
original = os.CALL

def shortage():
    if failures:
        raise OSError(failures.pop(), "for a moment")
    return original()

supervisor = Supervisor(["one", "two"])
os.CALL = shortage
found = supervisor.run()
if not isinstance(found, int):
    found.is_ready()
    print(found.name, flush=True)
    found = 0
os._exit(found)
"""


@pytest.mark.parametrize("call", ["fork", "pipe"])
def test_a_process_that_the_machine_cannot_start_now_is_started_later(call: str) -> None:
    """I29: a shortage of processes or descriptors ends neither the supervisor nor its other processes."""
    program = [sys.executable, "-c", PROGRAM.replace("CALL", call)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split().count("one") == ended.stdout.split().count("two") == 1
    assert "for a moment" in ended.stdout + ended.stderr
