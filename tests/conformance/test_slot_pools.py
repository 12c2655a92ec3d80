"""Slot pools: no worker gets more runs of a pool than the pool has free slots, and a full pool blocks no other run."""

from collections import Counter
from typing import Any

import pytest
from msgspec import structs

from tests.support.builders import LEASE, one_shot, plan_due, recurring, settlement, worker
from timeball.domain.dispatch.placement import Need, Offer, Resources
from timeball.domain.dispatch.slot_pools import PoolRoom, SlotPool, SlotPools
from timeball.domain.instant import DAY, SECOND
from timeball.domain.task.task import Http, Python, Script, Shell
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store
from timeball.stores.sql.runs import claiming

SHELL, HTTP, ASYNC, THREAD = Shell(command="true"), Http(url="http://a"), Python(function="a"), Python(function="t")
POOLS = [SlotPool("threads", 5, [], ["t"]), SlotPool("processes", 2, ["shell", "script"], ["p"])]


def request(session: str, slots: int, **room: int) -> SlotRequest:
    return SlotRequest(session, "", slots, room=PoolRoom(SlotPools(POOLS), room) if room else None)


async def claim(store: Store, *wants: SlotRequest) -> list[Claim]:
    """The claimed runs, after as many rounds as there is something to look at again."""
    got: list[Claim] = []
    while True:
        claimed = await store.claim(wants, 0)
        got += claimed.claims
        wants = tuple(_after(want, claimed.claims) for want in wants)
        if not claimed.again:
            return got


def _after(want: SlotRequest, claims: list[Claim]) -> SlotRequest:
    mine = [each for each in claims if each.session == want.session]
    room = None if want.room is None else want.room.copy()
    for each in mine:
        if room is not None:
            room.take(each.pool, each.slots)
    slots = want.slots - sum(each.slots for each in mine)
    return SlotRequest(want.session, "", slots, room=room)


async def submit(store: Store, count: int = 1, **fields: Any) -> list[str]:
    sent = [one_shot(store.now(), **fields) for _ in range(count)]
    await store.submit(sent)
    return [each.runs[0].id for each in sent]


def ids(claims: list[Claim]) -> set[str]:
    return {each.run_id for each in claims}


async def test_a_worker_gets_no_more_runs_of_a_pool_than_have_room(store: Store) -> None:
    shells = await submit(store, 10, task=SHELL)
    threads = await submit(store, 10, task=THREAD)
    cheap = await submit(store, 10, task=HTTP) + await submit(store, 10, task=ASYNC)
    got = await claim(store, request("w_1", 100, threads=5, processes=2))
    assert Counter(each.pool for each in got) == {None: 20, "threads": 5, "processes": 2}
    assert ids(got) == {*cheap, *threads[:5], *shells[:2]}, "the first of each pool"
    assert await claim(store, request("w_1", 73, threads=0, processes=0)) == []
    more = await claim(store, request("w_1", 75, threads=1, processes=1))
    assert ids(more) == {threads[5], shells[2]}
    await store.register(worker("w_2"), LEASE)
    rest = await claim(store, request("w_2", 100))
    assert ids(rest) == {*threads[6:], *shells[3:]}, "a worker without pools takes all"


async def test_a_full_pool_is_in_no_other_runs_way(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claiming, "LOOK_AT", 5)
    await submit(store, 23, task=SHELL, priority="high")
    await submit(store, 7, task=Script(script="a.sh"), priority="high", resources=Resources(slots=2))
    wanted = await submit(store, 2, task=HTTP, priority="low")
    assert ids(await claim(store, request("w_1", 2, threads=5, processes=0))) == set(wanted)


async def test_runs_of_a_pool_start_in_the_order_of_their_rank(store: Store) -> None:
    low = await submit(store, 4, task=SHELL, priority="low")
    assert await claim(store, request("w_1", 50, threads=5, processes=0)) == []
    (high,) = await submit(store, task=SHELL, priority="high")
    assert ids(await claim(store, request("w_1", 50, threads=5, processes=1))) == {high}
    assert ids(await claim(store, request("w_1", 50, threads=5, processes=2))) == set(low[:2])


