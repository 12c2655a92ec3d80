"""When the dispatcher claims: due runs at once, and runs that are due soon together."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from unittest import mock

import pytest

from tests.support.builders import one_shot
from timeball.domain.dispatch.fair_share import TenantShare
from timeball.domain.dispatch.placement import Resources
from timeball.domain.errors import Unavailable
from timeball.domain.instant import MILLISECOND, SECOND, Micros
from timeball.domain.tenant import Tenant
from timeball.operation.context import OperationContext
from timeball.operation.runs.settle import Settle
from timeball.ports.store.runs import SlotRequest
from timeball.ports.worker_protocol import Poll, PollResponse, RegisterWorker
from timeball.server.loop import TICK
from timeball.server.loops.dispatcher import AHEAD, LATEST, MAX_ROUNDS, PAUSE, Dispatcher
from timeball.server.wakeups import LocalWakeups
from timeball.server.worker_gateway.gateway import WorkerGateway
from timeball.stores.sqlite.store import SqliteStore
from timeball.system import SystemClock

pytestmark = pytest.mark.timeout(300)


class House(SystemClock):
    """A server whose loops turn when the test says so, at a time that it sets, and workers that only poll."""

    def __init__(self) -> None:
        self.time: Micros = 1_800_000_000 * SECOND
        self.store = SqliteStore(":memory:", wall=self.monotonic, monotonic=self.monotonic, inline=True)
        self.context = OperationContext(self.store, self, random.Random(1), wakeups := LocalWakeups(lambda _: None))
        self.gateway = WorkerGateway(self.context, Settle(self.context))
        self.dispatcher = Dispatcher(self.context, wakeups, self.gateway)
        self.nudged = mock.patch.object(self.dispatcher, "wake").start()
        self._seq = 0

    def monotonic(self) -> Micros:
        return self.time

    async def fire(self, *ahead: Micros) -> None:
        """Jobs that fire so much later than now."""
        now = self.store.now()
        await self.store.submit([one_shot(now, at=now + each) for each in ahead])

    async def worker(self, slots: int = 10) -> str:
        return (await self.gateway.hello(RegisterWorker(name="w", slots=slots))).session

    async def poll(self, session: str, free: int, seq: int | None = None) -> asyncio.Task[PollResponse]:
        self._seq += 1
        here = self.gateway._sessions[session]
        asked = Poll(session=session, seq=seq or self._seq, free=free, held=list(here._handed), wait=60 * SECOND)
        polling = asyncio.create_task(self.gateway.poll(asked))
        while here._polled < asked.seq or not here._waiting:
            await asyncio.sleep(0)
        return polling


@pytest.fixture
async def house() -> AsyncIterator[House]:
    made = House()
    await made.store.open()
    yield made
    made.gateway.close()
    await asyncio.sleep(0)
    mock.patch.stopall()
    await made.store.close()


async def test_the_fires_of_a_while_share_one_claim(house: House) -> None:
    waiting = await house.poll(await house.worker(), free=50)
    await house.fire(*(AHEAD + each * 10 * MILLISECOND for each in range(1, 11)))
    rest = await house.dispatcher.turn()
    assert rest == AHEAD + 10 * MILLISECOND - LATEST
    house.time += rest
    await house.dispatcher.turn()
    assert [each.delay for each in (await waiting).assignments] == [
        LATEST + each * 10 * MILLISECOND for each in range(10)
    ]


async def test_slots_are_gathered_while_all_others_wait_for_runs_that_are_still_to_come(house: House) -> None:
    session = await house.worker()
    waiting = await house.poll(session, free=2)
    await house.fire(*[200 * MILLISECOND] * 5)
    assert await house.dispatcher.turn() == PAUSE
    assert len((await waiting).assignments) == 2
    house.nudged.reset_mock()
    await house.poll(session, free=1)
    assert not house.nudged.called
    house.time += PAUSE
    waiting = await house.poll(session, free=2)
    assert house.nudged.called
    await house.dispatcher.turn()
    assert len((await waiting).assignments) == 2


async def test_slots_are_filled_at_once_while_something_is_due(house: House) -> None:
    session = await house.worker()
    waiting = await house.poll(session, free=2)
    await house.fire(0, 200 * MILLISECOND, 200 * MILLISECOND)
    assert await house.dispatcher.turn() == TICK
    assert len((await waiting).assignments) == 2
    house.nudged.reset_mock()
    await house.poll(session, free=1)
    assert house.nudged.called


async def test_what_one_claim_cannot_hand_out_is_claimed_while_the_first_ones_execute(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is there when the worker polls again. Nothing is claimed on top of that: the worker may be back, and have its
    answer, before it is."""
    monkeypatch.setattr("timeball.stores.sql.runs.claiming.MAX_CLAIMS", 2)
    session = await house.worker()
    await house.fire(*[0] * 6)
    waiting = await house.poll(session, free=6)
    await house.dispatcher.turn()
    first = (await waiting).assignments
    assert house.gateway.wants_ahead() == []
    second = await house.gateway.poll(Poll(session=session, seq=2, free=4, held=[each.token for each in first], wait=0))
    assert [len(first), len(second.assignments)] == [2, 2]
    assert len({each.token for each in (*first, *second.assignments)}) == 4


