"""The lease rescuer ends attempts that their workers do not end (I12, I26)."""

from __future__ import annotations

import random

from tests.support.builders import LEASE as LONG
from tests.support.builders import one_shot, worker
from timeball.domain.instant import MINUTE, SECOND, Micros
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.ports.store.runs import SlotRequest
from timeball.ports.worker_protocol import LOCAL_KEY
from timeball.server.loops.lease_rescuer import LeaseRescuer
from timeball.server.server import Server
from timeball.stores.sqlite.store import SqliteStore


class Hands:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.at: Micros = 1_800_000_000 * SECOND

    def __call__(self) -> Micros:
        return self.at

    def monotonic(self) -> Micros:
        return self.at

    async def sleep(self, length: Micros) -> None:
        self.at += length


async def test_a_worker_that_lives_and_never_reports_keeps_no_run_for_ever() -> None:
    clock = Hands()
    store = SqliteStore(":memory:", wall=clock, monotonic=clock, inline=True)
    await store.open()
    try:
        server = Server(store, clock, random.Random(1))
        (rescuer,) = [loop for loop in server.loops if isinstance(loop, LeaseRescuer)]
        await store.register(worker("w_1"), LONG)
        limited = one_shot(clock(), timeout="10s", retry=Retry(max_retries=0))
        endless = one_shot(clock(), retry=Retry(max_retries=0))
        await store.submit([limited, endless])
        claims = (await store.claim([SlotRequest("w_1", "", 9)], 0)).claims
        ids = [claim.run_id for claim in claims]
        for _ in range(60):
            clock.at += 2 * SECOND
            assert await store.renew([("w_1", LOCAL_KEY)], LONG) != [None]
            while await rescuer.turn() == 0:
                pass
        assert clock() >= claims[0].eligible_at + 2 * MINUTE
        runs = await store.runs(ids)
        assert {runs[each].job_id: runs[each].status for each in ids} == {
            limited.job.id: Status.DEAD,
            endless.job.id: Status.RUNNING,
        }
    finally:
        await store.close()
