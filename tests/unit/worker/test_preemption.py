"""Preempted attempts in a worker: for how long they give up their slots, and what the worker reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.fake_worker_protocol import python
from tests.unit.worker.test_worker import Bench, working
from timeball.domain.dispatch import preemption
from timeball.domain.instant import MILLISECOND, SECOND
from timeball.domain.run.lifecycle import Cancelled, Failed, Outcome, Released, Succeeded
from timeball.ports.executor import ExecutorAttempt

pytestmark = pytest.mark.timeout(300)


class Stoppable:
    """A process, as far as its worker sees it."""

    def __init__(self, bench: Bench) -> None:
        self.signals: list[str] = []
        self.ends = asyncio.Event()
        self.result: Outcome = Succeeded()
        bench.executor.behaviours["process"] = self.execute

    async def execute(self, attempt: ExecutorAttempt) -> Outcome:
        attempt.on_pause(lambda: self.signals.append("stop"), lambda: self.signals.append("go on"))
        attempt.on_cancel(self.ends.set)
        await self.ends.wait()
        return self.result


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with working(slots=1) as bench:
        yield bench


@pytest.fixture
async def process(bench: Bench) -> Stoppable:
    """The only slot is taken by it."""
    process = Stoppable(bench)
    bench.server.give(python(1, "process", timeout="10m"))
    await bench.server.until(lambda: 1 in bench.server.started)
    return process


def said(bench: Bench) -> list[tuple[int, int, str]]:
    return [(each.token, each.number, each.what) for report in bench.server.reports for each in report.pausing]


async def test_it_stands_still_while_another_has_its_slot_and_then_goes_on(bench: Bench, process: Stoppable) -> None:
    bench.server.order(pause=[(1, 1)])
    await bench.server.until(lambda: bench.server.polls[-1].free == 1)
    assert process.signals == ["stop"]
    assert bench.server.polls[-1].held == [1], "it is still ours"
    bench.server.give(python(2, "wait"))
    await bench.server.until(lambda: 2 in bench.server.started)
    assert process.signals == ["stop"]
    bench.executor.go.set()
    await bench.server.until(lambda: 2 in bench.server.ended)
    await bench.server.until(lambda: len(said(bench)) == 2)
    assert process.signals == ["stop", "go on"]
    assert said(bench) == [(1, 1, "paused"), (1, 1, "resumed")]
    await bench.server.until_polled(lambda poll: poll.free == 0)
    process.ends.set()
    await bench.server.until(lambda: 1 in bench.server.ended)
    assert bench.server.ended[1].outcome == Succeeded()
    await bench.server.until_polled(lambda poll: poll.free == 1)


async def test_an_order_counts_once_however_often_it_comes(bench: Bench, process: Stoppable) -> None:
    for _ in range(3):
        bench.server.order(pause=[(1, 1)])
    bench.server.order(pause=[(7, 1)])
    await bench.server.until(lambda: len(said(bench)) == 1)
    await bench.server.until_polled(lambda poll: poll.free == 1)
    assert process.signals == ["stop"]


async def test_it_goes_on_if_nobody_comes(bench: Bench, process: Stoppable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "UNUSED_SLOTS_TIMEOUT", 30 * MILLISECOND)
    bench.server.order(pause=[(1, 1)])
    await bench.server.until(lambda: len(said(bench)) == 2)
    assert process.signals == ["stop", "go on"]


async def test_it_goes_on_after_a_while_whatever_others_do(
    bench: Bench, process: Stoppable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preemption, "MAX_PREEMPTION_DURATION", 300 * MILLISECOND)
    bench.server.order(pause=[(1, 1)])
    bench.server.give(python(2, "forever"))
    await bench.server.until(lambda: len(said(bench)) == 2)
    assert process.signals == ["stop", "go on"]
    await bench.server.until_polled(lambda poll: (poll.free, poll.held) == (0, [1, 2]))
    bench.server.give(python(3, "noop"))
    await bench.server.until(lambda: 3 in bench.server.ended)
    assert bench.server.ended[3].outcome == Released(), "there is no slot for a third"
    process.ends.set()
    await bench.server.until(lambda: 1 in bench.server.ended)
    await bench.server.until_polled(lambda poll: (poll.free, poll.held) == (0, [2]))


async def test_its_time_out_stands_still_with_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Stoppable(bench)
    monkeypatch.setattr(preemption, "UNUSED_SLOTS_TIMEOUT", 600 * MILLISECOND)
    bench.server.give(python(1, "process", timeout="400ms"))
    await bench.server.until(lambda: 1 in bench.server.started)
    bench.server.order(pause=[(1, 1)])
    await bench.server.until(lambda: 1 in bench.server.ended)
    assert process.signals == ["stop", "go on"], "it went on before its time was over"
    outcome = bench.server.ended[1].outcome
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind == "timeout"
    assert bench.server.ended[1].took >= SECOND


async def test_it_can_be_cancelled(bench: Bench, process: Stoppable) -> None:
    bench.server.order(pause=[(1, 1)])
    bench.server.order(cancel=[1])
    await bench.server.until(lambda: 1 in bench.server.ended)
    assert bench.server.ended[1].outcome == Cancelled()
    await bench.server.until_polled(lambda poll: (poll.free, poll.held) == (1, []))


async def test_what_cannot_be_stopped_is_handed_back(bench: Bench) -> None:
    bench.server.give(python(1, "forever"))
    await bench.server.until(lambda: 1 in bench.server.started)
    bench.server.order(pause=[(1, 1)])
    await bench.server.until(lambda: 1 in bench.server.ended)
    assert bench.server.ended[1].outcome == Released()


async def test_what_succeeds_before_it_could_be_handed_back_has_succeeded(bench: Bench) -> None:
    process = Stoppable(bench)

    async def stubborn(attempt: ExecutorAttempt) -> Outcome:
        attempt.on_cancel(lambda: None)
        await process.ends.wait()
        return Succeeded()

    bench.executor.behaviours["stubborn"] = stubborn
    bench.server.give(python(1, "stubborn"))
    await bench.server.until(lambda: 1 in bench.server.started)
    bench.server.order(pause=[(1, 1)])
    await bench.server.until_polled(lambda poll: poll.seq > 3)
    process.ends.set()
    await bench.server.until(lambda: 1 in bench.server.ended)
    assert bench.server.ended[1].outcome == Succeeded()


async def test_what_must_not_be_repeated_says_no(bench: Bench) -> None:
    bench.server.give(python(1, "wait", delivery="at_most_once"))
    await bench.server.until(lambda: 1 in bench.server.started)
    bench.server.order(pause=[(1, 1)])
    await bench.server.until(lambda: bool(said(bench)))
    assert said(bench) == [(1, 1, "refused")]
    bench.executor.go.set()
    await bench.server.until(lambda: 1 in bench.server.ended)
    assert bench.server.ended[1].outcome == Succeeded()


async def test_a_worker_that_leaves_lets_it_go_on_and_end(bench: Bench, process: Stoppable) -> None:
    bench.server.order(pause=[(1, 1)])
    await bench.server.until(lambda: process.signals == ["stop"])
    draining = asyncio.create_task(bench.worker.drain(10 * SECOND))
    await bench.server.until(lambda: process.signals == ["stop", "go on"])
    assert not draining.done(), "it waits for it"
    process.ends.set()
    await draining
    assert bench.server.ended[1].outcome == Succeeded()
