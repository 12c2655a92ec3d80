"""The ways in which the wall clock of an embedded store may step: I7, I22."""

from pathlib import Path

import pytest

from tests.support.builders import one_shot, settlement, worker
from timeball.domain.errors import TimeballError
from timeball.domain.instant import DAY, HOUR, SECOND, Micros
from timeball.ports.runs import Want
from timeball.stores.sqlite import SqliteStore

YEARS = 12 * 365 * DAY
LEASE = 15 * SECOND
BEGAN = 1_800_000_000 * SECOND


class Machine:
    """A machine whose wall clock can be set, with one store on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.steady: Micros = 1_000 * SECOND
        self.offset: Micros = BEGAN

    def wall(self) -> Micros:
        return self.steady + self.offset

    async def start(self) -> SqliteStore:
        store = SqliteStore(self.path, wall=self.wall, monotonic=lambda: self.steady)
        await store.open()
        return store


@pytest.mark.xfail(strict=True, reason="item 3: a clock that steps forward takes every run from its worker")
@pytest.mark.parametrize("step", [20 * SECOND, 2 * HOUR, YEARS])
async def test_a_step_ahead_takes_no_run_from_a_live_worker(tmp_path: Path, step: Micros) -> None:
    """I7: leases move with the clock, also if the worker is about to renew only at their end."""
    machine = Machine(tmp_path / "timeball.db")
    store = await machine.start()
    try:
        await store.register(worker("w_1"), LEASE)
        await store.submit([one_shot(store.now())])
        (claim,) = (await store.claim([Want("w_1", "", 1)], 0)).claims
        machine.steady += 14 * SECOND
        machine.offset += step
        assert await store.lapsed(10) == []
        assert await store.renew([("w_1", "local")], LEASE) != [None]
        assert await store.settle([settlement(claim)]) != [None]
    finally:
        await store.close()


@pytest.mark.xfail(strict=True, reason="item 3: a clock that cannot be right is believed")
@pytest.mark.parametrize("step", [YEARS, -2 * HOUR, -YEARS])
async def test_a_start_with_a_clock_that_cannot_be_right_is_refused(tmp_path: Path, step: Micros) -> None:
    """I22: before anything is stamped."""
    machine = Machine(tmp_path / "timeball.db")
    store = await machine.start()
    await store.submit([one_shot(store.now())])
    await store.close()
    machine.offset += step
    with pytest.raises(TimeballError) as refused:
        await machine.start()
    assert refused.value.code == "clock_refused"