async def test_workers_with_room_take_what_others_have_no_room_for(store: Store) -> None:
    await store.register(worker("w_9", pools=POOLS), LEASE)
    shells = await submit(store, 3, task=SHELL)
    got = await claim(store, request("w_9", 50, threads=5, processes=0), request("w_1", 50, threads=5, processes=2))
    assert ids(got) == set(shells[:2])
    assert {each.session for each in got} == {"w_1"}
    assert ids(await claim(store, request("w_9", 50, threads=5, processes=1))) == {shells[2]}


async def test_the_claim_says_that_runs_wait_for_room(store: Store) -> None:
    """The dispatcher then claims again as soon as a worker has room, although no run became due."""
    await submit(store, 3, task=SHELL)
    claimed = await store.claim([request("w_1", 50, threads=5, processes=2)], 0)
    assert (len(claimed.claims), claimed.again, claimed.crowded) == (2, True, True), "the third run was set aside"
    claimed = await store.claim([request("w_1", 48, threads=5, processes=0)], 0)
    assert (len(claimed.claims), claimed.again, claimed.crowded) == (0, False, True)
    claimed = await store.claim([request("w_1", 48, threads=5, processes=1)], 0)
    assert (len(claimed.claims), claimed.again, claimed.crowded) == (1, False, True), "more runs may wait"
    claimed = await store.claim([request("w_1", 48, threads=5, processes=1)], 0)
    assert (len(claimed.claims), claimed.again, claimed.crowded) == (0, False, False)


async def test_a_released_run_waits_for_its_pool_again(store: Store) -> None:
    (first, second) = await submit(store, 2, task=SHELL)
    (got,) = await claim(store, request("w_1", 50, threads=5, processes=1))
    assert got.run_id == first
    await store.settle([settlement(got)])
    (got,) = await claim(store, request("w_1", 50, threads=5, processes=1))
    assert (got.run_id, got.pool, got.slots) == (second, "processes", 1)


async def test_a_run_with_more_slots_than_the_pool_has_takes_all_of_it(store: Store) -> None:
    (large,) = await submit(store, task=SHELL, resources=Resources(slots=4))
    small = await submit(store, 2, task=SHELL)
    got = await claim(store, request("w_1", 50, threads=5, processes=2))
    assert ids(got) in ({large}, set(small))
    assert ids(await claim(store, request("w_1", 46, threads=5, processes=0))) == set()


async def test_runs_that_have_waited_long_for_their_pool_reserve_no_worker(store: Store) -> None:
    """They take the next free slot of the pool. A reservation would keep the other slots of the worker empty."""
    long_ago = store.now() - DAY
    old = [one_shot(long_ago, task=task) for task in (SHELL, Script(script="a.sh"), SHELL)]
    await store.submit(old)
    assert await claim(store, request("w_1", 50, threads=5, processes=0)) == []
    (first,) = await claim(store, request("w_1", 1, threads=5, processes=2))
    assert first.run_id == old[0].runs[0].id
    await submit(store, 2, task=HTTP)
    got = await claim(store, request("w_1", 4, threads=5, processes=1))
    assert Counter(each.pool for each in got) == {None: 2, "processes": 1}
    await store.register(worker("w_9", tenants=["acme"], pools=POOLS), LEASE)
    await store.submit([one_shot(long_ago, task=task, tenant="acme") for task in (SHELL, Script(script="a.sh"))])
    assert await claim(store, request("w_9", 50, threads=5, processes=0)) == []
    assert len(await claim(store, request("w_9", 1, threads=5, processes=2))) == 1
    (wanted,) = await submit(store, task=HTTP, tenant="acme")
    assert wanted in ids(await claim(store, request("w_9", 2, threads=5, processes=0)))


