"""Preemption: which attempt gives up its slots for which run, guarded by id, attempt, token and state, and at most
three times (I17, I18)."""

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from tests.conformance.conftest import Connect
from tests.support.builders import LEASE, one_shot, settlement, worker
from timeball.domain.dispatch import preemption
from timeball.domain.dispatch.limits import Concurrency
from timeball.domain.dispatch.placement import Resources
from timeball.domain.dispatch.preemption import Preemption
from timeball.domain.dispatch.slot_pools import PoolRoom, SlotPool, SlotPools
from timeball.domain.instant import SECOND
from timeball.domain.run.lifecycle import Lost, Released
from timeball.domain.task.task import Http, Python, Shell
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store
from timeball.ports.worker_protocol import Pausing, Started

LONG_AGO = 5 * SECOND


class House:
    """A store with one worker of one slot."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def submit(self, *, ago: int = LONG_AGO, **fields: Any) -> str:
        now = self.store.now() - ago
        sent = one_shot(now, **fields)
        await self.store.submit([sent])
        return sent.runs[0].id

    async def claim(self, session: str = "w_1", slots: int = 1) -> list[Claim]:
        return (await self.store.claim([SlotRequest(session, "w", slots)], 0)).claims

    async def busy(self, session: str = "w_1", **fields: Any) -> Claim:
        """A low run that allows it, which a worker has started."""
        await self.submit(**{"priority": "low", "preemptible": True, **fields})
        (got,) = await self.claim(session)
        await self.started(got, session)
        return got

    async def started(self, got: Claim, session: str = "w_1") -> None:
        start = Started(run_id=got.run_id, token=got.token, age=0)
        assert not await self.store.note(session, [(start, self.store.now())], [])

    async def orders(self) -> list[tuple[str, int, int]]:
        await self.store.preempt()
        return await self.store.pause_orders()

    async def say(self, got: Claim, what: Any, number: int = 1, session: str = "w_1") -> list[int]:
        said = Pausing(run_id=got.run_id, token=got.token, number=number, what=what, age=0)
        return await self.store.note_pauses(session, [(said, self.store.now())])

    async def of(self, got: Claim) -> list[Preemption]:
        return await self.store.preemptions(got.run_id)


@pytest_asyncio.fixture(loop_scope="session")
async def house(connect: Connect) -> House:
    store = await connect()
    await store.register(worker("w_1", slots=1), LEASE)
    return House(store)


async def test_a_high_run_that_finds_no_slot_has_a_low_one_make_room(house: House) -> None:
    low = await house.busy()
    assert not await house.orders(), "nobody waits"
    high = await house.submit(priority="high")
    assert await house.orders() == [("w_1", low.token, 1)]
    assert await house.orders() == [("w_1", low.token, 1)], "the order is repeated, and there is one"
    assert not await house.say(low, "paused")
    assert await house.orders() == []
    [made] = await house.of(low)
    assert (made.by_run, made.is_open, made.paused_at is not None) == (high, True, True)
    (got,) = await house.claim()
    assert got.run_id == high
    await house.store.settle([settlement(got, at=house.store.now())])
    assert not await house.say(low, "resumed")
    [made] = await house.of(low)
    assert not made.is_open
    await house.store.settle([settlement(low, at=house.store.now())])
    assert not await house.store.preempt(), "there is nothing to look at any more"


@pytest.mark.parametrize(
    ("low", "waiting"),
    [
        ({"preemptible": False}, {"priority": "high"}),
        ({}, {"priority": 4}),
        ({"priority": "medium"}, {"priority": 7}),
        ({}, {"priority": "high", "ago": 0}),
        ({}, {"priority": "high", "concurrency": Concurrency(key="k", limit=1)}),
        ({}, {"priority": "high", "runs_on": ["gpu"]}),
        ({}, {"priority": "high", "resources": Resources(slots=2)}),
    ],
    ids=["not allowed", "not a class higher", "two levels", "too soon", "limited", "elsewhere", "too large"],
)
async def test_nobody_makes_room_for_nothing(house: House, low: dict[str, Any], waiting: dict[str, Any]) -> None:
    await house.busy(**low)
    await house.submit(**waiting)
    assert not await house.orders()


POOLS = [SlotPool("processes", 1, ["shell"]), SlotPool("threads", 5, [], ["t"])]


def pooled(free: int, processes: int) -> SlotRequest:
    return SlotRequest("w_1", "w", free, room=PoolRoom(SlotPools(POOLS), {"processes": processes, "threads": 5}))


async def test_a_run_that_waits_for_a_pool_has_a_run_of_this_pool_make_room(connect: Connect) -> None:
    """The worker has free slots, but not of the pool."""
    store = await connect()
    await store.register(worker("w_1", slots=50, pools=POOLS), LEASE)
    house = House(store)
    low: dict[str, Claim] = {}
    for kind, task in {
        "http": Http(url="http://a"),
        "shell": Shell(command="a"),
        "async": Python(function="a"),
    }.items():
        await house.submit(priority="low", preemptible=True, task=task)
        (low[kind],) = (await store.claim([pooled(50, 1)], 0)).claims
        await house.started(low[kind])
    await house.submit(priority="medium", task=Shell(command="b"))
    high = await house.submit(priority="high", task=Shell(command="c"))
    assert not (await store.claim([pooled(47, 0)], 0)).claims
    assert await house.orders() == [("w_1", low["shell"].token, 1)]
    assert not await house.say(low["shell"], "paused")
    assert [made.by_run for made in await house.of(low["shell"])] == [high]
    assert [got.run_id for got in (await store.claim([pooled(48, 1)], 0)).claims] == [high]
    assert not await house.orders(), "the medium run waits for the pool, which no other run can make room in"


async def test_a_free_slot_elsewhere_is_room_enough(house: House) -> None:
    await house.busy()
    await house.store.register(worker("w_2", slots=1), LEASE)
    await house.submit(priority="high")
    assert not await house.orders()


async def test_nobody_makes_room_while_another_would_get_the_slot(house: House) -> None:
    """An old run of low priority has aged past the high one: it is next, and not entitled."""
    await house.busy()
    await house.submit(priority="low", ago=3_600 * SECOND)
    await house.submit(priority="high")
    assert not await house.orders()


async def test_one_that_was_not_started_or_is_to_be_cancelled_is_left_alone(house: House) -> None:
    await house.submit(priority="low", preemptible=True)
    (got,) = await house.claim()
    await house.submit(priority="high")
    assert not await house.orders()
    await house.started(got)
    await house.store.request_cancel([got.run_id])
    assert not await house.orders()


async def test_a_run_makes_room_three_times_at_most(house: House) -> None:
    low = await house.busy()
    for number in range(1, preemption.MAX_PREEMPTIONS + 1):
        await house.submit(priority="high")
        assert await house.orders() == [("w_1", low.token, number)]
        await house.say(low, "paused", number)
        (high,) = await house.claim()
        await house.store.settle([settlement(high, at=house.store.now())])
        await house.say(low, "resumed", number)
    await house.submit(priority="high")
    assert not await house.orders()
    assert [each.number for each in await house.of(low)] == [1, 2, 3]


async def test_one_that_cannot_stop_says_so_and_is_not_asked_again(house: House) -> None:
    low = await house.busy()
    await house.submit(priority="high")
    assert await house.orders()
    await house.say(low, "refused")
    assert not await house.orders()
    assert not (await house.of(low))[0].is_open


async def test_one_that_was_handed_back_cost_no_attempt_and_waits_behind(house: House) -> None:
    low = await house.busy()
    high = await house.submit(priority="high")
    assert await house.orders()
    await house.store.settle([settlement(low, Released(), at=house.store.now())])
    await house.store.preempt()
    assert not (await house.of(low))[0].is_open
    (first,) = await house.claim()
    assert first.run_id == high
    await house.store.settle([settlement(first, at=house.store.now())])
    (again,) = await house.claim()
    assert (again.run_id, again.attempt) == (low.run_id, 1)
    await house.submit(priority="high")
    await house.started(again)
    assert await house.orders() == [("w_1", again.token, 2)], "it still counts"


async def test_words_of_a_lost_attempt_change_nothing(house: House) -> None:
    low = await house.busy()
    await house.submit(priority="high")
    assert await house.orders()
    await house.store.settle([settlement(low, Lost(), at=house.store.now())])
    assert await house.orders() == []
    before = await house.of(low)
    assert not before[0].is_open
    assert await house.say(low, "paused") == [low.token]
    assert await house.of(low) == before


async def test_cpu_and_slots_are_lent_and_memory_is_not(connect: Connect) -> None:
    house = House(await connect())
    await house.store.register(worker("w_1", slots=1, cpu=4.0, memory_mb=1_000), LEASE)
    low = await house.busy(resources=Resources(cpu=4, memory_mb=600))
    await house.submit(priority="high", resources=Resources(cpu=1, memory_mb=500))
    assert not await house.orders(), "its memory stays where it is"
    high = await house.submit(priority=9, resources=Resources(cpu=4, memory_mb=400))
    assert await house.orders() == [("w_1", low.token, 1)]
    await house.say(low, "paused")
    (got,) = await house.claim()
    assert got.run_id == high
    await house.store.settle([settlement(got, at=house.store.now())])
    await house.say(low, "resumed")
    await house.submit(priority=9, resources=Resources(cpu=1))
    assert await house.claim() == [], "it has its CPUs again"


async def test_two_servers_at_once_ask_one(stores: tuple[Store, Store]) -> None:
    one, other = stores
    house = House(one)
    for session in ("w_1", "w_2"):
        await one.register(worker(session, slots=1), LEASE)
        await house.busy(session)
    await house.submit(priority="high")
    await asyncio.gather(*(each.preempt() for each in (one, other, one, other)))
    assert len(await other.pause_orders()) == 1


@pytest.mark.parametrize("fields", [{}, {"resources": Resources(slots=1, cpu=1)}])
async def test_a_worker_that_takes_only_some_kinds_makes_room_for_these_only(
    house: House, fields: dict[str, Any]
) -> None:
    await house.store.register(worker("w_2", slots=1, kinds=["http"]), LEASE)
    await house.busy(preemptible=False)
    low = await house.busy("w_2", task=Http(url="http://a"))
    await house.submit(priority="high", task=Shell(command="true"), **fields)
    assert await house.orders() == []
    await house.submit(priority="high", task=Http(url="http://a"), **fields, ago=2 * LONG_AGO)
    assert await house.orders() == [("w_2", low.token, 1)]
