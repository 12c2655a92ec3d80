"""No job process lives longer than its worker may execute it, whatever happens to the worker or the guard."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.guard_programs import variant
from tests.unit.executing import RecordedAttempt
from timeball.domain.run.lifecycle import Failed, Succeeded
from timeball.domain.task.task import Shell
from timeball.executors.guard import guard as guard_module
from timeball.executors.guard.guard import Child, ProcessGuard, StartRefused
from timeball.executors.process.process import Processes
from timeball.executors.shell import ShellExecutor
from timeball.system import monotonic

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's subreaper"),
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("guard_program"),
]

NAMES = ("shell", "child", "parent", "daemon")
LONG = 600_000


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


async def until(condition: Callable[[], object]) -> None:
    while True:
        if condition():
            return
        await asyncio.sleep(0.01)


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


class Scene:
    """A worker with its guard and its jobs."""

    def __init__(self, folder: Path, lease_ms: int, program: Path) -> None:
        self.folder = folder
        (folder / "scratch").mkdir()
        (folder / "scratch" / "file").touch()
        self.worker = subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).with_name("guarded_worker.py")),
                str(folder),
                str(lease_ms),
                str(program),
            ],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.worker.stdout is not None
        self.guard = int(self.worker.stdout.readline())
        wait_for(lambda: all(self._has(name) for name in NAMES))
        self.jobs = {name: int((folder / name).read_text()) for name in NAMES}

    def _has(self, name: str) -> bool:
        path = self.folder / name
        return path.exists() and path.read_text().endswith("\n")

    def survivors(self) -> list[str]:
        return [name for name, pid in self.jobs.items() if runs(pid)]

    def said(self) -> str:
        assert self.worker.stdout is not None
        return self.worker.stdout.readline().strip()

    def close(self) -> None:
        for pid in (self.worker.pid, self.guard, *self.jobs.values()):
            if runs(pid):
                os.kill(pid, signal.SIGKILL)
        self.worker.wait()
        assert self.worker.stdout is not None
        self.worker.stdout.close()


@pytest.fixture
def scene(tmp_path: Path, request: pytest.FixtureRequest, guard_program: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path, getattr(request, "param", LONG), guard_program)
    try:
        yield scene
    finally:
        scene.close()


def test_a_killed_worker_takes_its_jobs_with_it(scene: Scene) -> None:
    assert scene.survivors() == list(NAMES)
    scene.worker.kill()
    wait_for(lambda: not scene.survivors())
    wait_for(lambda: not runs(scene.guard))
    assert not (scene.folder / "scratch").exists()


def test_an_interrupt_of_the_terminal_reaches_neither_guard_nor_jobs(scene: Scene) -> None:
    os.killpg(scene.worker.pid, signal.SIGINT)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(scene.guard, number)
    scene.worker.wait()
    # Now the worker is gone, in its own time, and the rest follows.
    wait_for(lambda: not scene.survivors() and not runs(scene.guard))


@pytest.mark.parametrize("scene", [3_000], indirect=True)
def test_a_stopped_worker_loses_its_jobs_when_the_deadline_passes(scene: Scene) -> None:
    os.kill(scene.worker.pid, signal.SIGSTOP)
    wait_for(lambda: not scene.survivors())
    assert runs(scene.guard), "the worker may come back"
    os.kill(scene.worker.pid, signal.SIGCONT)
    assert scene.said() == "9 9"
    assert scene.worker.wait() == 0
    wait_for(lambda: not runs(scene.guard))


@pytest.mark.parametrize("scene", [3_000], indirect=True)
def test_a_guard_that_was_stopped_too_kills_on_waking(scene: Scene) -> None:
    began = time.monotonic()
    os.kill(scene.worker.pid, signal.SIGSTOP)
    os.kill(scene.guard, signal.SIGSTOP)
    time.sleep(max(0.0, began + 3.2 - time.monotonic()))
    assert scene.survivors() == list(NAMES)
    os.kill(scene.guard, signal.SIGCONT)
    wait_for(lambda: not scene.survivors())


def test_jobs_die_with_their_guard_and_the_worker_learns_of_it(scene: Scene) -> None:
    os.kill(scene.guard, signal.SIGKILL)
    assert scene.said() == "GuardDied GuardDied"
    wait_for(lambda: not scene.survivors())


async def test_a_new_guard_replaces_a_dead_one() -> None:
    guard = ProcessGuard()
    shell = ShellExecutor(Processes(guard))
    attempt = RecordedAttempt(Shell(command="echo up; sleep 600"))
    executing = asyncio.create_task(shell.execute(attempt))
    await until(attempt.text)
    first = guard.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    outcome = await executing
    assert isinstance(outcome, Failed)
    assert (outcome.failure.kind, "guard process died" in outcome.failure.message) == ("worker", True)
    assert await shell.execute(RecordedAttempt(Shell(command="true"))) == Succeeded()
    assert guard.pid != first
    await guard.close()


async def test_nothing_starts_after_the_deadline_until_it_is_renewed() -> None:
    guard = ProcessGuard()
    shell = ShellExecutor(Processes(guard))
    guard.renew(monotonic() - 1)
    outcome = await shell.execute(RecordedAttempt(Shell(command="true")))
    assert isinstance(outcome, Failed)
    assert outcome.failure.message == "not started: the worker's lease had lapsed"
    guard.renew(monotonic() + 60_000_000)
    assert await shell.execute(RecordedAttempt(Shell(command="true"))) == Succeeded()
    await guard.close()


async def test_kill_all_ends_everything_and_the_guard_goes_on() -> None:
    guard = ProcessGuard()
    shell = ShellExecutor(Processes(guard))
    attempts = [RecordedAttempt(Shell(command="trap '' TERM; sleep 600 & sleep 600"), token=n) for n in range(5)]
    executing = [asyncio.create_task(shell.execute(attempt)) for attempt in attempts]
    await asyncio.sleep(0.2)
    guard.kill_all()
    for outcome in await asyncio.gather(*executing):
        assert isinstance(outcome, Failed)
        assert outcome.failure.exit_code == 137
    assert await shell.execute(RecordedAttempt(Shell(command="true"))) == Succeeded()
    await guard.close()


async def test_a_fork_bomb_is_put_out() -> None:
    """Bounded, so that a failure of this test does not take the machine with it."""
    guard = ProcessGuard()
    shell = ShellExecutor(Processes(guard))
    bomb = "import os, time\nfor _ in range(7): os.fork()\nos.setsid() if os.getpid() != os.getsid(0) else None\n"
    attempt = RecordedAttempt(Shell(command=[sys.executable, "-c", bomb + "print('.', flush=True); time.sleep(600)"]))
    executing = asyncio.create_task(shell.execute(attempt))
    await until(lambda: attempt.text().count(".") >= 128)
    attempt.cancel(force=True)
    await executing
    assert guard.pid is not None
    watched = psutil.Process(guard.pid)
    await until(lambda: not watched.children(recursive=True))
    await guard.close()


HANG = """
import time
from timeball.executors.guard import job_start
become = job_start.become
def hang(message, *arguments, **settings):
    if message["argv"][0] == "hangs":
        time.sleep(600)
    become(message, *arguments, **settings)
