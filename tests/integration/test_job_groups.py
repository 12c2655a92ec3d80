"""Control groups of jobs, through a real guard, where the system allows the tests to create some."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from tests.unit.executing import RecordedAttempt
from timeball.domain.dispatch.placement import Resources
from timeball.domain.job.job import JobSpec
from timeball.domain.run.lifecycle import Failed, Succeeded
from timeball.domain.task.task import Shell
from timeball.executors.guard import guard as guard_module
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.process.process import Processes
from timeball.executors.sandbox import cgroups, job_groups
from timeball.executors.sandbox.confinement import Confinement
from timeball.executors.shell import ShellExecutor
from timeball.ports.executor import OutOfResources

SCENE = Path(__file__).with_name("descendants_scene.py")


def may_make(hierarchy: str) -> bool:
    folder = cgroups.own_groups().get(hierarchy)
    try:
        os.mkdir(f"{folder}/timeball-test-{os.getpid()}")
        os.rmdir(f"{folder}/timeball-test-{os.getpid()}")
    except OSError:
        return False
    return folder is not None


NEEDS_UNIFIED = pytest.mark.skipif(not may_make("unified"), reason="may not make control groups of version 2")
NEEDS_PIDS = pytest.mark.skipif(not may_make("pids"), reason="may not make control groups of version 1 (pids)")
NEEDS_MEMORY = pytest.mark.skipif(not may_make("memory"), reason="may not make control groups of version 1 (memory)")
pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("guard_program")]


@pytest.fixture
async def guard() -> AsyncIterator[ProcessGuard]:
    guard = ProcessGuard(Confinement(cgroups=True))
    yield guard
    await guard.close()


async def run(guard: ProcessGuard, command: str | list[str], memory_mb: int = 0) -> tuple[object, str]:
    attempt = RecordedAttempt(Shell(command=command))
    if memory_mb:
        attempt.spec = JobSpec(task=attempt.task, resources=Resources(memory_mb=memory_mb))
    outcome = await ShellExecutor(Processes(guard)).execute(attempt)
    return outcome, "".join(text for _, text in attempt.chunks)


def play(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCENE), name, str(folder), str(guard_module.PROGRAM)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def own(hierarchy: str) -> Path:
    return Path(cgroups.own_groups()[hierarchy])


def groups(hierarchy: str, worker: int | None = None) -> set[Path]:
    return set(own(hierarchy).glob(f"timeball-*-{worker or os.getpid()}-*"))


@NEEDS_UNIFIED
def test_a_job_that_kills_guard_and_keeper_does_not_escape(tmp_path: Path) -> None:
    """I7: no process of a job runs beside its second attempt, whatever it did to its session and environment."""
    done = play("both_killed", tmp_path)
    assert done.returncode == 0, done
    assert json.loads(done.stdout) == [True, False, 0]


@NEEDS_UNIFIED
async def test_a_job_that_kills_its_worker_too_ends_when_the_next_worker_starts(
    tmp_path: Path, guard: ProcessGuard
) -> None:
    """I7: likewise."""
    await asyncio.to_thread(play, "all_killed", tmp_path)
    agent = psutil.Process(int(await asyncio.to_thread((tmp_path / "name").read_text)))
    assert agent.is_running()
    assert (await run(guard, "true"))[0] == Succeeded()
    while agent.is_running() and agent.status() != psutil.STATUS_ZOMBIE:
        await asyncio.sleep(0.01)


@NEEDS_UNIFIED
async def test_groups_are_made_and_removed(guard: ProcessGuard) -> None:
    assert (await run(guard, "true"))[0] == Succeeded()
    _, said = await run(guard, "cat /proc/self/cgroup")
    [group] = groups("unified")
    assert f"/{group.name}/guard\n" in said
    await guard.close()
    assert not groups("unified")


@NEEDS_UNIFIED
def test_groups_are_removed_when_the_worker_is_killed(tmp_path: Path) -> None:
    worker = subprocess.Popen([sys.executable, str(SCENE), "worker_killed", str(tmp_path), str(guard_module.PROGRAM)])
    assert worker.wait() == -signal.SIGKILL
    until = time.monotonic() + 5
    while left := {each for name in cgroups.own_groups() for each in groups(name, worker.pid)}:
        assert time.monotonic() < until, left
        time.sleep(0.02)


async def test_no_group_is_made_where_it_is_said() -> None:
    guard = ProcessGuard(Confinement(cgroups=False))
    assert "timeball-" not in (await run(guard, "cat /proc/self/cgroup"))[1]
    await guard.close()


HOG = "import sys; kept = bytearray(int(sys.argv[1]) << 20); kept[::4096] = b'x' * len(kept[::4096]); print(len(kept))"


@NEEDS_MEMORY
async def test_a_job_gets_no_more_memory_than_it_asked_for(guard: ProcessGuard) -> None:
    """SPEC 4: one job's memory never touches another."""
    hog = [sys.executable, "-I", "-S", "-c", HOG]
    outcome, said = await run(guard, [*hog, "200"], memory_mb=64)
    assert isinstance(outcome, Failed)
    assert outcome.failure.exit_code == 137
    assert said == "out of memory: the job used more than the 64 MiB of its resources\n"
    assert await run(guard, [*hog, "20"], memory_mb=64) == (Succeeded(), f"{20 << 20}\n")
    assert await run(guard, [*hog, "200"]) == (Succeeded(), f"{200 << 20}\n")
    [group] = groups("memory")
    assert not list(group.glob("job-*"))


@NEEDS_MEMORY
async def test_what_a_limited_job_detached_is_within_its_limit_and_ends_with_it(guard: ProcessGuard) -> None:
    detach = "setsid -f sh -c 'cat /proc/self/cgroup > groups; sleep 600'"
    wait = "while ! grep -s job- groups; do sleep 0.01; done"
    assert (await run(guard, f"{detach}; {wait}", memory_mb=64))[0] == Succeeded()
    [group] = groups("memory")
    assert not list(group.glob("job-*"))


BOMB = """
import os, time
made = 0
try:
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(600)
        made += 1
except BlockingIOError:
    print("refused", made < 100, flush=True)
time.sleep(600)
"""


@NEEDS_PIDS
async def test_a_fork_bomb_runs_into_the_limit_of_its_worker(guard: ProcessGuard) -> None:
    """SPEC 4, I29: the machine is not full of its processes; a job that cannot be started costs no attempt."""
    assert (await run(guard, "true"))[0] == Succeeded()
    [group] = groups("pids")
    assert int((group / "pids.max").read_text()) == job_groups.max_processes(str(group.parent))
    (group / "pids.max").write_text("60")  # a bomb that is bounded also if this fails
    attempt = RecordedAttempt(Shell(command=[sys.executable, "-I", "-S", "-c", BOMB]), token=18)
    bomb = asyncio.create_task(ShellExecutor(Processes(guard)).execute(attempt))
    while not attempt.text():
        await asyncio.sleep(0.01)
    assert attempt.text() == "refused True\n"
    with pytest.raises(OutOfResources):
        await run(guard, "true")
    attempt.cancel(force=True)
    await bomb
    assert (await run(guard, "true"))[0] == Succeeded()
