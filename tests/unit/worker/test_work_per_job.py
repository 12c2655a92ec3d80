"""How much is done per job on the way from the claim to the settled outcome, counted: no timed test notices when a
batch falls apart into single messages, statements or tasks."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import msgspec
import pytest

from tests.support.builders import one_shot
from timeball.api.routes import worker_protocol
from timeball.domain.run.lifecycle import Succeeded
from timeball.domain.task.task import Python
from timeball.executors.python.executor import PythonExecutor
from timeball.jobspec import json_input
from timeball.operation.context import OperationContext
from timeball.operation.runs.settle import Settle
from timeball.ports.worker_protocol import Ended, RegisterWorker, Report
from timeball.server.loops.dispatcher import Dispatcher
from timeball.server.wakeups import LocalWakeups
from timeball.server.worker_gateway.gateway import WorkerGateway
from timeball.stores.sqlite.store import SqliteStore
from timeball.system import SystemClock, monotonic, wall
from timeball.tasks import Registry
from timeball.worker.worker import Worker

JOBS = 1_000


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


async def drain(slots: int) -> Counter[str]:
    """What it took to execute a backlog of jobs that do nothing."""
    counts: Counter[str] = Counter()
    store = SqliteStore(":memory:", wall=wall, monotonic=monotonic, inline=True)
    await store.open()
    now = store.now()
    await store.submit([one_shot(now, task=Python(function="noop")) for _ in range(JOBS)])
    wakeups = LocalWakeups(lambda _: None)
    counted = Counted(store, counts, "claim", "settle", "note", "give_back", "next_eligible_at")
    context = OperationContext(counted, SystemClock(), random.Random(1), wakeups)  # type: ignore[arg-type]
    gateway = WorkerGateway(context, Settle(context))
    dispatcher = Dispatcher(context, wakeups, gateway)
    done = asyncio.Event()
    registry = Registry()
    registry.add(_counting_down(done), "noop")
    worker = Worker(
        Counted(gateway, counts, "poll", "report"),
        {"python": PythonExecutor(registry, slots=slots)},
        StillClock(),
        RegisterWorker(name="w", slots=slots),
        rng=random.Random(2),
    )
    _count_callbacks(counts)
    dispatcher.start()
    await worker.start()
    async with asyncio.timeout(60):
        await done.wait()
        await worker.stop()
    await dispatcher.stop()
    assert not await store.holding(worker.session or "")
    await store.close()
    return counts


def _counting_down(done: asyncio.Event) -> Callable[[], Any]:
    left = JOBS

    async def noop() -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    return noop


def _count_callbacks(counts: Counter[str]) -> None:
    """Each turn of a task, and whatever else the event loop is asked to do, goes through here."""
    loop = asyncio.get_running_loop()
    real = loop.call_soon

    def call_soon(*args: Any, **named: Any) -> asyncio.Handle:
        counts["callbacks"] += 1
        return real(*args, **named)

    loop.call_soon = call_soon  # type: ignore[method-assign]


async def test_messages_and_statements_come_in_batches_as_large_as_the_slots_allow() -> None:
    counts = await drain(slots=250)
    assert counts["poll"] <= 4 + 2
    assert counts["report"] <= 4 + 2
    assert counts["claim"] <= 4 + 2
    assert counts["settle"] <= 4 + 2
    assert counts["note"] == counts["give_back"] == 0


async def test_a_job_that_never_waits_costs_no_turn_of_the_event_loop() -> None:
    counts = await drain(slots=250)
    assert counts["callbacks"] < JOBS / 8


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
