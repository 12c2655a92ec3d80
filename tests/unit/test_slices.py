"""Long work on the event loop is divided into slices, with one slice per turn of the loop (I28)."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from timeball.domain.instant import Micros
from timeball.slices import (
    SHORT_LOCK_SECONDS,
    SHORT_SLICE_LENGTH,
    SLICE_LENGTH,
    Slice,
    TurnQueue,
    beside,
    first_found,
    wait_for_slice,
)
from timeball.system import SystemClock


async def turns_of(tasks: int, slices: int) -> list[list[int]]:
    """Which tasks had a slice in each turn of the event loop."""
    turns: list[list[int]] = [[]]

    async def work(number: int) -> None:
        for _ in range(slices):
            await wait_for_slice()
            turns[-1].append(number)

    async def tick() -> None:
        while True:
            await asyncio.sleep(0)
            turns.append([])

    ticking = asyncio.create_task(tick())
    await asyncio.gather(*(work(number) for number in range(tasks)))
    ticking.cancel()
    return turns


async def test_one_task_has_a_slice_per_turn_however_many_have_long_work() -> None:
    turns = await turns_of(tasks=20, slices=5)
    assert max(map(len, turns)) == 1
    assert sum(map(len, turns)) == 100


async def test_tasks_take_turns_in_the_order_of_asking() -> None:
    order = [number for turn in await turns_of(tasks=3, slices=3) for number in turn]
    assert order == [0, 1, 2] * 3


async def test_a_cancelled_task_holds_up_no_other() -> None:
    queue = TurnQueue(asyncio.get_running_loop())
    first, second, third = (asyncio.create_task(queue.turn()) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    async with asyncio.timeout(60):
        await third
        await queue.turn()
    with pytest.raises(asyncio.CancelledError):
        await first


class SteppedClock(SystemClock):
    """A monotonic clock that advances by a tenth of a millisecond with each reading."""

    def __init__(self) -> None:
        self._time: Micros = 0

    def monotonic(self) -> Micros:
        self._time += 100
        return self._time


@pytest.mark.parametrize(("tasks", "length"), [(1, SLICE_LENGTH), (2, SLICE_LENGTH), (20, SHORT_SLICE_LENGTH)])
async def test_slices_are_short_while_many_tasks_have_long_work(tasks: int, length: Micros) -> None:
    readings: list[int] = []

    async def work() -> None:
        current = Slice(SteppedClock())
        for _ in range(5):
            await current.next()
            count = 1
            while not current.is_over:
                count += 1
            readings.append(count)

    await asyncio.gather(*(work() for _ in range(tasks)))
    assert readings[: 4 * tasks] == [length // 100] * 4 * tasks


async def test_a_computation_gives_way_until_it_finds_something() -> None:
    assert await first_found(iter([None, None, 3, 4])) == 3
    assert await first_found(iter([None, None])) is None


async def test_work_that_cannot_be_cut_shares_one_thread() -> None:
    """The event loop competes with one thread for the interpreter, however many requests have such work."""
    active: list[int] = []
    limit: list[int] = []

    def work(number: int) -> tuple[int, int]:
        active.append(number)
        limit.append(len(active))
        active.remove(number)
        return number, threading.get_ident()

    answers = await asyncio.gather(*(beside(work, number) for number in range(20)))
    assert [number for number, _ in answers] == list(range(20))
    assert len({thread for _, thread in answers}) == 1
    assert max(limit) == 1
    assert threading.get_ident() not in {thread for _, thread in answers}


async def test_work_beside_the_event_loop_keeps_the_interpreters_lock_only_for_short_turns() -> None:
    """I28: the event loop waits one such turn after each system call."""
    usual = sys.getswitchinterval()

    def work() -> float:
        return sys.getswitchinterval()

    assert await beside(work) == pytest.approx(SHORT_LOCK_SECONDS)
    assert usual > 10 * SHORT_LOCK_SECONDS
    assert sys.getswitchinterval() == usual


async def test_the_interpreters_lock_is_as_before_after_work_that_failed() -> None:
    usual = sys.getswitchinterval()

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await beside(fail)
    assert sys.getswitchinterval() == usual
