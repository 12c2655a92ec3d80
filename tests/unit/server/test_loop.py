"""How all loops start, stop and wake up, and group commit."""

import asyncio
import contextlib
import random

import pytest

from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.operation.group_commit import GroupCommit
from timeball.ports.wakeups import Topic
from timeball.server.loop import Loop
from timeball.server.wakeups import LocalWakeups
from timeball.system import SystemClock


class Counting(Loop):
    name = "counting"
    topics = (Topic.PLAN,)

    def __init__(self, wakeups: LocalWakeups, failures: list[Exception] | None = None) -> None:
        super().__init__(SystemClock(), wakeups)
        self.turns = 0
        self.failures = failures or []

    async def turn(self) -> Micros:
        self.turns += 1
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop()
        return SECOND * 3600


class Deaf(Counting):
    """Its turn does not notice that it is cancelled."""

    async def turn(self) -> Micros:
        self.turns += 1
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        return SECOND * 3600


async def until(condition) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_loop_stops_also_if_its_turn_swallows_the_cancel() -> None:
    loop = Deaf(LocalWakeups(lambda _: None))
    loop.start()
    await until(lambda: loop.turns)
    async with asyncio.timeout(60):
        await loop.stop()
    assert loop.turns == 1


async def test_a_loop_survives_any_order_of_start_and_stop() -> None:
    rng, wakeups = random.Random(7), LocalWakeups(lambda _: None)
    loop = Counting(wakeups)
    for _ in range(300):
        match rng.randrange(4):
            case 0:
                loop.start()
            case 1:
                await loop.stop()
            case 2:
                await asyncio.gather(loop.stop(), loop.stop())
            case _:
                await asyncio.sleep(0)
    await loop.stop()
    turns = loop.turns
    wakeups.wake(Topic.PLAN)
    await asyncio.sleep(0.01)
    assert loop.turns == turns, "nothing of it runs after stop"
    loop.start()
    await until(lambda: loop.turns > turns)
    await loop.stop()


async def test_a_hint_during_a_turn_is_not_lost() -> None:
    wakeups = LocalWakeups(lambda _: None)
    loop = Counting(wakeups)
    loop.start()
    await until(lambda: loop.turns == 1)
    wakeups.wake(Topic.PLAN)
    await until(lambda: loop.turns == 2)
    await loop.stop()


async def test_a_loop_outlives_a_failing_turn() -> None:
    loop = Counting(LocalWakeups(lambda _: None), [ValueError("a bug"), Unavailable("away")])
    loop.start()
    await until(lambda: loop.turns == 3)
    await loop.stop()


async def test_hints_are_passed_on_to_other_servers_but_not_echoed() -> None:
    shouted: list[str] = []
    wakeups = LocalWakeups(shouted.append)
    wakeups.deliver("plan")
    assert shouted == []
    wakeups.wake(Topic.READY)
    assert shouted == [Topic.READY]


async def test_what_arrives_during_a_commit_goes_into_the_next_one() -> None:
    batches: list[list[int]] = []
    gate = asyncio.Event()

    async def commit(items):
        batches.append(list(items))
        await gate.wait()
        return [item * 10 for item in items]

    group = GroupCommit(commit)
    first = asyncio.create_task(group([1]))
    await until(lambda: batches)
    others = [asyncio.create_task(group([n, n])) for n in (2, 3)]
    await asyncio.sleep(0)
    gate.set()
    assert await first == [10]
    assert [await other for other in others] == [[20, 20], [30, 30]]
    assert batches == [[1], [2, 2, 3, 3]]


async def test_a_failed_commit_fails_its_own_callers_only() -> None:
    answers = iter([Unavailable("away"), None])

    async def commit(items):
        await asyncio.sleep(0)
        if error := next(answers):
            raise error
        return items

    group = GroupCommit(commit)
    with pytest.raises(Unavailable):
        await group([1])
    assert await group([2]) == [2]


async def test_a_queue_for_commits_is_bounded_and_refuses_what_comes_later() -> None:
    """I25."""
    gate = asyncio.Event()

    async def commit(items):
        await gate.wait()
        return items

    group = GroupCommit(commit, max_waiting=3)
    committing = asyncio.create_task(group([1]))
    await asyncio.sleep(0.01)
    waiting = [asyncio.create_task(group([n, n])) for n in (2, 3)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await group([4])
    gate.set()
    assert [await each for each in (committing, *waiting)] == [[1], [2, 2], [3, 3]]
    assert await group([4]) == [4]
