"""Claims for several tenants: a worker gets runs of its tenants only, and the tenants share the workers fairly."""

from collections import Counter
from typing import Any

import pytest
import pytest_asyncio

from tests.support.builders import LEASE, one_shot, settlement, worker
from timeball.domain.dispatch.fair_share import TenantShare
from timeball.domain.dispatch.placement import Resources
from timeball.domain.instant import SECOND
from timeball.domain.run.lifecycle import Failed, Failure, Released
from timeball.ports.store.jobs import Submission
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store

HOUR = 3600 * SECOND


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def bound(store: Store) -> None:
    await store.register(worker("w_acme", tenants=["acme"]), LEASE)
    await store.register(worker("w_default", tenants=["default"]), LEASE)
    await store.register(worker("w_both", tenants=["acme", "default"]), LEASE)


async def submit(store: Store, tenant: str, count: int = 1, **fields: Any) -> list[str]:
    sent: list[Submission] = [one_shot(store.now(), tenant=tenant, **fields) for _ in range(count)]
    await store.submit(sent)
    return [each.runs[0].id for each in sent]


async def claim(store: Store, *wants: tuple[str, int]) -> list[Claim]:
    """What the workers get, after as many rounds as there is something to look at again."""
    got: list[Claim] = []
    left = dict(wants)
    while True:
        claimed = await store.claim([SlotRequest(session, "", slots) for session, slots in left.items() if slots], 0)
        got += claimed.claims
        for each in claimed.claims:
            left[each.session] -= each.slots
        if not claimed.again:
            return got


def ids(claims: list[Claim]) -> set[str]:
    return {each.run_id for each in claims}


def tenants(claims: list[Claim]) -> Counter[str]:
    return Counter(each.tenant for each in claims)


@pytest.mark.parametrize("fields", [{}, {"runs_on": ["gpu"]}, {"resources": Resources(cpu=1)}])
async def test_a_worker_gets_only_runs_of_its_tenants(store: Store, fields: dict[str, Any]) -> None:
    """I24, I31."""
    for session in ("acme", "default", "both"):
        await store.register(
            worker(f"w_gpu_{session}", labels=["gpu"], tenants=["acme", "default"] if session == "both" else [session]),
            LEASE,
        )
    runs = {tenant: await submit(store, tenant, 2, **fields) for tenant in ("acme", "default", "other")}
    assert ids(await claim(store, ("w_gpu_acme", 1))) < set(runs["acme"])
    assert ids(await claim(store, ("w_gpu_default", 9))) == set(runs["default"])
    assert ids(await claim(store, ("w_gpu_both", 9))) < set(runs["acme"])
    assert await claim(store, ("w_gpu_both", 9), ("w_gpu_default", 9), ("w_gpu_acme", 9)) == []
    await store.register(worker("w_all", labels=["gpu"]), LEASE)
    assert ids(await claim(store, ("w_all", 9))) == set(runs["other"])


async def test_a_dedicated_worker_of_a_tenant_gets_only_runs_with_its_label(store: Store) -> None:
    await store.register(worker("w_gpu", labels=["gpu"], dedicated=True, tenants=["acme"]), LEASE)
    await submit(store, "acme")
    await submit(store, "default", runs_on=["gpu"])
    (wanted,) = await submit(store, "acme", runs_on=["gpu"])
    assert ids(await claim(store, ("w_gpu", 9))) == {wanted}


async def test_a_worker_of_another_tenant_is_not_reserved_at_submit(store: Store) -> None:
    sent = one_shot(store.now(), tenant="default")
    _, claims = await store.submit_and_claim([sent], [SlotRequest("w_acme", "", 5)])
    assert claims == []
    sent = one_shot(store.now(), tenant="acme")
    _, claims = await store.submit_and_claim([sent], [SlotRequest("w_default", "", 5)])
    assert tenants(claims) == {"default": 1}
    _, claims = await store.submit_and_claim([one_shot(store.now(), tenant="acme")], [SlotRequest("w_acme", "", 5)])
    assert tenants(claims) == {"acme": 2}


@pytest.mark.parametrize("outcome", [Released(), Failed(Failure("exit", "1"))])
async def test_a_run_that_comes_back_still_goes_to_a_worker_of_its_tenant(store: Store, outcome: Any) -> None:
    (run,) = await submit(store, "acme")
    (got,) = await claim(store, ("w_acme", 1))
    await store.settle([settlement(got, outcome)])
    assert await claim(store, ("w_default", 5)) == []
    if isinstance(outcome, Released):
        assert ids(await claim(store, ("w_acme", 5))) == {run}


async def test_the_tenants_of_a_worker_are_listed(store: Store) -> None:
    await store.register(worker("w_all", labels=["~acme", "@shell", "gpu"]), LEASE)
    found = {each.session: each for each in await store.workers()}
    assert found["w_acme"].tenants == ["acme"]
    assert not found["w_acme"].dedicated
    assert found["w_both"].serves("acme")
    assert not found["w_default"].serves("acme")
    assert (found["w_all"].tenants, found["w_all"].labels) == (None, ["gpu"])


async def test_a_flood_of_one_tenant_lets_the_other_through(store: Store) -> None:
    """I17."""
    await submit(store, "default", 60)
    wanted = await submit(store, "acme", 3)
    got = await claim(store, ("w_1", 8))
    assert tenants(got) == {"default": 5, "acme": 3}
    assert set(wanted) < ids(got)


async def test_slots_are_shared_in_the_ratio_of_the_weights_also_one_by_one(store: Store) -> None:
    store.share_workers({"acme": TenantShare(3)})
    for tenant in ("acme", "beta", "default"):
        await submit(store, tenant, 40)
    got = [each for _ in range(10) for each in await claim(store, ("w_1", 1))]
    got += await claim(store, ("w_1", 30))
    assert tenants(got) == {"acme": 24, "beta": 8, "default": 8}


async def test_a_claim_fills_its_slots_although_most_tenants_have_few_runs(store: Store) -> None:
    for number in range(6):
        await submit(store, f"small{number}")
    await submit(store, "large", 30)
    assert tenants(await claim(store, ("w_1", 30)))["large"] == 24


async def test_the_priorities_of_a_tenant_count_within_it_only(store: Store) -> None:
    high = await submit(store, "acme", 20, priority=9)
    low = await submit(store, "default", 5, priority=0)
    late = await submit(store, "acme", 5, priority=0)
    got = ids(await claim(store, ("w_1", 10)))
    assert len(got & set(low)) == 5
    assert len(got & set(high)) == 5
    assert not got & set(late)


async def test_due_runs_of_every_tenant_come_before_runs_that_are_due_later(store: Store) -> None:
    due = await submit(store, "acme", 4)
    await submit(store, "default", 4, at=store.now() + SECOND)
    claimed = await store.claim([SlotRequest("w_1", "", 4)], HOUR)
    assert ids(claimed.claims) == set(due)


async def test_runs_of_a_tenant_go_by_rank_although_a_claim_reads_a_part_of_them(store: Store) -> None:
    """I17."""
    for number in range(6):
        await submit(store, f"small{number}")
    low = await submit(store, "large", 30, priority=4)
    high = await submit(store, "large", 30, priority=6)
    got = ids(await claim(store, ("w_1", 30)))
    assert len(got & set(high)) == 24
    assert not got & set(low)