async def test_a_claim_fills_a_pool_although_most_tenants_have_few_runs(store: Store) -> None:
    """A claim reads a share of the runs of each tenant, and then claims again."""
    tenants = [f"t{number}" for number in range(10)]
    pools = [SlotPool("processes", 20, ["shell"])]
    await store.register(worker("w_9", slots=50, pools=pools), LEASE)
    await submit(store, 30, task=SHELL, tenant=tenants[0])

    def want(processes: int) -> SlotRequest:
        return SlotRequest("w_9", "", 50, room=PoolRoom(SlotPools(pools), {"processes": processes}))

    assert await claim(store, want(0)) == []
    for tenant in tenants[1:]:
        await submit(store, task=ASYNC, tenant=tenant)
    got = await claim(store, want(20))
    assert Counter(each.pool for each in got) == {"processes": 20, None: 9}


async def test_equal_runs_are_compared_once_with_what_a_worker_accepts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I28: a claim beside a full pool considers each run, for each of maybe hundreds of workers."""
    await submit(store, 3, task=SHELL)
    assert await claim(store, request("w_1", 50, threads=5, processes=0)) == []
    compared = 0
    suits = Offer.suits

    def counted(offer: Offer, need: Need) -> bool:
        nonlocal compared
        compared += 1
        return suits(offer, need)

    monkeypatch.setattr(Offer, "suits", counted)
    await submit(store, 200, task=HTTP)
    sessions = [f"w_many_{number}" for number in range(20)]
    for session in sessions:
        await store.register(worker(session, pools=POOLS), LEASE)
    got = await claim(store, *(request(session, 10, threads=5, processes=0) for session in sessions))
    assert Counter(each.session for each in got) == dict.fromkeys(sessions, 10)
    assert compared < 200, "each worker for each sort of run, not for each run"


async def test_a_submit_hands_over_only_what_has_room(store: Store) -> None:
    sent = [one_shot(store.now(), task=SHELL) for _ in range(2)]
    _, claims = await store.submit_and_claim(sent, [request("w_1", 50, threads=5, processes=2)])
    assert [each.pool for each in claims] == ["processes", "processes"]
    more = [one_shot(store.now(), task=task) for task in (SHELL, ASYNC)]
    _, claims = await store.submit_and_claim(more, [request("w_1", 48, threads=5, processes=0)])
    assert ids(claims) == {more[1].runs[0].id}


async def test_the_pools_of_a_worker_are_stored(store: Store) -> None:
    await store.register(worker("w_9", pools=POOLS), LEASE)
    (found,) = [each for each in await store.workers() if each.session == "w_9"]
    assert list(found.pools) == POOLS
    (lease,) = await store.renew([("w_9", str(found.key))], LEASE)
    assert lease is not None
    assert list(lease.pools) == POOLS


async def test_new_runs_join_the_queue_of_a_full_pool(store: Store) -> None:
    """No claim has to move them into the queue, one by one."""
    full = request("w_1", 50, threads=5, processes=0)
    first = await submit(store, 2, task=SHELL)
    assert await claim(store, full) == []
    more = await submit(store, 2, task=SHELL)
    (high,) = await submit(store, task=SHELL, priority="high")
    (http,) = await submit(store, task=HTTP)
    claimed = await store.claim([full], 0)
    assert (ids(claimed.claims), claimed.again, claimed.crowded) == ({http}, True, True), "the high run was set aside"
    await submit(store, 2, task=SHELL)
    claimed = await store.claim([full], 0)
    assert (claimed.claims, claimed.again, claimed.crowded) == ([], False, True), "none of them had to be set aside"
    assert ids(await claim(store, request("w_1", 50, threads=5, processes=3))) == {high, *first}
    assert ids(await claim(store, request("w_1", 50, threads=5, processes=2))) == set(more)


async def test_new_runs_join_no_queue_that_is_empty(store: Store) -> None:
    await submit(store, 2, task=SHELL)
    await claim(store, request("w_1", 50, threads=5, processes=1))
    assert len(await claim(store, request("w_1", 49, threads=5, processes=2))) == 1
    claimed = await store.claim([request("w_1", 48, threads=5, processes=1)], 0)
    assert not claimed.crowded
    await submit(store, 2, task=SHELL)
    claimed = await store.claim([request("w_1", 48, threads=5, processes=1)], 0)
    assert (len(claimed.claims), claimed.again) == (1, True), "the other run was set aside"


async def test_no_new_run_in_a_queue_passes_an_older_run_that_no_claim_has_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plans of recurring jobs insert runs without a queue."""
    monkeypatch.setattr(claiming, "LOOK_AT", 3)
    full = request("w_1", 50, threads=0, processes=0)
    (first,) = await submit(store, task=SHELL)
    assert await claim(store, full) == []
    long_ago = store.now() - SECOND
    await store.submit([recurring(long_ago, seconds=3_600, next_fire_at=long_ago, task=THREAD) for _ in range(9)])
    await plan_due(store)
    older = recurring(long_ago, seconds=3_600, next_fire_at=long_ago + 1, task=SHELL)
    await store.submit([older])
    await plan_due(store)
    (newer,) = await submit(store, task=SHELL)
    got = [await claim(store, request("w_1", slots, threads=0, processes=1)) for slots in (1, 2, 2)]
    assert [[each.run_id for each in some] for some in got[::2]] == [[first], [newer]]
    assert [each.job_id for each in got[1]] == [older.job.id]


