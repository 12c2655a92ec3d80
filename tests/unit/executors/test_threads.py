"""Threads for functions that block: batches of calls, and no call that waits behind a long one."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from timeball.executors.threads import MEMORY, Threads
from timeball.ports.executor import OutOfResources

SIZE = 4
CALLS = 1_000


@pytest.fixture
async def threads() -> AsyncIterator[Threads]:
    """Threads that have executed enough short calls to expect more of them."""
    made = Threads(SIZE)
    await all_of(made, [lambda: None] * (SIZE + 4 * MEMORY))
    yield made
    made.close()


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.000_001)
    yield
    sys.setswitchinterval(before)


async def all_of(threads: Threads, calls: list[Callable[[], Any]]) -> list[Any]:
    """Start calls in one turn of the event loop, and return their results in the order in which they were delivered."""
    results: list[Any] = []
    finished = asyncio.Event()

    def deliver(value: Any) -> None:
        assert threading.current_thread() is threading.main_thread()
        results.append(value)
        if len(results) == len(calls):
            finished.set()

    for call in calls:
        threads.start(call, deliver)
    async with asyncio.timeout(60):
        await finished.wait()
    return results


async def test_short_calls_go_to_the_threads_and_come_back_in_batches(threads: Threads) -> None:
    loop = asyncio.get_running_loop()
    callbacks = reports = 0
    call_soon, call_soon_threadsafe = loop.call_soon, loop.call_soon_threadsafe

    def counted(*args: Any, **named: Any) -> asyncio.Handle:
        nonlocal callbacks
        callbacks += 1
        return call_soon(*args, **named)

    def reported(*args: Any, **named: Any) -> asyncio.Handle:
        nonlocal reports
        reports += 1
        return call_soon_threadsafe(*args, **named)

    loop.call_soon, loop.call_soon_threadsafe = counted, reported  # type: ignore[method-assign]
    assert len(await all_of(threads, [lambda: None] * CALLS)) == CALLS
    assert reports <= CALLS / 10
    assert callbacks <= CALLS / 10


async def test_a_short_call_does_not_wait_behind_a_long_one(threads: Threads) -> None:
    end = threading.Event()
    long = asyncio.ensure_future(threads.run(end.wait))
    assert await all_of(threads, [lambda: "short"] * 20) == ["short"] * 20
    assert not long.done()
    end.set()
    assert await long


async def test_results_arrive_although_the_thread_that_has_them_began_a_long_call(threads: Threads) -> None:
    """One thread takes all of these calls, as the others are occupied."""
    end, last = threading.Event(), threading.Event()
    long = [asyncio.ensure_future(threads.run(end.wait)) for _ in range(SIZE - 1)]
    short = [asyncio.ensure_future(threads.run(lambda: "short")) for _ in range(10)]
    blocked = asyncio.ensure_future(threads.run(last.wait))
    async with asyncio.timeout(60):
        assert await asyncio.gather(*short) == ["short"] * 10
    assert not any(each.done() for each in [*long, blocked])
    end.set()
    last.set()
    await asyncio.gather(*long, blocked)


async def test_calls_that_block_get_all_threads(threads: Threads) -> None:
    together = threading.Barrier(SIZE, timeout=30)
    assert sorted(await all_of(threads, [together.wait] * SIZE)) == list(range(SIZE))


async def test_no_more_threads_than_the_size() -> None:
    threads = Threads(SIZE)
    used = {await threads.run(threading.current_thread) for _ in range(2)}
    used |= set(await all_of(threads, [_slow_name] * 5 * SIZE))
    assert len(used) <= SIZE
    assert all(thread.daemon for thread in used)
    threads.close()


def _slow_name() -> threading.Thread:
    time.sleep(0.001)
    return threading.current_thread()


async def test_every_call_is_delivered_once(frequent_switches: None) -> None:
    threads = Threads(SIZE)
    rng = random.Random(7)
    for _ in range(40):
        numbers = list(range(rng.choice([1, 2, 3, 10, 100])))
        pauses = rng.choice([(0.0,), (0.0, 0.0, 0.001), (0.001,)])

        calls = [partial(_later, number, rng.choice(pauses)) for number in numbers]
        assert sorted(await all_of(threads, calls)) == numbers
        if rng.random() < 0.3:
            await asyncio.sleep(0.002)
    threads.close()


def _later(number: int, pause: float) -> int:
    if pause:
        time.sleep(pause)
    return number


async def test_a_call_without_a_thread_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = Threads(SIZE)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OutOfResources):
            await threads.run(lambda: 1)
    assert await threads.run(lambda: 2) == 2
    threads.close()


async def test_an_idle_thread_keeps_no_result(threads: Threads) -> None:
    class Result:
        pass

    result = await threads.run(Result)
    gone = weakref.ref(result)
    del result
    await all_of(threads, [lambda: None] * 2 * SIZE)
    gc.collect()
    assert gone() is None


async def test_close_ends_idle_threads_at_once_and_busy_ones_after_their_call() -> None:
    threads = Threads(SIZE)
    used = set(await all_of(threads, [_slow_name] * 5 * SIZE))
    end = threading.Event()
    last = asyncio.ensure_future(threads.run(lambda: (end.wait(), threading.current_thread())[1]))
    await asyncio.sleep(0.01)
    threads.close()
    end.set()
    for thread in used | {await last}:
        await asyncio.to_thread(thread.join, 30)
        assert not thread.is_alive()
