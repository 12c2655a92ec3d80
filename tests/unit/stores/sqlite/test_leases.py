"""A worker inside the server keeps its lease while the store cannot be written (I29)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.builders import one_shot, worker
from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND
from timeball.ports.store.runs import SlotRequest
from timeball.ports.worker_protocol import LOCAL_KEY
from timeball.stores.sqlite.store import SqliteStore

LEASE = 15 * SECOND


class Disk:
    """A store whose disk takes writes or does not, on a clock of its own."""

    def __init__(self) -> None:
        self.time = 10**15
        self.store = SqliteStore(":memory:", wall=self.clock, monotonic=self.clock, inline=True)
        self._write: Any = self.store._db.write

    def clock(self) -> int:
        return self.time

    def takes_writes(self, takes: bool) -> None:
        async def refuse(*_: object, **__: object) -> None:
            raise Unavailable("the disk is full")

        driver: Any = self.store._db
        driver.write = self._write if takes else refuse

    async def beat(self, session: str = "w_1", key: str = LOCAL_KEY) -> bool:
        (lease,) = await self.store.renew([(session, key)], LEASE)
        return lease is not None


@pytest.fixture
async def disk() -> AsyncIterator[Disk]:
    disk = Disk()
    await disk.store.open()
    await disk.store.register(worker("w_1"), LEASE)
    await disk.store.register(worker("w_far", key="k_far"), LEASE)
    await disk.store.submit([one_shot(disk.store.now())])
    assert len((await disk.store.claim([SlotRequest("w_1", "", 1)], 0)).claims) == 1
    yield disk
    await disk.store.close()


@pytest.mark.parametrize("first", ["the worker", "the rescuer"])
async def test_an_outage_longer_than_a_lease_costs_nothing(disk: Disk, first: str) -> None:
    disk.takes_writes(False)
    for _ in range(8):
        disk.time += 5 * SECOND
        assert await disk.beat()
    disk.takes_writes(True)
    disk.time += 3 * SECOND
    if first == "the worker":
        assert await disk.beat()
    assert await disk.store.lapsed(10) == [], "nothing is lost"
    assert await disk.beat()
    disk.time += LEASE
    assert len(await disk.store.lapsed(10)) == 1, "a worker that fell silent since loses its lease"


async def test_a_lease_that_ran_out_is_not_renewed_in_memory(disk: Disk) -> None:
    disk.time += LEASE
    disk.takes_writes(False)
    assert not await disk.beat()


async def test_a_worker_in_another_process_is_told_that_its_lease_was_not_written(disk: Disk) -> None:
    """I7: it outlives the server, whose successor knows only what was written."""
    disk.takes_writes(False)
    with pytest.raises(Unavailable):
        await disk.beat("w_far", "k_far")
