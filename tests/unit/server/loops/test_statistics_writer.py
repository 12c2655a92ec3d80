"""The statistics writer: a write that failed is repeated under its number, and a server that stops writes once more."""

from typing import Any

import pytest

from timeball import system
from timeball.domain.errors import Unavailable
from timeball.domain.instant import Micros
from timeball.operation.context import OperationContext
from timeball.ports.store.changes import UnwrittenEnds
from timeball.server.loops.statistics_writer import WRITE_INTERVAL, StatisticsWriter
from timeball.server.wakeups import LocalWakeups


class StillClock(system.SystemClock):
    """Stands still unless a test moves it."""

    now: Micros = 0

    def monotonic(self) -> Micros:
        return self.now


class Recorder:
    """A store that notes the calls, and fails if it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.fails = False

    async def record_statistics(self, writer: str, seq: int) -> UnwrittenEnds:
        self.calls.append((writer, seq))
        if self.fails:
            raise Unavailable("away")
        return UnwrittenEnds()


def writer(store: Any) -> tuple[StatisticsWriter, StillClock]:
    clock, wakeups = StillClock(), LocalWakeups(lambda _: None)
    return StatisticsWriter(OperationContext(store, clock, system.rng(), wakeups), wakeups), clock


async def test_it_writes_every_two_seconds_under_the_next_number() -> None:
    store = Recorder()
    loop, clock = writer(store)
    assert await loop.turn() == WRITE_INTERVAL
    assert await loop.turn() == WRITE_INTERVAL  # nothing happens before its time
    clock.now += WRITE_INTERVAL
    await loop.turn()
    assert [seq for _, seq in store.calls] == [1, 2]
    assert len({name for name, _ in store.calls}) == 1


async def test_a_write_that_failed_is_repeated_under_its_number() -> None:
    store = Recorder()
    loop, _ = writer(store)
    store.fails = True
    for _ in range(2):
        with pytest.raises(Unavailable):
            await loop.turn()
    store.fails = False
    await loop.turn()
    assert [seq for _, seq in store.calls] == [1, 1, 1]


async def test_a_server_that_stops_writes_once_more() -> None:
    store = Recorder()
    loop, _ = writer(store)
    loop.start()
    store.fails = True
    await loop.stop()
    await loop.stop()
    assert len(store.calls) == 1
