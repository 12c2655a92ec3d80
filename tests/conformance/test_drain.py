"""Workers that were ordered to drain get nothing new, by any kind of claim, on any server, and keep what they have."""

import asyncio

import msgspec
import pytest

from tests.support.builders import LEASE, one_shot, settlement, worker
from timeball.domain.dispatch.placement import Resources
from timeball.domain.instant import HOUR, SECOND, Micros
from timeball.domain.run.status import Status
from timeball.ports.store.jobs import Submission
from timeball.ports.store.runs import Claim, SlotRequest, WorkerOrders
from timeball.ports.store.store import Store
from timeball.ports.store.workers import Lease
from timeball.ports.worker_protocol import LOCAL_KEY, Started

NEEDY = Resources(cpu=1)


async def claimed(store: Store, *sessions: str) -> list[Claim]:
    return (await store.claim([SlotRequest(session, "", 10) for session in sessions], 0)).claims


async def test_a_draining_worker_gets_no_run(stores: tuple[Store, Store]) -> None:
    here, there = stores
    for name in ("w_1", "w_2"):
        await here.register(worker(name), LEASE)
    assert await here.drain("w_2")
    submissions = [one_shot(here.now()), one_shot(here.now(), resources=NEEDY)]
    await here.submit(submissions)
    assert await claimed(here, "w_2") == []
    assert await claimed(there, "w_2") == []
    got = await claimed(there, "w_1", "w_2")
    assert {claim.run_id for claim in got} == {each.runs[0].id for each in submissions}
    assert {claim.session for claim in got} == {"w_1"}


async def test_a_draining_worker_is_assigned_nothing_on_submit(store: Store) -> None:
    await store.register(worker("w_2"), LEASE)
    await store.drain("w_2")
    wants = [SlotRequest("w_2", "", 10), SlotRequest("w_1", "", 10)]
    _, got = await store.submit_and_claim([one_shot(store.now())], wants)
    assert [claim.session for claim in got] == ["w_1"]
    _, got = await store.submit_and_claim([one_shot(store.now())], wants[:1])
    assert got == []
    assert len(await claimed(store, "w_1")) == 1


async def test_what_a_draining_worker_has_stays_its_own(store: Store) -> None:
    await store.submit([one_shot(store.now())])
    (claim,) = await claimed(store, "w_1")
    await store.drain("w_1")
    assert list(await store.holding("w_1")) == [claim.token]
    assert await store.give_back("w_1", [claim.token], 99) == 0
    assert await store.lapsed(10) == []
    (settled,) = await store.settle([settlement(claim)])
    assert settled is not None
    assert settled.status is Status.SUCCEEDED


async def test_the_order_is_told_with_every_renewal_and_to_every_server(stores: tuple[Store, Store]) -> None:
    here, there = stores
    await here.register(worker("w_1"), LEASE)
    assert await here.renew([("w_1", LOCAL_KEY)], LEASE) == [Lease("worker of w_1", LOCAL_KEY)]
    assert await here.drain("w_1")
    assert await there.renew([("w_1", LOCAL_KEY)], LEASE) == [Lease("worker of w_1", LOCAL_KEY, draining=True)]
    assert await there.worker_orders() == WorkerOrders(drains=["w_1"])
    (listed,) = await there.workers()
    assert listed.draining_since is not None
    assert listed.draining_since <= there.now() + SECOND
    assert await there.drain("w_1"), "it may be repeated"
    (again,) = await here.workers()
    assert again.draining_since == listed.draining_since


async def test_an_order_is_told_beside_the_cancels(store: Store) -> None:
    await store.submit([one_shot(store.now())])
    (claim,) = await claimed(store, "w_1")
    await store.request_cancel([claim.run_id])
    await store.drain("w_1")
    assert await store.worker_orders() == WorkerOrders([("w_1", claim.token, False)], ["w_1"])


