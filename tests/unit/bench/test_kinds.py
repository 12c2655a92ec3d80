"""`bench kinds`: what is measured beside what, and whose CPU time counts for which process."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench.kinds import costs, raw
from bench.kinds.burst import Burst, batches, body
from bench.kinds.catalogue import BY_NAME, KINDS, Kind
from bench.kinds.target import Target, target
from bench.peers.catalogue import PEERS
from bench.sections.kinds import cpu, cpu_ratios, ratios, raw_side
from timeball.domain.task.kinds import KINDS as TASK_KINDS


def burst(*, jobs: int = 100, seconds: float = 1.0, **cpu_seconds: float) -> Burst:
    return Burst(jobs, seconds, cpu_seconds)


def test_every_task_kind_is_measured() -> None:
    assert {kind.task["kind"] for kind in KINDS} == set(TASK_KINDS)
    assert {kind.start_task["kind"] for kind in KINDS} == set(TASK_KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_has_a_raw_limit_and_known_peers(kind: Kind) -> None:
    assert raw_side(kind) in ("raw limit", "2,000")
    assert kind.beside is None or kind.beside in BY_NAME
    assert {*kind.peers, *(kind.min_peer_ratio or {})} <= {peer.name for peer in PEERS}


def test_ratios_are_those_of_each_turn() -> None:
    slow, fast = burst(seconds=2.0, server=0.4), burst(seconds=1.0, server=0.1)
    assert ratios([slow, fast], [fast, fast]) == [0.5, 1.0]
    assert cpu_ratios([slow, fast], [fast, fast]) == [4.0, 1.0]


def test_the_load_generator_does_not_count() -> None:
    columns = cpu([burst(jobs=1_000, server=0.2, guard=0.1, children=0.0, load=0.7)])
    assert columns["µs/job"].median == pytest.approx(300)
    assert columns["load µs"].median == pytest.approx(700)
    assert "children µs" not in columns


def test_cpu_that_is_less_than_one_tick_counts_as_one() -> None:
    assert burst(jobs=100, server=0.0).cpu_total == pytest.approx(1e6 / os.sysconf("SC_CLK_TCK") / 100)


def test_the_jobs_of_a_batch_have_the_tasks_in_turn() -> None:
    jobs = json.loads(body([{"kind": "a"}, {"kind": "b"}], 5))
    assert [job["task"]["kind"] for job in jobs] == ["a", "b", "a", "b", "a"]


def test_a_burst_is_submitted_in_batches_of_1000() -> None:
    assert batches(2_500) == [1_000, 1_000, 500]
    assert batches(1_000) == [1_000]
    assert batches(40) == [40]


# --- the raw limits -----------------------------------------------------------------------------------------------


def test_the_raw_limit_of_a_command_reads_all_output_and_has_its_own_process_group() -> None:
    print_much = "import os; print('x' * 300_000); print(os.getpgrp() == os.getpid())"
    printed = raw.spawn([sys.executable, "-c", print_much]).split()
    assert (len(printed[0]), printed[1]) == (300_000, b"True")


def test_the_raw_limit_of_a_command_notices_that_it_failed() -> None:
    with pytest.raises(RuntimeError, match="failed"):
        raw.spawn(raw.program(["false"]))


@pytest.fixture(scope="module")
def answering() -> Iterator[Target]:
    with target() as found:
        yield found


def test_the_target_answers_each_request_of_a_connection_however_it_arrives(answering: Target) -> None:
    request = b"POST / HTTP/1.1\r\nHost: x\r\ncontent-Length: 5\r\n\r\n12345"
    before = time.time_ns()
    with socket.create_connection(("127.0.0.1", urlsplit(answering.url).port or 0), timeout=30) as connection:
        answers = connection.makefile("rb")
        for parts in ([request], [request[:20], request[20:-3], request[-3:]], [b"GET / HTTP/1.1\r\n\r\n"]):
            for part in parts:
                connection.sendall(part)
            status, *headers = [answers.readline() for _ in range(4)]
            assert status == b"HTTP/1.1 200 OK\r\n"
            assert b"Content-Length: 19\r\n" in headers
            assert before < int(answers.read(19)) < time.time_ns()


# --- CPU by process -----------------------------------------------------------------------------------------------

BURN = "import time\nwhile time.process_time() < {}: pass\n"
GUARD = f"""\
import os, subprocess, sys, time
if os.fork():  # the keeper
    os.wait()
    sys.exit()
subprocess.run([sys.executable, "-c", {BURN.format(0.4)!r}], check=True)  # a job that has ended
running = subprocess.Popen([sys.executable, "-c", {BURN.format(0.4) + "print(flush=True); input()"!r}], stdin=0)
running.wait()
"""


@contextlib.contextmanager
def worker_with_guard(folder: Path) -> Iterator[int]:
    """Start a process whose child is a guard, with a job that has ended and one that runs. Return its process id."""
    (folder / "guard_program.py").write_text(GUARD)
    command = f"import subprocess, sys; subprocess.run([sys.executable, {str(folder / 'guard_program.py')!r}])"
    worker = subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert worker.stdout is not None
        worker.stdout.readline()  # both jobs have used their CPU time
        yield worker.pid
    finally:
        worker.communicate(b"\n")


def test_the_cpu_time_of_job_processes_is_not_that_of_the_guard(tmp_path: Path) -> None:
    with worker_with_guard(tmp_path) as worker:
        guard, children = costs.below(worker)
    assert children >= 0.75
    assert guard < 0.4
