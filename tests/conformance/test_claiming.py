"""Claims: no run is given to two workers, none too early, and the order is that of the rank (I3, I6, I8, I17)."""

import asyncio

import pytest

from tests.support.builders import LEASE, one_shot, settlement, worker
from timeball.domain.instant import MILLISECOND, MINUTE, SECOND
from timeball.domain.run.lifecycle import Released
from timeball.ports.store.registry import RegisteredTask
from timeball.ports.store.runs import Claim, SlotRequest, Wanted
from timeball.ports.store.store import Store


async def claim(store: Store, slots: int, session: str = "w_1", ahead: int = 0) -> list[Claim]:
    return (await store.claim([SlotRequest(session, "", slots)], ahead)).claims


async def test_a_run_is_claimed_once_with_its_spec_and_a_token(store: Store) -> None:
    sent = one_shot(store.now(), name="it")
    await store.submit([sent])
    before = store.now()
    claimed = await store.claim([SlotRequest("w_1", "", 5)], 0)
    (got,) = claimed.claims
    assert (got.session, got.run_id, got.job_id, got.attempt) == ("w_1", sent.runs[0].id, sent.job.id, 1)
    assert b'"name":"it"' in got.spec
    assert got.task is None
    assert before <= claimed.now
    assert await claim(store, 5) == []
    assert await store.holding("w_1") == {got.token: Wanted.GO_ON}


async def test_a_claim_names_the_tenant_of_the_job(store: Store) -> None:
    now = store.now()
    sent = [one_shot(now, tenant="one"), one_shot(now, tenant="two", priority="high"), one_shot(now)]
    owners = {each.runs[0].id: each.job.tenant for each in sent}
    await store.submit(sent[:1])
    _, assigned = await store.submit_and_claim(sent[1:], (SlotRequest("w_1", "", 1, 7),))
    assert {claim.run_id: claim.tenant for claim in [*assigned, *await claim(store, 5)]} == owners


async def test_nothing_is_claimed_before_its_time(store: Store) -> None:
    await store.submit([one_shot(store.now(), at=store.now() + MINUTE)])
    assert await claim(store, 1) == []
    assert await claim(store, 1, ahead=SECOND) == []
    eligible_at = await store.next_eligible_at()
    assert eligible_at is not None
    assert eligible_at > store.now() + 50 * SECOND


async def test_slots_that_are_left_are_filled_with_what_is_due_soon(store: Store) -> None:
    soon = one_shot(store.now(), at=store.now() + 10 * SECOND, priority="high")
    due = one_shot(store.now(), priority="low")
    await store.submit([soon, due])
    (first,) = await claim(store, 1, ahead=20 * SECOND)
    assert first.run_id == due.runs[0].id
    (second,) = await claim(store, 1, ahead=20 * SECOND)
    assert second.run_id == soon.runs[0].id
    assert second.fire_time == soon.runs[0].fire_time


async def test_rank_decides_and_waiting_makes_up_for_priority(store: Store) -> None:
    now = store.now()
    ages = [("low", 4 * MINUTE), ("high", 0), ("medium", 2 * MINUTE), ("low", 8 * MINUTE), ("medium", 4 * MINUTE)]
    sent = [one_shot(now, at=now - age - SECOND, priority=level) for level, age in ages]
    await store.submit(sent)
    order = [got.run_id for got in await claim(store, 10)]
    assert order == [sent[at].runs[0].id for at in (3, 4, 1, 2, 0)]


async def test_the_best_run_goes_first_also_one_by_one(store: Store) -> None:
    now = store.now()
    sent = [one_shot(now, at=now - at * SECOND, priority=at % 10) for at in range(30)]
    await store.submit(sent)
    one_by_one = [(await claim(store, 1))[0].run_id for _ in sent]
    await store.submit(again := [one_shot(now, at=now - at * SECOND, priority=at % 10) for at in range(30)])
    together = [got.run_id for got in await claim(store, 30)]
    assert [[run.runs[0].id for run in sent].index(got) for got in one_by_one] == [
        [run.runs[0].id for run in again].index(got) for got in together
    ]