async def test_only_a_worker_with_a_lease_can_be_ordered_to_drain(store: Store) -> None:
    assert not await store.drain("w_unknown")
    await store.register(worker("w_2"), LEASE)
    await store.end_session("w_2")
    assert not await store.drain("w_2")
    await store.register(worker("w_3"), 1)
    await asyncio.sleep(0.01)
    assert not await store.drain("w_3")
    assert await store.worker_orders() == WorkerOrders()
    await store.drain("w_1")
    await store.end_session("w_1")
    assert await store.worker_orders() == WorkerOrders(), "it has left"


async def test_the_order_holds_for_the_session_that_replaces_a_lost_one(store: Store) -> None:
    """A worker that lost its session before it heard of the order is the same process still."""
    assert not await store.register(worker("w_2", key="k_1"), LEASE)
    await store.drain("w_2")
    await store.renew([("w_2", "k_1")], 1)
    await asyncio.sleep(0.01)
    await store.lapsed(10)
    assert await store.register(worker("w_3", key="k_1"), LEASE, after="w_2")
    assert not await store.register(worker("w_4", key="k_2"), LEASE, after="w_2"), "another key says so"
    assert not await store.register(worker("w_5", key="k_1"), LEASE, after="w_unknown")
    assert not await store.register(worker("w_6", key="k_1"), LEASE), "a new process"
    assert (await store.worker_orders()).drains == ["w_3"]
    await store.submit([one_shot(store.now())])
    assert [claim.session for claim in await claimed(store, "w_3", "w_4")] == ["w_4"]


async def test_a_draining_worker_is_kept_for_no_run(store: Store) -> None:
    """A run that only a large worker can take reserves one; after that drains, another one."""
    for name in ("w_2", "w_3"):
        await store.register(worker(name, slots=4, cpu=4.0), LEASE)
    small = [one_shot(store.now(), resources=NEEDY) for _ in range(8)]
    await store.submit(small)
    held = await claimed(store, "w_2", "w_3")
    assert len(held) == 8
    large = waiting_for(one_shot(store.now(), resources=Resources(cpu=4), priority="high"), 100 * HOUR)
    await store.submit([large])
    (first,) = [claim for claim in held if claim.session == "w_2"][:1]
    await store.settle([settlement(first)])
    await store.claim([SlotRequest("w_2", "", 1)], 0)
    reserved = {each.session for each in await store.workers() if each.reserved_for is not None}
    assert reserved == {"w_2"}
    await store.drain("w_2")
    assert not any(each.reserved_for for each in await store.workers())
    (other,) = [claim for claim in held if claim.session == "w_3"][:1]
    await store.settle([settlement(other)])
    await store.claim([SlotRequest("w_3", "", 1)], 0)
    assert {each.session for each in await store.workers() if each.reserved_for is not None} == {"w_3"}


@pytest.mark.parametrize("drains", [False, True])
async def test_no_attempt_makes_room_on_a_draining_worker(store: Store, drains: bool) -> None:
    await store.register(worker("w_2", slots=1, labels=["x"], dedicated=True), LEASE)
    await store.submit([one_shot(store.now(), priority="low", preemptible=True, runs_on=["x"])])
    (claim,) = await claimed(store, "w_2")
    started = Started(run_id=claim.run_id, token=claim.token, age=0)
    await store.note("w_2", [(started, store.now())], [])
    await store.submit([waiting_for(one_shot(store.now(), priority="high", runs_on=["x"]), 60 * SECOND)])
    if drains:
        await store.drain("w_2")
    await store.preempt()
    assert [session for session, *_ in await store.pause_orders()] == ([] if drains else ["w_2"])


def waiting_for(submission: Submission, time: Micros) -> Submission:
    """With a run that has been ready for so long."""
    since = submission.job.created_at - time
    runs = tuple(msgspec.structs.replace(run, fire_time=since, eligible_at=since) for run in submission.runs)
    return msgspec.structs.replace(submission, runs=runs)
