"""Runs that require certain workers: resources and labels, reserved by the claim and free after the end (I18)."""

import asyncio
from typing import Any

from tests.support.builders import LEASE, one_shot, settlement, worker
from timeball.domain.dispatch.fair_share import FairShares
from timeball.domain.dispatch.placement import Need, Resources
from timeball.domain.instant import HOUR, MINUTE
from timeball.domain.run.lifecycle import Cancelled, Failed, Failure, Lost, Outcome, Released, Succeeded
from timeball.domain.task.retry import Retry
from timeball.ports.store.jobs import Submission
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.runs import claiming


async def claim(store: Store, *wants: tuple[str, int]) -> list[Claim]:
    return (await store.claim([SlotRequest(session, "", slots) for session, slots in wants], 0)).claims


def run_ids(*sent: Submission) -> list[str]:
    return [each.runs[0].id for each in sent]


async def asking(store: Store, **fields: Any) -> Submission:
    sent = one_shot(store.now(), **fields)
    await store.submit([sent])
    return sent


async def test_only_a_worker_with_the_labels_gets_a_run(store: Store) -> None:
    await store.register(worker("w_gpu", labels=["gpu", "linux"]), LEASE)
    sent = await asking(store, runs_on=["gpu"])
    assert await claim(store, ("w_1", 5)) == []
    (got,) = await claim(store, ("w_1", 5), ("w_gpu", 1))
    assert (got.session, got.run_id) == ("w_gpu", sent.runs[0].id)


async def test_a_run_that_nobody_can_take_is_in_nobodys_way(store: Store) -> None:
    for _ in range(20):
        await asking(store, runs_on=["mars"], priority="high")
    sent = await asking(store, resources=Resources(cpu=1))
    plain = await asking(store, priority="low")
    assert {got.run_id for got in await claim(store, ("w_1", 2))} == set(run_ids(sent, plain))


async def test_cpu_and_memory_are_reserved_and_free_however_a_run_ends(store: Store) -> None:
    await store.register(worker("w_4", cpu=4, memory_mb=1000), LEASE)
    outcomes: list[Outcome] = [
        Succeeded(),
        Cancelled(),
        Lost(),
        Released(),
        Failed(Failure(kind="exit", message="", exit_code=1)),
    ]
    for outcome in outcomes:
        fields = {"resources": Resources(cpu=2.5, memory_mb=600), "retry": Retry(max_retries=9, base="1h")}
        first, second = await asking(store, **fields), await asking(store, **fields)
        (got,) = await claim(store, ("w_4", 10))
        assert got.run_id == first.runs[0].id
        assert await claim(store, ("w_4", 10)) == []
        await store.settle([settlement(got, outcome)])
        await store.request_cancel([first.runs[0].id])
        (got,) = await claim(store, ("w_4", 10))
        assert got.run_id == second.runs[0].id
        await store.settle([settlement(got)])


async def test_a_run_may_take_several_slots(store: Store) -> None:
    big = await asking(store, resources=Resources(slots=3))
    assert await claim(store, ("w_1", 2)) == []
    (got,) = await claim(store, ("w_1", 3))
    assert got.run_id == big.runs[0].id


async def test_rank_decides_among_all_of_them(store: Store) -> None:
    low = await asking(store, priority="low")
    high = await asking(store, priority="high", resources=Resources(cpu=1))
    assert [got.run_id for got in await claim(store, ("w_1", 1))] == run_ids(high)
    assert [got.run_id for got in await claim(store, ("w_1", 1))] == run_ids(low)


async def test_a_dedicated_worker_takes_only_what_asks_for_it(store: Store) -> None:
    await store.register(worker("w_d", labels=["gpu"], dedicated=True), LEASE)
    await asking(store)
    assert await claim(store, ("w_d", 5)) == []
    sent = await asking(store, runs_on=["gpu"])
    assert [got.run_id for got in await claim(store, ("w_d", 5))] == run_ids(sent)


async def test_a_large_run_that_waits_too_long_gets_a_worker_reserved(store: Store) -> None:
    """A stream of small runs keeps every slot busy but one; without a reservation the large one never fits."""
    await store.end_session("w_1")
    await store.register(worker("w_4", slots=4), LEASE)
    big = one_shot(store.now(), at=store.now() - 10 * MINUTE, resources=Resources(slots=4), priority=0)
    await store.submit([big])
    # One-shots of the past became claimable when they were submitted; this one has been for long.
    await asking(store)
    held = await claim(store, ("w_4", 1))
    assert len(held) == 1
    await asking(store)
    assert await claim(store, ("w_4", 3)) == []  # nothing else: the worker is kept free for the large one
    [reserved] = [each.reserved_for for each in await store.workers() if each.session == "w_4"]
    assert reserved == big.runs[0].profile
    await store.settle([settlement(got) for got in held])
    (got,) = await claim(store, ("w_4", 4))
    assert got.run_id == big.runs[0].id
    await store.settle([settlement(got)])
    assert len(await claim(store, ("w_4", 4))) == 1