async def test_sessions_share_what_there_is(store: Store) -> None:
    await store.register(worker("w_2"), LEASE)
    await store.submit([one_shot(store.now()) for _ in range(10)])
    claimed = await store.claim([SlotRequest("w_1", "", 100), SlotRequest("w_2", "", 100)], 0)
    assert sorted(got.session for got in claimed.claims) == ["w_1"] * 5 + ["w_2"] * 5


async def test_a_session_without_a_lease_gets_nothing_and_takes_nothing_from_others(store: Store) -> None:
    await store.register(worker("w_late"), 1)
    await store.submit([one_shot(store.now()) for _ in range(2)])
    await asyncio.sleep(0.01)
    wants = [SlotRequest("w_unknown", "", 5), SlotRequest("w_late", "", 5), SlotRequest("w_1", "", 2)]
    assert [got.session for got in (await store.claim(wants, 0)).claims] == ["w_1", "w_1"]


async def test_absurd_capacity_is_no_harm(store: Store) -> None:
    await store.submit([one_shot(store.now()) for _ in range(3)])
    assert len(await claim(store, 10**15)) == 3


async def test_tokens_are_unique_and_grow(store: Store) -> None:
    await store.submit([one_shot(store.now()) for _ in range(20)])
    tokens: list[int] = []
    for _ in range(4):
        batch = await claim(store, 5)
        assert min(got.token for got in batch) > max(tokens, default=0)
        tokens += [got.token for got in batch]
        await store.settle([settlement(got, Released()) for got in batch])
    assert len(set(tokens)) == 20


async def test_a_registered_task_comes_with_the_claim(store: Store) -> None:
    await store.put_task(RegisteredTask(id="mail", tenant="default", spec={"kind": "x"}, version=0, updated_at=1))
    await store.submit([one_shot(store.now(), task=None, task_id="mail")])
    (got,) = await claim(store, 1)
    assert got.task == b'{"kind":"x"}'


async def test_claims_ahead_tell_the_stores_time(store: Store) -> None:
    at = store.now() + 200 * MILLISECOND
    await store.submit([one_shot(store.now(), at=at)])
    claimed = await store.claim([SlotRequest("w_1", "", 1)], 250 * MILLISECOND)
    assert claimed.claims[0].fire_time == at
    assert claimed.now < at


@pytest.mark.timeout(300)
async def test_sixteen_claimers_never_get_the_same_run(stores: tuple[Store, Store]) -> None:
    runs = 3_000
    for session in range(16):
        await stores[0].register(worker(f"w_{session}"), LEASE)
    for _ in range(0, runs, 500):
        await stores[0].submit([one_shot(stores[0].now(), priority=at % 10) for at in range(500)])

    async def claimer(number: int) -> list[Claim]:
        store, got = stores[number % 2], list[Claim]()
        while batch := await claim(store, 7 + number, f"w_{number}"):
            got += batch
        return got

    claims = [got for batch in await asyncio.gather(*map(claimer, range(16))) for got in batch]
    claims += await claim(stores[0], runs, "w_0")  # what all others had locked at the end
    assert len(claims) == len({got.run_id for got in claims}) == runs
    assert len({got.token for got in claims}) == runs
    assert {got.attempt for got in claims} == {1}
    assert await stores[0].next_eligible_at() is None


async def test_claims_and_ends_at_once_leave_every_run_finished_once(stores: tuple[Store, Store]) -> None:
    for session in range(4):
        await stores[0].register(worker(f"w_{session}"), LEASE)
    total = 400

    async def submitter() -> None:
        for _ in range(total // 20):
            await stores[0].submit([one_shot(stores[0].now()) for _ in range(20)])

    done: list[str] = []

    async def runner(number: int) -> None:
        store = stores[number % 2]
        while len(done) < total:
            batch = await claim(store, 13, f"w_{number}")
            settled = await store.settle([settlement(got) for got in batch])
            done.extend(each.run_id for each in settled if each is not None)
            await asyncio.sleep(0.001)

    await asyncio.wait_for(asyncio.gather(submitter(), *map(runner, range(4))), 60)
    assert len(done) == len(set(done)) == total
