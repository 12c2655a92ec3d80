"""The worker with real processes behind a real guard. The tests play the server."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from msgspec import Raw, json, structs

from tests.support.fake_worker_protocol import FakeDispatch, assignment, python
from tests.unit import warm_tasks
from timeball.domain.errors import Unavailable
from timeball.domain.instant import MILLISECOND, SECOND
from timeball.domain.run.lifecycle import Cancelled, Failed, Released, Succeeded
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.process.process import Processes
from timeball.executors.python.executor import PythonExecutor
from timeball.executors.python.warm.processes import PythonProcesses
from timeball.executors.shell import ShellExecutor
from timeball.ports.executor import Executor
from timeball.ports.worker_protocol import Assignment, RegisterWorker
from timeball.system import SystemClock, rng
from timeball.tasks import REGISTRY
from timeball.worker.worker import Worker

pytestmark = pytest.mark.timeout(300)

assert warm_tasks, "registered"


class Crew:
    def __init__(self, *, lease: int = 15 * SECOND, beat_every: int = 5 * SECOND) -> None:
        self.server = FakeDispatch(lease=lease, beat_every=beat_every)
        self.guard = ProcessGuard()
        processes = Processes(self.guard)
        self.warm = PythonProcesses(processes, max_children=4)
        executors: dict[str, Executor] = {
            "shell": ShellExecutor(processes),
            "python": PythonExecutor(REGISTRY, slots=10, process_mode=self.warm),
        }
        hello = RegisterWorker(name="w", slots=10)
        self.worker = Worker(self.server, executors, SystemClock(), hello, rng=rng(), guard=self.guard)

    def processes(self) -> list[psutil.Process]:
        """Those that run; the dead may wait for a moment to be counted by the guard."""
        found = psutil.Process(self.guard.pid).children(recursive=True) if self.guard.pid is not None else []
        return [process for process in found if process.is_running() and _status(process) != psutil.STATUS_ZOMBIE]

    async def close(self) -> None:
        await self.worker.stop()
        await self.warm.close()
        await self.guard.close()


def _status(process: psutil.Process) -> str:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return psutil.STATUS_ZOMBIE


@pytest.fixture
async def crew() -> AsyncIterator[Crew]:
    crew = Crew()
    await crew.worker.start()
    yield crew
    await crew.close()


def shell(token: int, command: str, **spec: object) -> Assignment:
    return assignment(token, {"kind": "shell", "command": command}, **spec)


STUBBORN = "trap '' TERM; echo up; sleep 600 & sleep 600; sleep 600"


async def test_a_run_leaves_its_output_and_its_outcome(crew: Crew) -> None:
    crew.server.give(shell(1, "echo ::progress 40 nearly; echo oh >&2; exit 3"), shell(2, "echo fine"))
    await crew.server.until(lambda: len(crew.server.ended) == 2)
    assert crew.server.text(1, "stdout") == "::progress 40 nearly\n"
    assert crew.server.text(1, "stderr") == "oh\n"
    assert [(p.fraction, p.note) for p in crew.server.progress] == [(0.4, "nearly")]
    failed = crew.server.ended[1].outcome
    assert isinstance(failed, Failed)
    assert failed.failure.exit_code == 3
    assert crew.server.ended[2].outcome == Succeeded()


async def test_cancel_ends_a_process_group_that_ignores_sigterm(crew: Crew) -> None:
    crew.server.give(shell(1, STUBBORN, grace="300ms"))
    await crew.server.until(lambda: crew.server.text(1) == "up\n")
    crew.server.order(cancel=[1])
    await crew.server.until(lambda: 1 in crew.server.ended)
    assert crew.server.ended[1].outcome == Cancelled()
    assert crew.server.ended[1].took < 60 * SECOND
    await crew.server.until(lambda: not crew.processes())


async def test_a_kill_ends_a_group_at_once_whatever_its_grace(crew: Crew) -> None:
    crew.server.give(shell(1, STUBBORN, grace="1h"), shell(2, STUBBORN, grace="1h"))
    await crew.server.until(lambda: crew.server.text(1) == crew.server.text(2) == "up\n")
    crew.server.order(cancel=[1])
    crew.server.order(kill=[1, 2])
    await crew.server.until(lambda: len(crew.server.ended) == 2)
    assert [crew.server.ended[token].outcome for token in (1, 2)] == [Cancelled(), Cancelled()]
    await crew.server.until(lambda: not crew.processes())


async def test_a_timeout_ends_the_group(crew: Crew) -> None:
    crew.server.give(shell(1, STUBBORN, timeout="300ms", grace="100ms"))
    await crew.server.until(lambda: 1 in crew.server.ended)
    outcome = crew.server.ended[1].outcome
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind == "timeout"
    await crew.server.until(lambda: not crew.processes())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a subreaper")
async def test_a_process_of_functions_executes_runs_of_one_tenant(crew: Crew) -> None:
    """I24: globals, files and variables of a run are not visible to another tenant."""
    tenants = {1: DEFAULT_TENANT, 2: "acme", 3: DEFAULT_TENANT, 4: "acme"}
    seen = {}
    for token, tenant in tenants.items():
        crew.server.give(structs.replace(python(token, "warm.call"), tenant=tenant))
        await crew.server.until(lambda token=token: token in crew.server.ended)
        outcome = crew.server.ended[token].outcome
        assert isinstance(outcome, Succeeded), outcome
        assert isinstance(outcome.result, Raw)
        seen[token] = json.decode(outcome.result)
    assert seen[1]["pid"] == seen[3]["pid"] != seen[2]["pid"] == seen[4]["pid"]
    assert [each["calls"] for each in seen.values()] == [1, 1, 2, 2]
    assert seen[1]["folder"] == seen[3]["folder"] != seen[2]["folder"]


async def test_a_drain_stops_and_hands_back(crew: Crew) -> None:
    crew.server.give(shell(1, STUBBORN, grace="100ms"), shell(2, "echo up; sleep 0.3; echo done"))
    await crew.server.until(lambda: bool(crew.server.text(1) and crew.server.text(2)))
    await crew.worker.drain(2 * SECOND)
    assert crew.server.ended[1].outcome == Released()
    assert crew.server.ended[2].outcome == Succeeded()
    assert crew.server.goodbyes == ["w_1"]
    await crew.server.until(lambda: not crew.processes())


async def test_processes_are_gone_when_beats_stay_unanswered(tmp_path: Path) -> None:
    crew = Crew(lease=1_500 * MILLISECOND, beat_every=100 * MILLISECOND)
    await crew.worker.start()
    try:
        crew.server.give(shell(1, STUBBORN))
        await crew.server.until(lambda: crew.server.text(1) == "up\n")
        for call in ("beat", "hello"):
            crew.server.failing[call] = lambda: Unavailable("away")
        await crew.server.until(lambda: len(crew.server.hellos) >= 2 and not crew.processes())
        assert 1 not in crew.server.ended
        crew.server.failing.clear()
        crew.server.give(shell(2, "echo again"))
        await crew.server.until(lambda: 2 in crew.server.ended)
        assert crew.server.ended[2].outcome == Succeeded()
    finally:
        await crew.close()


async def test_a_flood_is_cut_in_the_middle(crew: Crew) -> None:
    crew.server.give(shell(1, "yes 0123456789 | head -c 30000000; echo the end"))
    await crew.server.until(lambda: 1 in crew.server.ended)
    text = crew.server.text(1)
    assert text.startswith("0123456789\n")
    assert text.endswith("the end\n")
    assert "bytes of output were dropped here" in text
    assert len(text) < 600 * 1024
    assert [chunk.seq for chunk in crew.server.logs(1)] == list(range(len(crew.server.logs(1))))
