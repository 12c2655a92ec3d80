"""I28: what a job prints, returns or raises occupies its worker's event loop for a bounded time per piece.

Each case is the worst that fits into one piece: one read of a pipe, one result, one failure.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable

import pytest

from tests.support.stalls import MAX_STALL_SECONDS
from tests.unit.executing import RecordedAttempt
from timeball.domain.run.error_fingerprint import _normalized, normalized
from timeball.domain.task.task import Shell
from timeball.executors import results
from timeball.executors.process.pipes import (
    MAX_PROGRESS_LENGTH,
    MAX_READ_PER_TURN,
    READ,
    OutputLines,
    Pipe,
    ReadBudget,
    _step,
)
from timeball.executors.python.executor import MAX_BUFFERED_LENGTH, ThreadReports
from timeball.worker.output import AttemptOutput, clean


def cpu(work: Callable[[], object]) -> float:
    """The best of three: what other processes do to the caches does not count."""
    spent = []
    for _ in range(3):
        began = time.thread_time()
        work()
        spent.append(time.thread_time() - began)
    return min(spent)


def attempt() -> RecordedAttempt:
    return RecordedAttempt(Shell(command="true"))


def lines_of(line: str) -> str:
    return f"{line}\n" * (READ // (len(line) + 1))


@pytest.mark.parametrize(
    "text",
    [
        lines_of("::progress 5" + " x" * 249),
        lines_of("::progress 5" + " " * 499),
        lines_of("::progress 5" + " " * 498 + "x"),
        lines_of("::progress 5" + (" " * 124 + "x") * 4),
        lines_of("::progress " + " " * 500),
        lines_of("::progress 1"),
        lines_of("::progress x"),
        lines_of("::result 1"),
        lines_of("") + "::progress 1\n",
        "::progress" * (READ // 10),
        "::progress 1" + "\t" * READ,
    ],
    ids=[
        "words",
        "blanks",
        "a word behind blanks",
        "words behind blanks",
        "no number",
        "steps",
        "no steps",
        "results",
        "empty",
        "one",
        "tabs",
    ],
)
def test_a_piece_of_output_full_of_commands_is_read_in_bounded_time(text: str) -> None:
    pieces = MAX_READ_PER_TURN // READ
    assert cpu(lambda: [OutputLines(attempt()).feed(text) for _ in range(pieces)]) <= MAX_STALL_SECONDS


async def test_pipes_that_are_all_full_share_each_turn_of_the_loop() -> None:
    """With hundreds of jobs that print at the same time, the loop turns after a bounded amount of their output."""
    budget, heard, limit, loop = ReadBudget(), [0], [0], asyncio.get_running_loop()
    pipes = []
    for _ in range(40):
        ours, theirs = os.pipe()
        os.write(theirs, b"x" * READ)
        pipes.append(Pipe(ours, lambda text: heard.__setitem__(0, heard[0] + len(text)), budget))
        os.close(theirs)

    def tick(before: int) -> None:
        limit[0] = max(limit[0], heard[0] - before)
        if heard[0] < 40 * READ:
            loop.call_soon(tick, heard[0])

    loop.call_soon(tick, 0)
    await asyncio.gather(*(pipe.ended for pipe in pipes))
    assert heard[0] == 40 * READ
    assert limit[0] <= MAX_READ_PER_TURN + READ


def test_many_changes_between_the_streams_of_a_thread_are_bounded() -> None:
    async def speak() -> float:
        voice = ThreadReports(attempt(), asyncio.get_running_loop())
        for _ in range(MAX_BUFFERED_LENGTH // 2):
            voice.write("stdout", "x")
            voice.write("stderr", "y")
        began = time.thread_time()
        voice.pass_on()
        return time.thread_time() - began

    assert min(asyncio.run(speak()) for _ in range(2)) <= MAX_STALL_SECONDS


@pytest.mark.parametrize(
    "result",
    [
        b"[" + b"[]," * 349_000 + b"[]]",
        b"[" + b'"",' * 349_000 + b'""]',
        b"[" * 500_000 + b"]" * 500_000,
        b"[" + b"[" * 200 + b'"\\"[' * 100_000 + b'"]',
    ],
    ids=["wide", "strings", "deep", "quotes"],
)
def test_the_depth_of_the_largest_result_is_found_in_bounded_time(result: bytes) -> None:
    assert len(result) <= results.LARGEST
    assert cpu(lambda: results.is_too_deep(result)) <= MAX_STALL_SECONDS


@pytest.mark.parametrize(
    "unit",
    [
        "'",
        "'x",
        '"error":"',
        "a://",
        "Mon ",
        "Jan 1 ",
        "0:",
        "a@",
        "/a",
        "12-",
        "0x",
        "a1",
        "1a",
        "“",
        "\\",
        "-1e",
        " ",
    ],
)
def test_the_fingerprint_of_the_longest_message_takes_a_bounded_time(unit: str) -> None:
    def find() -> None:
        _normalized.cache_clear()
        normalized(unit * 4_000)
        normalized(" " * 1_000 + unit * 4_000)

    assert cpu(find) <= MAX_STALL_SECONDS / 5, "many failures are settled together"


def test_cleaning_and_keeping_a_piece_takes_a_bounded_time() -> None:
    piece = "\0\ud800é" * (READ // 3)
    assert cpu(lambda: clean(piece)) <= MAX_STALL_SECONDS
    output = AttemptOutput()
    assert cpu(lambda: [output.write("stdout", piece) for _ in range(10)]) <= 10 * MAX_STALL_SECONDS


def test_the_words_of_a_step_are_read_as_before() -> None:
    assert _step("::progress 10") == (0.1, "")
    assert _step("::progress\t50.5% half way ") == (0.505, "half way")
    assert _step("::progress 50 % half") == (0.5, "half")
    assert _step("::progress 50 %half") == (0.5, "%half")
    assert _step("::progress 7 \v note\r") == (0.07, "note")
    assert [_step(f"::progress{each}") for each in ("", " ", "50", " 50%x", " x", " 50x", " -1", " .5")] == [None] * 8


def test_the_last_step_of_a_piece_counts_and_odd_lines_hide_none() -> None:
    heard = attempt()
    said = OutputLines(heard)
    said.feed("::progress 1\n::progress 2\nx\n::progress no\n::result 1\n::result 2\n::progress 3")
    assert heard.steps == [(0.01, ""), (0.02, "")]
    assert said.result == "2"
    said.end()
    assert heard.steps[-1] == (0.03, "")


def test_depth_counts_brackets_and_not_those_in_strings() -> None:
    deep = b"[" * 128 + b"]" * 128
    assert not results.is_too_deep(deep)
    assert results.is_too_deep(b"[" + deep + b"]")
    assert results.is_too_deep(b'{"a":' * 129 + b"1" + b"}" * 129)
    chance = random.Random(1)
    for _ in range(200):
        text = "".join(chance.choice('[{"\\x') for _ in range(400))
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        assert not results.is_too_deep(f'["{quoted}",["{quoted}"]]'.encode())


def test_a_line_of_a_step_is_cut_where_it_always_was() -> None:
    heard = attempt()
    OutputLines(heard).feed("\n::progress 5 " + "n" * 1_000 + "\n")
    assert heard.steps == [(0.05, "n" * (MAX_PROGRESS_LENGTH - len("::progress 5 ")))]
