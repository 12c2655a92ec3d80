"""Timeball as the first process of a container (PID 1)."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.ordinary_user import NEEDS_ROOT

pytestmark = [
    NEEDS_ROOT,
    pytest.mark.skipif(shutil.which("nsenter") is None, reason="needs unshare and nsenter"),
    pytest.mark.timeout(300),
]

NEW_NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    if subprocess.run([*NEW_NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("may not make a namespace of processes")


def until(condition: Callable[[], object]) -> None:
    ends = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.02)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    arguments = ["--port", "0", "--data-dir", str(tmp_path / "data"), "--no-job-landlock"]
    process = subprocess.Popen(
        [*NEW_NAMESPACE, sys.executable, "-m", "timeball", "up", *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert "Timeball is up" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_first_process_reaps_orphans_and_passes_signals_on(up: subprocess.Popen[str]) -> None:
    """As `docker exec` and health checks leave them."""
    [first] = psutil.Process(up.pid).children()
    before = {each.pid for each in first.children()}
    for _ in range(3):
        subprocess.run(["nsenter", "-t", str(first.pid), "-p", "sh", "-c", "sleep 0.05 &"], check=True)
    until(lambda: {each.pid for each in first.children()} <= before)
    first.send_signal(signal.SIGTERM)
    assert up.wait(30) == 0


EXIT_CODES = """
import asyncio, os, subprocess, sys, uvloop
from timeball.bootstrap import init_process

init_process.stay_as_init()
assert os.getpid() != 1, "the first process stays behind"

async def main():
    codes = []
    for number in range(1, 6):
        orphan = "(sleep 0.01; exit 99) & exit "
        codes.append(subprocess.run(["sh", "-c", f"{orphan} {number}"]).returncode)
        process = await asyncio.create_subprocess_exec("sh", "-c", f"{orphan} {number + 10}")
        codes.append(await process.wait())
        late = subprocess.Popen(["sh", "-c", f"exit {number + 20}"])
        await asyncio.sleep(0.02)
        codes.append(late.wait())
    return codes

print((uvloop.run if sys.argv[1] == "uvloop" else asyncio.run)(main()), flush=True)
os._exit(7) if sys.argv[2] == "exit" else os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(("loop", "end", "status"), [("uvloop", "exit", 7), ("asyncio", "kill", 128 + 9)])
def test_no_exit_code_is_taken_away(loop: str, end: str, status: int) -> None:
    """I30: the reaping of orphans takes the status of no process that Timeball or a function waits for."""
    done = subprocess.run(
        [*NEW_NAMESPACE, sys.executable, "-c", EXIT_CODES, loop, end], capture_output=True, text=True, check=False
    )
    expected = [code for number in range(1, 6) for code in (number, number + 10, number + 20)]
    assert (done.stdout, done.returncode) == (f"{expected}\n", status), done
