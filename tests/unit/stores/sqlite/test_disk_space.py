"""An almost full disk: nothing new is accepted, and what was accepted before goes on (I25)."""

from pathlib import Path

import pytest

from tests.support.builders import LEASE, one_shot, recurring, run, settlement, worker
from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND
from timeball.domain.run.status import Status
from timeball.ports.store.runs import SlotRequest
from timeball.stores.sqlite.disk_space import DiskSpace
from timeball.stores.sqlite.store import SqliteStore
from timeball.system import monotonic, wall

ALL = 1 << 62
"""More bytes than a disk has: the smaller share of the disk decides."""


async def test_new_jobs_are_refused_while_accepted_runs_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "timeball.db", wall=wall, monotonic=monotonic)
    await store.open()
    await store.register(worker("w_1"), LEASE)
    accepted = [one_shot(store.now()) for _ in range(3)]
    repeats = recurring(store.now(), seconds=3_600)
    await store.submit([*accepted, repeats])
    monkeypatch.setattr(store._db._space, "_min_free", ALL)
    monkeypatch.setattr("timeball.stores.sqlite.disk_space.MIN_FREE_SHARE", 1)
    monkeypatch.setattr(store._db._space, "_check_at", 0)
    with pytest.raises(Unavailable) as refused:
        await store.submit([one_shot(store.now())])
    assert refused.value.retry_after == 5
    with pytest.raises(Unavailable):
        await store.trigger([run(repeats.job, store.now())])
    claims = (await store.claim([SlotRequest("w_1", "", 10)], 0)).claims
    settled = await store.settle([settlement(claim) for claim in claims])
    assert [each is not None and each.status for each in settled] == [Status.SUCCEEDED] * 3
    monkeypatch.undo()
    monkeypatch.setattr(store._db._space, "_check_at", 0)
    await store.submit([one_shot(store.now())])
    await store.close()


def test_the_disk_is_looked_at_once_in_a_second(tmp_path: Path) -> None:
    time = [10 * SECOND]
    space = DiskSpace(tmp_path, lambda: time[0])
    space.require()
    space._folder = Path("/nowhere")
    space.require()
    time[0] += SECOND
    space.require()  # a folder that cannot be examined is not full
