"""Maintenance: one server does it, days are pruned after they are archived, and an idle loop reads nothing."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.test_lists import finished
from tests.conformance.test_retention import remember
from tests.support.builders import recurring
from timeball import system
from timeball.domain.errors import Unavailable
from timeball.domain.instant import DAY, MINUTE, Micros
from timeball.domain.retention import day_of
from timeball.operation.context import OperationContext
from timeball.operation.storage.large_values import LargeValueStore
from timeball.ports.store.maintenance import Archiver
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.store import Store
from timeball.server.loops.maintenance import MAINTENANCE_INTERVAL, SWEEP_EVERY, MaintenanceLoop
from timeball.server.wakeups import LocalWakeups
from timeball.stores.sqlite.store import SqliteStore


class StillClock(system.SystemClock):
    """Stands still unless a test moves it."""

    now: Micros = 0

    def monotonic(self) -> Micros:
        return self.now


class Archive:
    """Keeps a day when it is asked for the second time."""

    def __init__(self) -> None:
        self.asked: list[Micros] = []

    async def keep(self, day: Micros) -> bool:
        self.asked.append(day)
        return self.asked.count(day) > 1


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = SqliteStore(tmp_path / "timeball.db", wall=system.wall, monotonic=system.monotonic)
    await opened.open()
    yield opened
    await opened.close()


def keeper(store: Store, keep_for: Micros | None = 30 * DAY, archiver: Archiver | None = None) -> MaintenanceLoop:
    wakeups = LocalWakeups(lambda _: None)
    context = OperationContext(store, StillClock(), system.rng(), wakeups)
    return MaintenanceLoop(context, wakeups, keep_for=keep_for, archiver=archiver)


async def turns(of: MaintenanceLoop, count: int = 50) -> Micros:
    """Let it turn until it rests; how long it does."""
    clock = of._clock
    assert isinstance(clock, StillClock)
    for _ in range(count):
        rest = await of.turn()
        if rest == MAINTENANCE_INTERVAL:
            return rest
        clock.now += rest
    raise AssertionError("it never rests")


async def fill(store: Store, *ages: int) -> None:
    """A finished run of so many days ago each."""
    sent = recurring(store.now())
    await store.submit([sent])
    now = store.now()
    await remember(store, [finished(sent.job, now - age * DAY, at) for at, age in enumerate(ages)])


async def left(store: Store) -> int:
    return await store.count_runs(RunFilter(tenant="default"))


async def test_what_is_old_goes_and_the_rest_stays(store: Store) -> None:
    await fill(store, 1, 29, 32, 40, 400)
    await turns(keeper(store))
    assert await left(store) == 2


async def test_nothing_goes_if_it_is_to_be_kept_for_ever(store: Store) -> None:
    await fill(store, 400)
    await turns(keeper(store, keep_for=None))
    assert await left(store) == 1


async def test_a_day_goes_when_it_is_archived_and_none_waits_for_another(store: Store) -> None:
    await fill(store, 40, 50)
    archive = Archive()
    days = [day_of(store.now() - age * DAY) for age in (50, 40)]
    of = keeper(store, archiver=archive)
    await of.turn()
    assert archive.asked == days[:1]
    assert await left(store) == 2
    await turns(of)
    assert archive.asked[:3] == [*days, days[0]]
    assert await left(store) == 0


async def test_only_one_keeps_house(store: Store) -> None:
    one, other = keeper(store), keeper(store)
    await turns(one)
    await fill(store, 40)
    assert await other.turn() == MAINTENANCE_INTERVAL
    assert await left(store) == 1


async def test_it_asks_the_store_nothing_while_it_rests(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    of = keeper(store)
    await turns(of)
    monkeypatch.setattr(store, "lead", None)
    assert 0 < await of.turn() <= MAINTENANCE_INTERVAL


async def test_who_was_deposed_stops_and_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(store, 40)
    of = keeper(store)
    lead = await store.lead("housekeeping", of._holder, 0)
    assert await store.lead("housekeeping", "s_other", MINUTE) is not None

    async def believes(*_: object) -> object:
        return lead

    monkeypatch.setattr(store, "lead", believes)
    assert await of.turn() == MAINTENANCE_INTERVAL
    assert await left(store) == 1


class Sweeping(LargeValueStore):
    """Knows how often it was asked."""

    takes = True  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.is_away = False

    async def sweep(self, now: Micros) -> int:
        self.asked += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise Unavailable("the object storage is away")
        return 3


async def test_objects_that_nobody_refers_to_are_looked_for_now_and_then(store: Store) -> None:
    large_value_store, clock, wakeups = Sweeping(), StillClock(), LocalWakeups(lambda _: None)
    keeper = MaintenanceLoop(
        OperationContext(store, clock, system.rng(), wakeups, large_value_store=large_value_store), wakeups
    )
    for asked, is_away in ((1, False), (2, True), (3, False)):
        large_value_store.is_away = is_away
        for _ in range(10):
            clock.now += MAINTENANCE_INTERVAL
            await keeper.turn()
        assert large_value_store.asked == asked, "a failure waits like a success"
        clock.now += SWEEP_EVERY
    await keeper.turn()
    await keeper.stop()  # in the middle of it


async def test_a_chore_that_fails_keeps_no_other_from_its_step(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the turn counts as failed, so that readiness can tell it."""
    tidied = 0

    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    async def forget_keys(*_: object) -> int:
        nonlocal tidied
        tidied += 1
        return 0

    monkeypatch.setattr(store, "days_to_prune", fail)
    monkeypatch.setattr(store, "forget_keys", forget_keys)
    with pytest.raises(ZeroDivisionError):
        await keeper(store).turn()
    assert tidied == 1
