"""I28: what a job prints, returns or raises costs its worker's event loop a bounded time per piece, whatever it is."""

from __future__ import annotations

import time

import pytest

from tests.unit.executing import RecordedAttempt
from timeball.domain.task import Shell
from timeball.executors.pipes import READ, SaidLines


@pytest.mark.xfail(strict=True, reason="item 2: 64 KiB of crafted ::progress lines take 37 ms of the event loop")
def test_a_piece_of_output_full_of_commands_is_read_in_bounded_time() -> None:
    line = "::progress 5" + (" " * 124 + "x") * 4 + "\n"
    began = time.thread_time()
    for _ in range(16):
        SaidLines(RecordedAttempt(Shell(command="true"))).feed(line * (READ // len(line)))
    assert time.thread_time() - began <= 0.05
