"""Timers fire in order and never early, also on an event loop whose own timers fire early."""

from __future__ import annotations

import asyncio

from timeball.system import SystemClock
from timeball.worker.timers import MANY, Timers

CLOCK = SystemClock()


class Recorder:
    def __init__(self) -> None:
        self.alarms = Timers(CLOCK)
        self.rung: list[tuple[int, int]] = []

    def set(self, after: int) -> int:
        due = CLOCK.monotonic() + after
        self.alarms.at(due, lambda: self.rung.append((due, CLOCK.monotonic())))
        return due

    async def wait_for(self, count: int) -> None:
        while True:
            if len(self.rung) >= count:
                return
            await asyncio.sleep(0.001)


async def test_in_order_and_never_early() -> None:
    recorder = Recorder()
    for after in (30_000, 1, 20_001, 0, 20_000, 333, 10_400, 10_600):
        recorder.set(after)
    await recorder.wait_for(8)
    assert [due for due, _ in recorder.rung] == sorted(due for due, _ in recorder.rung)
    assert all(at >= due for due, at in recorder.rung)


async def test_a_timer_that_wakes_early_is_waited_out() -> None:
    """uvloop rounds to milliseconds: up to half of one too early."""
    recorder = Recorder()
    loop = asyncio.get_running_loop()
    real = loop.call_later
    loop.call_later = lambda delay, *args, **kwargs: real(int(delay * 1000) / 1000, *args, **kwargs)  # type: ignore[method-assign]
    try:
        for after in (1_900, 2_900, 7_999):
            recorder.set(after)
        await recorder.wait_for(3)
    finally:
        loop.call_later = real  # type: ignore[method-assign]
    assert all(at >= due for due, at in recorder.rung)


async def test_cancelled_alarms_do_not_ring_and_do_not_pile_up() -> None:
    recorder = Recorder()
    far = CLOCK.monotonic() + 10**12
    for _ in range(10 * MANY):
        recorder.alarms.cancel(recorder.alarms.at(far, lambda: None))
    assert len(recorder.alarms._heap) <= 2 * MANY
    once = recorder.alarms.at(CLOCK.monotonic(), lambda: recorder.rung.append((0, 0)))
    recorder.alarms.cancel(once)
    recorder.alarms.cancel(once)
    recorder.set(1_000)
    await recorder.wait_for(1)
    assert len(recorder.rung) == 1
    recorder.alarms.clear()


async def test_one_alarm_that_fails_does_not_silence_the_others() -> None:
    recorder = Recorder()
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))

    def fail() -> None:
        raise RuntimeError

    recorder.alarms.at(CLOCK.monotonic(), fail)
    recorder.set(0)
    await recorder.wait_for(1)
    assert len(failures) == 1


async def test_an_alarm_may_set_another() -> None:
    recorder = Recorder()
    recorder.alarms.at(CLOCK.monotonic(), lambda: recorder.set(500) and None)
    await recorder.wait_for(1)
    assert recorder.rung[0][1] >= recorder.rung[0][0]


async def test_an_alarm_set_while_another_rings_does_not_hide_an_earlier_one() -> None:
    recorder = Recorder()
    start = CLOCK.monotonic()
    recorder.alarms.at(start + 1_000, lambda: recorder.alarms.at(start + 3_600_000_000, lambda: None) and None)
    recorder.set(20_000)
    async with asyncio.timeout(60):
        await recorder.wait_for(1)
    recorder.alarms.clear()
