"""A worker that is ordered to drain: it accepts nothing new, finishes its attempts, reports them, and leaves."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.fake_worker_protocol import python
from tests.unit.worker.test_worker import Bench
from timeball.domain.errors import Unavailable
from timeball.domain.instant import MILLISECOND, SECOND
from timeball.domain.run.lifecycle import Released, Succeeded
from timeball.ports.worker_protocol import PollResponse, SessionLost

pytestmark = pytest.mark.timeout(300)


async def left(bench: Bench) -> None:
    await asyncio.wait_for(bench.worker.wait(), 60)


async def test_what_runs_is_finished_what_waits_is_returned_and_nothing_new_starts() -> None:
    bench = Bench()
    await bench.worker.start()
    bench.server.give(python(1, "wait"), python(2, "noop", delay=60 * SECOND))
    await bench.server.until(lambda: bench.executor.started == [1])
    bench.server.give(python(3, "noop"), drain=True)
    await bench.server.until(lambda: {2, 3} <= bench.server.ended.keys())
    bench.server.give(python(4, "noop"))
    await bench.server.until(lambda: 4 in bench.server.ended)
    assert bench.server.reports[-1].free == 0
    assert bench.server.goodbyes == []
    bench.executor.go.set()
    await left(bench)
    outcomes = {token: ended.outcome for token, ended in bench.server.ended.items()}
    assert outcomes == {1: Succeeded(), 2: Released(), 3: Released(), 4: Released()}
    assert bench.executor.started == [1]
    assert bench.server.goodbyes == ["w_1"]


async def test_a_worker_that_has_nothing_leaves_at_once() -> None:
    bench = Bench()
    await bench.worker.start()
    bench.server.order(drain=True)
    await left(bench)
    assert (bench.executor.started, bench.server.goodbyes) == ([], ["w_1"])
    assert bench.worker.beat_for_stalled_loop() is None, "the heartbeat thread has nothing to do any more"
    await bench.worker.drain(0)
    await bench.worker.stop()
    assert bench.server.goodbyes == ["w_1"]


async def test_a_beat_orders_it_as_well_and_repeated_orders_change_nothing() -> None:
    bench = Bench(beat_every=20 * MILLISECOND)
    await bench.worker.start()
    bench.server.give(python(1, "wait"))
    await bench.server.until(lambda: bench.executor.started == [1])
    bench.server.beat_answer = PollResponse(drain=True)
    beats = len(bench.server.beats)
    await bench.server.until(lambda: len(bench.server.beats) > beats + 3)
    bench.server.order(drain=True)
    assert bench.server.goodbyes == []
    bench.executor.go.set()
    await left(bench)
    assert bench.server.ended[1].outcome == Succeeded()
    assert bench.server.goodbyes == ["w_1"]


async def test_it_leaves_only_after_its_outcomes_were_acknowledged() -> None:
    """I6: nothing that has succeeded is executed once more because its worker left."""
    bench = Bench()
    await bench.worker.start()
    bench.server.give(python(1, "wait"))
    await bench.server.until(lambda: bench.executor.started == [1])
    bench.server.order(drain=True)
    bench.server.failing["report"] = lambda: Unavailable("away")
    bench.executor.go.set()
    await bench.server.until(lambda: 1 in bench.server.ended)
    await asyncio.sleep(0.3)
    assert bench.server.goodbyes == []
    del bench.server.failing["report"]
    await left(bench)
    assert bench.server.goodbyes == ["w_1"]


async def test_a_worker_that_loses_its_session_while_it_drains_leaves_without_a_new_one() -> None:
    bench = Bench(beat_every=20 * MILLISECOND)
    await bench.worker.start()
    bench.server.give(python(1, "forever"))
    await bench.server.until(lambda: bench.executor.started == [1])
    bench.server.order(drain=True)
    await bench.server.until(lambda: bench.server.polls[-1].free == 0)
    bench.server.failing["beat"] = lambda: SessionLost("w_1")
    await left(bench)
    assert bench.executor.interrupted == [1]
    assert len(bench.server.hellos) == 1


async def test_a_new_session_names_the_one_that_was_lost() -> None:
    """An order that was given to that one reaches the worker after all."""
    bench = Bench(beat_every=20 * MILLISECOND)
    await bench.worker.start()
    bench.server.failing["beat"] = lambda: SessionLost("w_1")
    await bench.server.until(lambda: len(bench.server.hellos) == 2)
    bench.server.failing.clear()
    assert [hello.after for hello in bench.server.hellos] == [None, "w_1"]
    await bench.worker.stop()


async def test_a_signal_while_it_drains_bounds_the_time_that_is_left() -> None:
    bench = Bench()
    await bench.worker.start()
    bench.server.give(python(1, "forever"))
    await bench.server.until(lambda: bench.executor.started == [1])
    bench.server.order(drain=True)
    await bench.server.until(lambda: bench.server.polls[-1].free == 0)
    await bench.worker.drain(50 * MILLISECOND)
    await left(bench)
    assert bench.server.ended[1].outcome == Released()
    assert bench.server.goodbyes == ["w_1"]


async def test_a_worker_that_is_stopped_while_it_drains_leaves_no_task_behind() -> None:
    bench = Bench()
    await bench.worker.start()
    bench.server.give(python(1, "forever"))
    await bench.server.until(lambda: bench.executor.started == [1])
    bench.server.order(drain=True)
    await bench.server.until(lambda: bench.server.polls[-1].free == 0)
    await bench.worker.stop()
    await asyncio.sleep(0)
    assert {task for task in asyncio.all_tasks() if "timeball" in task.get_name()} == set()
