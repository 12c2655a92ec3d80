"""The work per job of each kind, from the claim to the settled outcome, counted: a test that measures time would not
notice if a batch became single messages, statements or tasks."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

from bench.kinds.target import target
from tests.support.builders import one_shot
from tests.unit import warm_tasks
from timeball.api.routes import worker_protocol
from timeball.domain.run.lifecycle import Outcome, Succeeded
from timeball.domain.task.task import Http, Python, Script, Shell, Task
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.http.executor import HttpExecutor
from timeball.executors.process.process import Processes
from timeball.executors.python.executor import PythonExecutor
from timeball.executors.python.warm.processes import PythonProcesses
from timeball.executors.script import ScriptExecutor
from timeball.executors.shell import ShellExecutor
from timeball.jobspec import json_input
from timeball.operation.context import OperationContext
from timeball.operation.runs.settle import Settle
from timeball.ports.executor import Executor
from timeball.ports.worker_protocol import Ended, RegisterWorker, Report, ReportAck
from timeball.server.loops.dispatcher import Dispatcher
from timeball.server.wakeups import LocalWakeups
from timeball.server.worker_gateway.gateway import WorkerGateway
from timeball.stores.sqlite.store import SqliteStore
from timeball.system import SystemClock, monotonic, wall
from timeball.tasks import Registry
from timeball.worker.worker import Worker

JOBS = 1_000
PROCESS_JOBS = 200
MAX_CHILDREN = 2


class StillClock(SystemClock):
    """No time passes while a worker looks: however slow the machine, it does in one turn what it can."""

    def monotonic(self) -> int:
        return 0


class Counted:
    """Counts the calls of some methods of another object."""

    def __init__(self, what: Any, counts: Counter[str], *names: str) -> None:
        self._what = what
        self._counts = counts
        self._names = names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._what, name)
        if name not in self._names:
            return found

        async def call(*args: Any, **named: Any) -> Any:
            self._counts[name] += 1
            return await found(*args, **named)

        return call


Executing = Callable[[Registry, int], AbstractAsyncContextManager[tuple[Task, Executor]]]
"""Returns a task that does nothing, and the executor for it, with that many slots."""


async def drain(slots: int, executing: Executing, jobs: int = JOBS) -> Counter[str]:
    """What it took to execute a backlog of jobs that do nothing."""
    counts: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        store = SqliteStore(":memory:", wall=wall, monotonic=monotonic, inline=True)
        await store.open()
        task, executor = await stack.enter_async_context(executing(Registry(), slots))
        now = store.now()
        await store.submit([one_shot(now, task=task) for _ in range(jobs)])
        wakeups = LocalWakeups(lambda _: None)
        counted = Counted(store, counts, "claim", "settle", "note", "give_back", "next_eligible_at")
        context = OperationContext(counted, SystemClock(), random.Random(1), wakeups)  # type: ignore[arg-type]
        gateway = WorkerGateway(context, Settle(context))
        dispatcher = Dispatcher(context, wakeups, gateway)
        done = asyncio.Event()
        reporting = Reporting(gateway, counts, jobs, done)
        hello = RegisterWorker(name="w", slots=slots)
        worker = Worker(reporting, {executor.kind: executor}, StillClock(), hello, rng=random.Random(2))
        _count_callbacks(counts)
        dispatcher.start()
        await worker.start()
        async with asyncio.timeout(60):
            await done.wait()
            await worker.stop()
        await dispatcher.stop()
        assert reporting.failed == []
        assert not await store.holding(worker.session or "")
        await store.close()
    return counts


class Reporting(Counted):
    """Counts polls and reports, and knows when all jobs have ended."""

    def __init__(self, gateway: WorkerGateway, counts: Counter[str], jobs: int, done: asyncio.Event) -> None:
        super().__init__(gateway, counts, "poll")
        self._gateway = gateway
        self._left = jobs
        self.failed: list[Outcome] = []
        self._done = done

    async def report(self, report: Report) -> ReportAck:
        self._counts["report"] += 1
        self.failed += [ended.outcome for ended in report.ended if not isinstance(ended.outcome, Succeeded)]
        self._left -= len(report.ended)
        if not self._left:
            self._done.set()
        return await self._gateway.report(report)


async def _noop() -> None:
    pass


def _plain_noop() -> None:
    pass


@asynccontextmanager
async def coroutines(registry: Registry, slots: int) -> AsyncIterator[tuple[Task, Executor]]:
    registry.add(_noop, "noop")
    yield Python(function="noop"), PythonExecutor(registry, slots=slots)


@asynccontextmanager
async def threads(registry: Registry, slots: int) -> AsyncIterator[tuple[Task, Executor]]:
    registry.add(_plain_noop, "noop")
    executor = PythonExecutor(registry, slots=slots)
    yield Python(function="noop"), executor
    executor.close()


@asynccontextmanager
async def http_calls(registry: Registry, slots: int) -> AsyncIterator[tuple[Task, Executor]]:
    executor = HttpExecutor()
    with target() as found:
        yield Http(url=found.url), executor
        await executor.close()


class Processing:
    """Executors of processes, whose messages to the guard and from it are counted."""

    def __init__(self) -> None:
        self.messages: Counter[str] = Counter()

    @asynccontextmanager
    async def _processes(self) -> AsyncIterator[Processes]:
        guard = ProcessGuard()
        send, heard = guard._send, guard._heard

        def counted_send(message: dict[str, Any], descriptors: list[int]) -> None:
            self.messages[f"to do {message['do']}"] += 1
            send(message, descriptors)

        def counted_heard(message: dict[str, Any]) -> None:
            self.messages[f"did {message['did']}"] += 1
            heard(message)

        with mock.patch.multiple(guard, _send=counted_send, _heard=counted_heard):
            yield Processes(guard)
            await guard.close()

    @asynccontextmanager
    async def commands(self, registry: Registry, slots: int) -> AsyncIterator[tuple[Task, Executor]]:
        async with self._processes() as processes:
            yield Shell(command=["true"]), ShellExecutor(processes)

    @asynccontextmanager
    async def scripts(self, registry: Registry, slots: int) -> AsyncIterator[tuple[Task, Executor]]:
        async with self._processes() as processes:
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "nothing.sh").write_text("")
                yield Script(script="nothing.sh"), ScriptExecutor(processes, Path(folder))

    @asynccontextmanager
    async def warm_processes(self, registry: Registry, slots: int) -> AsyncIterator[tuple[Task, Executor]]:
        async with self._processes() as processes:
            warm = PythonProcesses(processes, max_children=MAX_CHILDREN)
            registry.add(warm_tasks.pid, "warm.pid", mode="process")
            yield Python(function="warm.pid"), PythonExecutor(registry, slots=slots, process_mode=warm)
            await warm.close()


def _count_callbacks(counts: Counter[str]) -> None:
    """Each turn of a task, and whatever else the event loop is asked to do, goes through here."""
    loop = asyncio.get_running_loop()
    soon, threadsafe, at = loop.call_soon, loop.call_soon_threadsafe, loop.call_at

    def call_soon(*args: Any, **named: Any) -> asyncio.Handle:
        counts["callbacks"] += 1
        return soon(*args, **named)

    def call_soon_threadsafe(*args: Any, **named: Any) -> asyncio.Handle:
        counts["calls of threads"] += 1
        return threadsafe(*args, **named)

    def call_at(*args: Any, **named: Any) -> asyncio.TimerHandle:
        counts["timers"] += 1
        return at(*args, **named)

    loop.call_at = call_at  # type: ignore[method-assign]
    loop.call_soon = call_soon  # type: ignore[method-assign]
    loop.call_soon_threadsafe = call_soon_threadsafe  # type: ignore[method-assign]


async def test_messages_and_statements_come_in_batches_as_large_as_the_slots_allow() -> None:
    counts = await drain(250, coroutines)
    assert counts["poll"] <= 4 + 2
    assert counts["report"] <= 4 + 2
    assert counts["claim"] <= 4 + 2
    assert counts["settle"] <= 4 + 2
    assert counts["note"] == counts["give_back"] == 0


async def test_a_job_that_never_waits_costs_no_turn_of_the_event_loop() -> None:
    counts = await drain(250, coroutines)
    assert counts["callbacks"] < JOBS / 8


async def test_a_plain_function_costs_no_turn_of_the_event_loop() -> None:
    """Also not to hand it to its thread, or to take its outcome."""
    counts = await drain(32, threads)
    assert counts["callbacks"] < JOBS
    assert counts["calls of threads"] < JOBS / 4


async def test_an_http_call_costs_no_task_and_no_timer() -> None:
    counts = await drain(32, http_calls)
    assert counts["callbacks"] < JOBS
    assert counts["timers"] < JOBS / 2
    assert counts["calls of threads"] == 0
    assert max(counts["poll"], counts["report"], counts["claim"], counts["settle"]) < JOBS / 4


@pytest.mark.parametrize("kind", ["commands", "scripts"])
async def test_a_job_process_costs_the_guard_three_messages(kind: str) -> None:
    processing = Processing()
    counts = await drain(32, getattr(processing, kind), PROCESS_JOBS)
    messages = processing.messages
    assert messages["to do spawn"] == messages["did started"] == messages["did exited"] == PROCESS_JOBS
    assert messages.total() <= 3 * PROCESS_JOBS + 4
    assert counts["callbacks"] < 16 * PROCESS_JOBS
    assert max(counts["poll"], counts["report"], counts["claim"], counts["settle"]) <= PROCESS_JOBS + 4


async def test_a_function_in_a_warm_process_costs_the_guard_no_message() -> None:
    processing = Processing()
    counts = await drain(32, processing.warm_processes, PROCESS_JOBS)
    assert processing.messages.total() <= 3 * MAX_CHILDREN + 4
    assert counts["callbacks"] < 8 * PROCESS_JOBS
    assert max(counts["poll"], counts["report"], counts["claim"], counts["settle"]) <= PROCESS_JOBS + 4


def test_a_report_is_not_looked_at_value_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if its ids are made of digits, as many are: that costs twenty times as much as to decode it."""
    ended = [
        Ended(run_id="r_" + "7" * 28, job_id="j_" + "7" * 28, attempt=1, token=token, serial=False, outcome=Succeeded())
        for token in range(JOBS)
    ]
    report = Report(session="w_" + "7" * 28, poll_seq=1, free=1, ended=ended)
    looked = mock.Mock()
    monkeypatch.setattr(json_input, "check_values", looked)
    assert worker_protocol._read_report(msgspec.json.encode(report)) == report
    assert not looked.called