job_start.become = hang
"""
"""A job named "hangs", whose start blocks in a forked process, as on a file server that does not answer."""


async def test_a_job_that_hangs_before_its_program_begins_blocks_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(guard_module, "PROGRAM", variant(tmp_path / "guard_program.py", HANG))
    guard = ProcessGuard()
    try:
        await check_that_others_start(guard, "hangs")
    finally:
        await guard.close()


@contextlib.contextmanager
def blocked_program(path: Path) -> Iterator[str]:
    """A program whose execution blocks. It has a lease, which the kernel waits for when another process opens it."""
    program = shutil.copy(shutil.which("sleep") or "", path)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    descriptor = os.open(program, os.O_RDONLY)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield str(program)
    finally:
        os.close(descriptor)
        signal.signal(signal.SIGIO, before)


async def test_a_job_whose_program_cannot_be_opened_for_long_blocks_no_other(tmp_path: Path) -> None:
    guard = ProcessGuard()
    try:
        with blocked_program(tmp_path / "program") as program:
            await check_that_others_start(guard, program)
    finally:
        await guard.close()


async def test_a_job_whose_program_can_be_opened_late_starts_late(tmp_path: Path) -> None:
    guard = ProcessGuard()
    try:
        with blocked_program(tmp_path / "program") as program:
            late, stopped = [spawn(guard, program, "0.01") for _ in range(2)]
            assert await spawn(guard, "true").exited == 0
            assert (late.pid, late.exited.done()) == (None, False)
            stopped.signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await late.exited == 0
            assert await stopped.exited == signal.SIGTERM
    finally:
        await guard.close()


async def test_a_blocked_job_can_be_killed(tmp_path: Path) -> None:
    guard = ProcessGuard()
    try:
        with blocked_program(tmp_path / "program") as program:
            blocked = spawn(guard, program, "600")
            assert await spawn(guard, "true").exited == 0
            async with asyncio.timeout(60):
                while not blocked.exited.done():
                    blocked.kill()
                    await asyncio.sleep(0.01)
            assert await blocked.exited == signal.SIGKILL
    finally:
        await guard.close()


def spawn(guard: ProcessGuard, *argv: str) -> Child:
    return guard.spawn(argv, env={"PATH": os.defpath}, cwd="/", mark=f"MARK={argv}", descriptors=[])


async def check_that_others_start(guard: ProcessGuard, hangs: str) -> None:
    """Check that the guard starts, signals and ends other jobs while one does not start, and kills all of them when
    its deadline passes.
    """
    guard.renew(monotonic() + LONG * 1_000)
    before, hanging = spawn(guard, "sleep", "600"), spawn(guard, hangs)
    signalled, after = spawn(guard, "sleep", "500"), spawn(guard, "true")
    refused = spawn(guard, "no-such-program")
    signalled.signal(signal.SIGTERM)
    async with asyncio.timeout(60):
        assert await after.exited == 0
        assert await signalled.exited == signal.SIGTERM
        with pytest.raises(StartRefused):
            await refused.exited
        assert before.pid is not None
        assert (hanging.pid, hanging.exited.done(), before.exited.done()) == (None, False, False)
        guard.renew(monotonic() + 300_000)
        assert await before.exited == signal.SIGKILL
        assert await hanging.exited == signal.SIGKILL
