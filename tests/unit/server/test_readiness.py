"""`/readyz` answers 200 only while every required loop succeeds and the store can be written: I25, I26."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.migrated import sqlite_store
from timeball import system
from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.ports.store.store import Store
from timeball.server.loop import MAX_TIME_WITHOUT_SUCCESS, Loop
from timeball.server.readiness import WRITE_INTERVAL, ReadinessProbe
from timeball.server.server import Server


class Clock:
    """The system's, moved ahead by a test."""

    def __init__(self) -> None:
        self.ahead: Micros = 0
        self._system = system.SystemClock()

    def monotonic(self) -> Micros:
        return self._system.monotonic() + self.ahead

    async def sleep(self, length: Micros) -> None:
        await self._system.sleep(length)


class Parts:
    def __init__(self, store: Store, clock: Clock, server: Server) -> None:
        self.store = store
        self.clock = clock
        self.server = server
        self.probe = ReadinessProbe(server, lambda: False)

    def loop(self, name: str) -> Loop:
        return next(loop for loop in self.server.loops if loop.name == name)

    async def turned(self, *, but: str = "") -> None:
        """Until every other loop has turned once more."""
        before = {loop: loop.succeeded_at for loop in self.server.loops if loop.name != but}
        async with asyncio.timeout(60):
            while any(loop.succeeded_at == at for loop, at in before.items()):
                await asyncio.sleep(0.005)


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    store, clock = sqlite_store(tmp_path / "timeball.db"), Clock()
    await store.open()
    server = Server(store, clock, system.rng())
    server.start()
    parts = Parts(store, clock, server)
    await parts.turned()
    yield parts
    await server.stop()
    await store.close()


async def test_a_loop_that_fails_every_turn_makes_the_server_unready(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It turns all the time; only its last success tells. What failed is named, its insides are not."""
    assert (await parts.probe()).is_ready

    async def fail() -> Micros:
        raise ZeroDivisionError("secret insides")

    monkeypatch.setattr(parts.loop("planner"), "turn", fail)
    parts.loop("planner").wake()
    parts.clock.ahead = MAX_TIME_WITHOUT_SUCCESS + SECOND
    await parts.turned(but="planner")
    found = await parts.probe()
    assert not found.is_ready
    assert [name for name, fine in found.checks.items() if not fine] == ["planner"]
    assert "ZeroDivisionError" in found.problems["planner"]
    assert "insides" not in str(found)
    monkeypatch.undo()
    parts.loop("planner").wake()
    await parts.turned()
    assert (await parts.probe()).is_ready


async def test_a_loop_that_hangs_makes_the_server_unready(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang() -> Micros:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(parts.loop("lease_rescuer"), "turn", hang)
    parts.loop("lease_rescuer").wake()
    await asyncio.sleep(0)
    parts.clock.ahead = MAX_TIME_WITHOUT_SUCCESS + SECOND
    await parts.turned(but="lease_rescuer")
    found = await parts.probe()
    assert [name for name, fine in found.checks.items() if not fine] == ["lease_rescuer"]


async def test_housekeeping_that_fails_is_told_and_leaves_the_server_ready(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object storage that is away stops no job."""

    async def fail() -> Micros:
        raise Unavailable("no bucket")

    monkeypatch.setattr(parts.loop("maintenance"), "turn", fail)
    parts.loop("maintenance").wake()
    parts.clock.ahead = parts.loop("maintenance").max_time_without_success + SECOND
    await parts.turned(but="maintenance")
    found = await parts.probe()
    assert found.is_ready
    assert list(found.degraded) == ["maintenance"]


async def test_a_store_that_cannot_be_written_makes_the_server_unready(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I25: reads of a full or read-only disk succeed. The write is shared by all callers, a few seconds long."""
    writes = 0
    error: Exception | None = None
    original = parts.store.probe_write

    async def counted() -> None:
        nonlocal writes
        writes += 1
        if error is not None:
            raise error
        await original()

    monkeypatch.setattr(parts.store, "probe_write", counted)
    assert all(found.is_ready for found in await asyncio.gather(*(parts.probe() for _ in range(200))))
    assert writes == 1
    error = Unavailable("/data/timeball.db: disk is full")
    parts.clock.ahead += WRITE_INTERVAL
    await parts.turned()
    found = await parts.probe()
    assert not found.checks["writes"]
    assert "/data" not in str(found)
    error = None
    assert not (await parts.probe()).checks["writes"]
    parts.clock.ahead += WRITE_INTERVAL
    await parts.turned()
    assert (await parts.probe()).is_ready
    assert writes == 3
