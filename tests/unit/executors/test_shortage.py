"""If a worker lacks a resource to begin an attempt, the run is handed back as not started and keeps its attempts
(I29)."""

from __future__ import annotations

import errno
import os
import resource
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohappyeyeballs
import psutil
import pytest

from tests.support.fake_worker_protocol import FakeDispatch, assignment
from timeball.domain.instant import SECOND
from timeball.domain.run.lifecycle import Failed, Released, Succeeded
from timeball.domain.task.task import Http, Python, Script, Shell, Task
from timeball.executors import lazy_executor
from timeball.executors.guard import guard as guard_module
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.http.executor import HttpExecutor
from timeball.executors.lazy_executor import LazyBackgroundExecutor
from timeball.executors.process import process
from timeball.executors.process.process import Processes
from timeball.executors.python.executor import PythonExecutor
from timeball.executors.python.warm.processes import PythonProcesses
from timeball.executors.script import ScriptExecutor
from timeball.executors.shell import ShellExecutor
from timeball.ports.worker_protocol import Ended, RegisterWorker
from timeball.system import SystemClock, rng
from timeball.tasks import Registry
from timeball.worker.worker import Worker

pytestmark = pytest.mark.timeout(300)
NUMBERS = [errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC]


def blocking() -> int:
    return 1


def rude() -> None:
    raise OSError(errno.EMFILE, "the job's own")


class Bench:
    """A worker with all its executors, and a server that hands out one attempt after the other."""

    def __init__(self, folder: Path) -> None:
        registry = Registry()
        registry.add(blocking, "blocking")
        registry.add(rude, "rude")
        self.guard = ProcessGuard()
        processes = Processes(self.guard)
        self.http = HttpExecutor()
        executors: list[Any] = [
            LazyBackgroundExecutor("http", lambda: self.http),
            ShellExecutor(processes),
            ScriptExecutor(processes, folder),
            PythonExecutor(registry, slots=4, process_mode=PythonProcesses(processes, max_children=4)),
        ]
        self.server = FakeDispatch()
        hello = RegisterWorker(name="w", slots=4)
        by_kind = {each.kind: each for each in executors}
        self.worker = Worker(self.server, by_kind, SystemClock(), hello, rng=rng(), guard=self.guard)
        self.given = 0

    async def run(self, task: Task) -> Ended:
        self.given += 1
        token = self.given
        self.server.give(assignment(token, task))
        await self.server.until(lambda: token in self.server.ended)
        return self.server.ended[token]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    (tmp_path / "job.sh").write_text("cat\n")
    bench = Bench(tmp_path)
    await bench.worker.start()
    yield bench
    await bench.worker.stop()
    await bench.http.close()
    await bench.guard.close()


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def assert_handed_back(ended: Ended) -> None:
    assert isinstance(ended.outcome, Released), ended
    assert 0 < ended.outcome.wait <= 5 * SECOND
    assert ended.age is None, "nothing of it has begun: also a run that is delivered at most once may go on elsewhere"


def descriptors() -> int:
    return psutil.Process().num_fds()


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("where", ["folder", "pipes", "stdin", "guard"])
async def test_what_a_process_needs_first(
    bench: Bench, where: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    task: Task = Script(script="job.sh") if where == "stdin" else Shell(command="true")
    if where != "guard":
        assert isinstance((await bench.run(task)).outcome, Succeeded)
    before = descriptors()
    with monkeypatch.context() as patch:
        match where:
            case "folder":
                patch.setattr(tempfile, "mkdtemp", failing(number))
            case "pipes":
                patch.setattr(os, "pipe", failing(number))
            case "stdin":
                patch.setattr(tempfile, "TemporaryFile", failing(number))
            case "guard":
                patch.setattr(guard_module.subprocess, "Popen", failing(number))
        assert_handed_back(await bench.run(task))
        assert descriptors() <= before
    assert isinstance((await bench.run(task)).outcome, Succeeded)


@contextmanager
def guard_with_spare_descriptors(bench: Bench, spare: int) -> Iterator[None]:
    """The guard process may open no more descriptors than that."""
    assert bench.guard.pid is not None
    used = {int(name) for name in os.listdir(f"/proc/{bench.guard.pid}/fd")}
    limit = next(limit for limit in range(1_000) if len({*range(limit)} - used) == spare and limit > 3)
    before = resource.prlimit(bench.guard.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(bench.guard.pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.prlimit(bench.guard.pid, resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("spare", [0, 1, 2, 3, 4, 5, 6, 7])
async def test_a_guard_without_descriptors_starts_nothing_and_lives(bench: Bench, spare: int) -> None:
    """With the three descriptors of the job, it can start the job if it needs no fork."""
    assert isinstance((await bench.run(Shell(command="true"))).outcome, Succeeded)
    pid = bench.guard.pid
    assert pid is not None
    with guard_with_spare_descriptors(bench, spare):
        ended = await bench.run(Shell(command="true"))
    if spare < 3 or not isinstance(ended.outcome, Succeeded):
        assert_handed_back(ended)
    assert isinstance((await bench.run(Shell(command="true"))).outcome, Succeeded)
    assert bench.guard.pid == pid


async def test_a_thread_that_cannot_be_started(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        for _ in range(6):  # more than there are threads
            assert_handed_back(await bench.run(Python(function="blocking")))
    assert isinstance((await bench.run(Python(function="blocking"))).outcome, Succeeded)


@pytest.mark.parametrize("number", NUMBERS)
async def test_a_connection_that_cannot_be_opened(bench: Bench, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Http(url="http://127.0.0.1:9/x")
    assert isinstance((await bench.run(task)).outcome, Failed)  # it is the target that refuses
    with monkeypatch.context() as patch:
        patch.setattr(aiohappyeyeballs, "start_connection", failing(number))
        assert_handed_back(await bench.run(task))


async def test_an_executor_that_cannot_be_imported_yet(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Http(url="http://127.0.0.1:9/x")
    with monkeypatch.context() as patch:
        patch.setattr(lazy_executor, "in_own_thread", failing(errno.EMFILE))
        assert_handed_back(await bench.run(task))
    assert isinstance((await bench.run(task)).outcome, Failed)


async def test_the_same_errors_of_a_job_itself_are_failures(bench: Bench) -> None:
    assert isinstance((await bench.run(Python(function="rude"))).outcome, Failed)
    said = await bench.run(Shell(command="echo 'Too many open files' >&2; exit 24"))
    assert isinstance(said.outcome, Failed)
    assert isinstance((await bench.run(Shell(command="true", cwd="/nowhere"))).outcome, Failed)
    assert isinstance((await bench.run(Shell(command=["/no/such/program"]))).outcome, Failed)


async def test_a_folder_that_cannot_be_removed_yet_fails_no_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """I30: the job has succeeded."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(process, "in_own_thread", refuse)
    assert isinstance((await bench.run(Shell(command="touch left-behind"))).outcome, Succeeded)


async def test_a_worker_that_lacks_something_takes_nothing_for_a_while(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "mkdtemp", failing(errno.ENOSPC))
    assert_handed_back(await bench.run(Shell(command="true")))
    assert bench.worker.free == 0
    assert bench.server.reports[-1].free == 0
    await bench.server.until(lambda: bench.server.reports[-1].free == 4)