@pytest.mark.parametrize(("look_at", "is_read"), [(3, False), (claiming.LOOK_AT, True)])
async def test_no_run_in_a_queue_passes_a_run_of_higher_priority_that_no_claim_has_read(
    store: Store, monkeypatch: pytest.MonkeyPatch, look_at: int, is_read: bool
) -> None:
    monkeypatch.setattr(claiming, "LOOK_AT", look_at)
    (first,) = await submit(store, task=SHELL)
    assert await claim(store, request("w_1", 50, threads=0, processes=0)) == []
    await submit(store, 5, task=THREAD, priority="high")
    (high,) = await submit(store, task=SHELL, priority="high")
    want = request("w_1", 2, threads=0, processes=1)
    claimed = await store.claim([want], 0)
    assert (ids(claimed.claims), claimed.again) == ({high} if is_read else set(), True)
    assert ids(claimed.claims or await claim(store, want)) == {high}
    assert ids(await claim(store, want)) == {first}


async def test_a_run_for_later_joins_no_queue(store: Store) -> None:
    """The queue may be gone when the run becomes due."""
    await submit(store, 2, task=SHELL)
    assert await claim(store, request("w_1", 50, threads=5, processes=0)) == []
    later = one_shot(store.now(), at=store.now() + DAY, task=SHELL)
    (run,) = later.runs
    await store.submit([structs.replace(later, runs=(structs.replace(run, created_at=store.now()),))])
    found = (await store.runs([run.id]))[run.id]
    assert found.profile is None


async def test_a_run_joins_no_queue_beside_a_worker_that_takes_it_without_one(store: Store) -> None:
    """A worker of a new version may execute a function as a coroutine that was in threads before."""
    await submit(store, 2, task=THREAD)
    assert await claim(store, request("w_1", 50, threads=0, processes=0)) == []
    await submit(store, 2, task=Python(function="u"))
    changed = [SlotPool("threads", 1, [], ["u"])]
    await store.register(worker("w_9", pools=changed), LEASE)
    want = SlotRequest("w_9", "", 50, room=PoolRoom(SlotPools(changed), {"threads": 0}))
    assert await claim(store, want) == []
    (new,) = await submit(store, task=THREAD)
    assert ids(await claim(store, want)) == {new}