async def test_what_was_claimed_ahead_is_for_others_when_the_server_stops(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timeball.stores.sql.runs.claiming.MAX_CLAIMS", 2)
    session = await house.worker()
    await house.fire(*[0] * 4)
    waiting = await house.poll(session, free=4)
    await house.dispatcher.turn()
    assert len((await waiting).assignments) == 2
    house.gateway.close()
    while house.gateway._background.running:
        await asyncio.sleep(0)
    assert len((await house.store.claim([SlotRequest(session, "w", 4, 9)], 0)).claims) == 2


async def test_what_is_claimed_ahead_fits_into_the_slots_that_are_left(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timeball.stores.sql.runs.claiming.MAX_CLAIMS", 2)
    session = await house.worker(slots=14)
    now = house.store.now()
    await house.store.submit([one_shot(now, resources=Resources(slots=3)) for _ in range(6)])
    waiting = await house.poll(session, free=14)
    await house.dispatcher.turn()
    assert len((await waiting).assignments) == 2
    there = house.gateway._sessions[session]
    assert there._spare is not None
    assert (len(there._kept), there._spare.slots) == (2, 2)


async def test_a_turn_ends_however_much_there_is_to_claim(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who watches the loops sees it turn, and it goes on at once."""
    monkeypatch.setattr("timeball.stores.sql.runs.claiming.MAX_CLAIMS", 1)
    waiting = [await house.poll(await house.worker(), free=1, seq=1) for _ in range(MAX_ROUNDS + 5)]
    await house.fire(*[0] * len(waiting))
    assert await house.dispatcher.turn() == 0
    assert sum(each.done() for each in waiting) == 0  # they have yet to hear of it
    await asyncio.sleep(0)
    assert sum(each.done() for each in waiting) == MAX_ROUNDS
    await house.dispatcher.turn()
    assert [len((await each).assignments) for each in waiting] == [1] * len(waiting)


async def test_what_one_claim_cannot_hand_out_is_handed_to_others_that_wait(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timeball.stores.sql.runs.claiming.MAX_CLAIMS", 2)
    waiting = [await house.poll(await house.worker(), free=1, seq=1) for _ in range(5)]
    await house.fire(*[0] * 5)
    await house.dispatcher.turn()
    assert [len((await each).assignments) for each in waiting] == [1] * 5


async def test_a_worker_that_comes_while_others_are_served_is_served_next(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be one that can do what the others cannot."""
    first, second = await house.worker(), await house.worker()
    await house.poll(first, free=1)
    real = house.store.next_eligible_at

    async def meanwhile(after: Micros = 0, *, constrained_after: Micros = 0) -> Micros | None:
        await house.poll(second, free=1)
        return await real(after, constrained_after=constrained_after)

    monkeypatch.setattr(house.store, "next_eligible_at", meanwhile)
    assert await house.dispatcher.turn() == 0
    monkeypatch.undo()
    assert await house.dispatcher.turn() == TICK


async def test_a_claim_that_fails_is_not_the_end_of_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await house.worker()
    await house.poll(session, free=1)
    monkeypatch.setattr(house.store, "claim", mock.Mock(side_effect=Unavailable("away")))
    with pytest.raises(Unavailable):
        await house.dispatcher.turn()
    house.nudged.reset_mock()
    await house.poll(session, free=1)
    assert house.nudged.called


async def test_runs_beyond_the_quota_of_their_tenant_wait_for_the_next_poll(house: House) -> None:
    """The dispatcher does not claim for them again and again, although workers have free slots."""
    session = await house.worker(slots=12)
    tenants = ["default", "acme", "beta", "gamma"]
    house.store.share_workers({tenant: TenantShare(concurrent_runs=1) for tenant in tenants})
    now = house.store.now()
    for tenant in tenants:
        if tenant != "default":
            await house.store.create_tenant(Tenant(id=tenant, created_at=now, updated_at=now))
        await house.store.submit([one_shot(now, tenant=tenant) for _ in range(10)])
    waiting = await house.poll(session, free=12)
    await house.dispatcher.turn()
    assert len((await waiting).assignments) == 4
    waiting = await house.poll(session, free=8)
    assert [await house.dispatcher.turn() for _ in range(2)] == [TICK, TICK]
    assert not waiting.done()
    waiting.cancel()


async def test_runs_that_are_still_to_come_are_handed_out_by_one_claim(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their delays count from when they arrive: of two answers the second might start first."""
    monkeypatch.setattr("timeball.stores.sql.runs.claiming.MAX_CLAIMS", 2)
    waiting = await house.poll(await house.worker(), free=6)
    await house.fire(0, *[200 * MILLISECOND] * 5)
    await house.dispatcher.turn()
    assert len((await waiting).assignments) == 6