async def test_a_reservation_ends_with_the_run_it_is_for(store: Store) -> None:
    await store.register(worker("w_4", slots=4), LEASE)
    big = one_shot(store.now(), at=store.now() - 10 * MINUTE, resources=Resources(slots=4), priority=0)
    await store.submit([big])
    await asking(store)
    await claim(store, ("w_4", 2))
    await store.request_cancel(run_ids(big))
    await asking(store)
    assert len(await claim(store, ("w_4", 2))) >= 1


async def test_what_the_runs_of_a_worker_take_is_told_with_it(store: Store) -> None:
    await store.register(worker("w_4", slots=10, cpu=4, memory_mb=1000), LEASE)
    sent = [await asking(store, resources=Resources(cpu=1.5, memory_mb=100, slots=2)) for _ in range(2)]
    sent.append(await asking(store))
    taken = await claim(store, ("w_4", 10))
    assert {each.run_id for each in taken} == set(run_ids(*sent))
    used = {each.session: (each.running, each.used) for each in await store.workers()}
    assert used == {"w_4": (3, Need(5, 3000, 200)), "w_1": (0, Need(0))}
    await store.settle([settlement(each) for each in taken])
    assert {each.running + each.used.slots for each in await store.workers()} == {0}


async def test_a_worker_is_not_kept_free_for_a_run_that_waits_for_its_retry(store: Store) -> None:
    await store.end_session("w_1")
    await store.register(worker("w_4", slots=4), LEASE)
    small = await asking(store)
    held = await claim(store, ("w_4", 4))
    assert run_ids(small) == [got.run_id for got in held]
    retry = Retry(backoff="fixed", base="1h")
    big = one_shot(store.now(), at=store.now() - 10 * MINUTE, resources=Resources(slots=4), priority=0, retry=retry)
    await store.submit([big])
    assert await claim(store, ("w_4", 3)) == []
    await store.settle([settlement(got) for got in held])
    (got,) = await claim(store, ("w_4", 4))
    assert got.run_id == big.runs[0].id
    await store.settle([settlement(got, Failed(Failure(kind="exit", message="", exit_code=1)))])
    await asking(store)
    assert len(await claim(store, ("w_4", 4))) == 1


async def test_a_worker_is_kept_free_for_any_run_of_a_kind(store: Store) -> None:
    """Which of them comes first may change: nobody waits for ever beside an idle worker."""
    await store.end_session("w_1")
    await store.register(worker("w_4", slots=4), LEASE)
    await asking(store)
    held = await claim(store, ("w_4", 4))
    first, second = (
        one_shot(store.now(), at=store.now() - age * MINUTE, resources=Resources(slots=4), priority=0)
        for age in (10, 11)
    )
    await store.submit([first])
    assert await claim(store, ("w_4", 3)) == []
    await store.submit([second])
    await store.settle([settlement(got) for got in held])
    assert [got.run_id for got in await claim(store, ("w_4", 4))] == run_ids(second)


async def test_a_worker_that_served_one_kind_is_kept_free_for_the_next_at_once(store: Store) -> None:
    """In the claim that ends the first reservation: until the next claim others would take the room."""
    await store.end_session("w_1")
    await store.register(worker("w_4", slots=4), LEASE)
    await asking(store)
    held = await claim(store, ("w_4", 4))
    first, second = (
        one_shot(store.now(), at=store.now() - HOUR, resources=Resources(slots=4), priority=level) for level in (1, 0)
    )
    await store.submit([first, second])
    assert await claim(store, ("w_4", 3)) == []
    assert await kept_for(store) == [first.runs[0].profile]
    await store.settle([settlement(got) for got in held])
    assert [got.run_id for got in await claim(store, ("w_4", 4))] == run_ids(first)
    assert await kept_for(store) == [second.runs[0].profile]


async def kept_for(store: Store) -> list[str]:
    return [each.reserved_for for each in await store.workers() if each.reserved_for is not None]


async def test_only_a_worker_that_asks_for_work_is_kept_free(store: Store) -> None:
    """One that is about to leave has the most room, and will never use it."""
    await store.register(worker("w_2", slots=2), LEASE)
    await asking(store)
    await asking(store)
    held = await claim(store, ("w_2", 2))
    await store.submit([one_shot(store.now(), at=store.now() - 10 * MINUTE, resources=Resources(slots=2), priority=0)])
    await store.settle([settlement(held.pop())])
    await claim(store, ("w_2", 1))
    assert [each.session for each in await store.workers() if each.reserved_for] == ["w_2"]


async def test_who_cannot_run_a_run_does_not_hide_it_from_who_can(stores: tuple[Store, Store]) -> None:
    """A claim looks only at what its own workers may have; so it keeps nothing else from another server."""
    here: Any = stores[0]
    await here.register(worker("w_gpu", labels=["gpu"]), LEASE)
    sent = await asking(here, runs_on=["gpu"])
    inside, done = asyncio.Event(), asyncio.Event()

    async def slow(tx: Tx) -> claiming.AssignedRun:
        claimed = await claiming.claim(tx, [SlotRequest("w_1", "", 4)], 0, MINUTE, here.now(), FairShares())
        inside.set()
        if stores[0] is not stores[1]:
            await done.wait()
        return claimed

    other = asyncio.create_task(here._db.write(slow))
    await inside.wait()
    assert [got.run_id for got in await claim(stores[1], ("w_gpu", 1))] == run_ids(sent)
    done.set()
    await other
