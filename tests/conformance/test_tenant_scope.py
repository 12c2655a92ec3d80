"""I24: what the callers of a tenant see of the fleet are the workers that serve the tenant, and its own runs."""

from typing import Any

import pytest_asyncio

from tests.conformance.conftest import Tamper
from tests.support.builders import LEASE, one_shot, worker
from timeball.domain.diagnosis import why
from timeball.domain.dispatch.placement import Resources
from timeball.domain.instant import SECOND
from timeball.domain.overview.attention import attention
from timeball.ports.store.runs import SlotRequest
from timeball.ports.store.store import Store
from timeball.ports.worker_protocol import Started


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def fleet(store: Store) -> None:
    """One worker of each tenant, beside `w_1`, which serves all."""
    await store.register(worker("w_acme", slots=3, tenants=["acme"]), LEASE)
    await store.register(worker("w_beta", slots=5, tenants=["beta"]), LEASE)


async def submit(store: Store, tenant: str, count: int = 1, *, age: int = 0, **fields: Any) -> list[str]:
    sent = [one_shot(store.now() - age * SECOND, tenant=tenant, **fields) for _ in range(count)]
    await store.submit(sent)
    return [each.runs[0].id for each in sent]


async def claim(store: Store, session: str, slots: int) -> int:
    return len((await store.claim([SlotRequest(session, "", slots)], 0)).claims)


async def reasons(store: Store, run_id: str) -> str:
    facts = await store.circumstances(run_id)
    assert facts is not None
    return " ".join(reason.text for reason in why.of_run(facts))


async def test_a_caller_sees_the_workers_of_its_tenant_and_what_its_own_runs_use(store: Store) -> None:
    await submit(store, "acme", 2)
    await submit(store, "beta", 3, resources=Resources(cpu=1))
    assert await claim(store, "w_1", 5) == 5
    whole = {each.session: each for each in await store.workers()}
    assert (whole["w_1"].running, whole["w_1"].used.cpu) == (5, 3000)
    seen = {each.session: each for each in await store.workers("acme")}
    assert seen.keys() == {"w_1", "w_acme"}
    assert (seen["w_1"].running, seen["w_1"].used.cpu) == (2, 0)
    assert seen["w_acme"].tenants is None
    assert [each.session for each in await store.workers("default")] == ["w_1"]


async def test_a_worker_of_another_tenant_that_left_is_not_seen(store: Store) -> None:
    for session in ("w_acme", "w_beta"):
        await store.end_session(session)
    assert {each.session for each in await store.gone_workers(10)} == {"w_acme", "w_beta"}
    assert [each.session for each in await store.gone_workers(10, "acme")] == ["w_acme"]


async def test_the_overview_counts_the_slots_that_the_tenant_may_use_and_uses(store: Store) -> None:
    await submit(store, "acme", 2)
    await submit(store, "beta", 3)
    assert await claim(store, "w_1", 5) == 5
    acme, other = await store.present("acme"), await store.present("other")
    assert (acme.workers, acme.slots, acme.busy, acme.running) == (2, 13, 2, 2)
    assert (other.workers, other.slots, other.busy, other.running) == (1, 10, 0, 0)


async def test_a_lost_worker_needs_the_attention_of_its_tenants_only(store: Store, tamper: Tamper) -> None:
    await tamper("UPDATE workers SET lease_until = seen_at + 15000000, lapsed = 1 WHERE session = 'w_acme'")
    acme, beta = await store.attention_facts("acme"), await store.attention_facts("beta")
    assert [each.name for each in acme.lost] in ([], ["worker of w_acme"])
    assert not beta.lost


async def test_runs_that_only_a_worker_of_another_tenant_could_take_need_attention(store: Store) -> None:
    await store.register(worker("w_gpu", labels=["gpu"], tenants=["beta"]), LEASE)
    await submit(store, "acme", age=60, runs_on=["gpu"])
    (found,) = attention(await store.attention_facts("acme"))
    assert found.kind == "unplaceable"
    assert "~" not in found.message
    assert not attention(await store.attention_facts("beta"))


async def test_why_counts_only_runs_of_the_tenant(store: Store) -> None:
    await submit(store, "beta", 20, priority=9)
    await submit(store, "default", 20, priority=9)
    (ahead,) = await submit(store, "acme", priority=9)
    (waiting,) = await submit(store, "acme", priority=1)
    text = await reasons(store, waiting)
    assert "1 run is ahead of this one" not in text  # two workers with 13 free slots
    facts = await store.circumstances(waiting)
    assert facts is not None
    assert facts.ahead.count == 1
    assert {each.name for each in facts.workers} == {"worker of w_1", "worker of w_acme"}
    assert ahead not in text


async def test_why_tells_a_tenant_without_a_worker_that_there_is_none(store: Store) -> None:
    await store.end_session("w_1")
    (run,) = await submit(store, "default")
    assert "There is no worker." in await reasons(store, run)
    (run,) = await submit(store, "other", runs_on=["gpu"])
    assert "there is no worker" in await reasons(store, run)


async def test_a_run_preempts_no_run_of_another_tenant(store: Store) -> None:
    """I17: the priorities of a tenant do not concern the others."""
    await store.register(worker("w_one", slots=1), LEASE)
    for session in ("w_1", "w_acme", "w_beta"):
        await store.end_session(session)
    await submit(store, "acme", age=60, priority="low", preemptible=True)
    (held,) = (await store.claim([SlotRequest("w_one", "", 1)], 0)).claims
    await store.note("w_one", [(Started(run_id=held.run_id, token=held.token, age=0), store.now())], [])
    await submit(store, "beta", age=30, priority="high")
    await store.preempt()
    assert await store.pause_orders() == []
    await submit(store, "acme", age=60, priority=9)
    await store.preempt()
    assert [session for session, _, _ in await store.pause_orders()] == ["w_one"]
