"""Maintenance deletes no run that is not in the archive."""

import asyncio
from pathlib import Path

import pytest

from tests.conformance.test_archive import Watched, listed
from tests.support.builders import job
from tests.support.history import add, finished
from timeball import system
from timeball.domain.instant import DAY, SECOND
from timeball.domain.run import archive_record
from timeball.object_stores.bucket import open_objects
from timeball.operation.context import OperationContext
from timeball.operation.storage import archive as writing
from timeball.operation.storage.search_archive import Archive
from timeball.ports.store.store import Store
from timeball.server.loops import archiver as archivists
from timeball.server.loops.archiver import DayArchiver
from timeball.server.loops.maintenance import MaintenanceLoop
from timeball.server.wakeups import LocalWakeups
from timeball.stores.sqlite.store import SqliteStore


@pytest.fixture
def objects(tmp_path: Path) -> Watched:
    return Watched(open_objects(str(tmp_path / "archive")))


def keeper(store: Store, archiver: DayArchiver) -> MaintenanceLoop:
    wakeups = LocalWakeups(store.wake_all)
    context = OperationContext(store, system.SystemClock(), system.rng(), wakeups)
    return MaintenanceLoop(context, wakeups, keep_for=30 * DAY, archiver=archiver)


async def turns(of: MaintenanceLoop, count: int) -> None:
    for _ in range(count):
        of._sleeps_until = 0
        await of.turn()


async def test_days_go_to_the_archive_before_they_leave_the_store(store: Store, objects: Watched) -> None:
    made, now = job(store.now() - 50 * DAY), store.now()
    old = [finished(made, now - days * DAY - at * SECOND, days * 1_000 + at) for days in (33, 35) for at in range(150)]
    young = finished(made, now - 10 * DAY, 1)
    await add(store, [*old, young])
    archiver = DayArchiver(store, objects, system.SystemClock())

    await turns(keeper(store, archiver), 20)

    assert await listed(Archive(objects)) == sorted((row.id for row in old), reverse=True)
    assert set(await store.runs([row.id for row in [*old, young]])) == {young.id}
    await archiver.close()


async def test_nothing_goes_while_the_archive_is_away(
    store: Store, objects: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archivists, "ARCHIVE_RETRY_DELAY", 0)
    made, now = job(store.now() - 50 * DAY), store.now()
    old = [finished(made, now - 33 * DAY - at * SECOND, at) for at in range(50)]
    await add(store, old)
    objects.puts_left = 1  # the part, not the manifest
    archiver = DayArchiver(store, objects, system.SystemClock())
    keeps = keeper(store, archiver)
    await turns(keeps, 5)
    assert len(await store.runs([row.id for row in old])) == 50

    objects.puts_left = 100
    await turns(keeps, 5)
    assert await store.runs([row.id for row in old]) == {}
    assert len(await listed(Archive(objects))) == 50
    await archiver.close()


async def test_what_it_archived_it_does_not_archive_again(store: Store, objects: Watched) -> None:
    made = job(store.now() - 50 * DAY)
    day = (store.now() - 33 * DAY) // DAY * DAY
    rows = [finished(made, day + at * SECOND, at) for at in range(20)]
    await add(store, rows)
    archiver = DayArchiver(store, objects, system.SystemClock())
    assert await archiver.keep(day)
    left = objects.puts_left
    assert await archiver.keep(day)
    assert objects.puts_left == left

    late = finished(made, day + 5 * SECOND + 1, 777, finished_at=store.now())
    await add(store, [late])
    assert await archiver.keep(day)
    keys = await objects.list("manifests/")
    manifests = [archive_record.decode_manifest(content or b"") for content in await objects.get(keys)]
    assert sorted(each.runs for each in manifests) == [1, 20]
    assert await listed(Archive(objects)) == sorted((row.id for row in [*rows, late]), reverse=True)


async def test_another_store_at_the_same_place_loses_nothing(store: Store, objects: Watched, tmp_path: Path) -> None:
    """Somebody else's manifest of a day says nothing about the runs of this store."""
    day = (store.now() - 33 * DAY) // DAY * DAY
    other = SqliteStore(tmp_path / "other.db", wall=system.wall, monotonic=system.monotonic)
    await other.open()
    made = job(store.now() - 50 * DAY)
    for number, each in enumerate((store, other)):
        await add(each, [finished(made, day + number, number)])
        assert await DayArchiver(each, objects, system.SystemClock()).keep(day)
    await other.close()
    assert len(await listed(Archive(objects))) == 2


async def test_after_a_failure_the_archive_is_left_alone_for_a_while(store: Store, objects: Watched) -> None:
    day = (store.now() - 33 * DAY) // DAY * DAY
    await add(store, [finished(job(store.now() - 50 * DAY), day, 1)])
    objects.puts_left = 0
    archiver = DayArchiver(store, objects, system.SystemClock())
    assert not await archiver.keep(day)
    objects.puts_left = 100
    assert not await archiver.keep(day)
    assert objects.puts_left == 100


async def test_a_large_day_takes_its_time_beside_the_keeper(
    store: Store, objects: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archivists, "DAY_WAIT_TIMEOUT", 0)
    monkeypatch.setattr(writing, "RUNS_AT_ONCE", 10)
    made = job(store.now() - 50 * DAY)
    day = (store.now() - 33 * DAY) // DAY * DAY
    await add(store, [finished(made, day + at * SECOND, at) for at in range(200)])
    archiver = DayArchiver(store, objects, system.SystemClock())

    assert not await archiver.keep(day)
    assert not await archiver.keep(day - DAY), "one at a time"
    async with asyncio.timeout(60):
        while not await archiver.keep(day):
            await asyncio.sleep(0.01)
    assert len(await listed(Archive(objects))) == 200

    assert not await archiver.keep(day - DAY)
    await archiver.close()
    assert not await archiver.keep(day)
    await archiver.close()
