"""Limits that runs share: concurrency limits, rate limits, and the circuit breakers of hosts (I16, I18)."""

import asyncio
from itertools import pairwise
from typing import Any

from tests.conformance.conftest import Tamper
from tests.support.builders import one_shot, settlement, worker
from timeball.domain.dispatch.limits import Concurrency, RateLimit
from timeball.domain.instant import HOUR, MILLISECOND, SECOND
from timeball.domain.run import circuit_breaker
from timeball.domain.run.lifecycle import Cancelled, Failed, Failure, Lost, Outcome, Released, Succeeded
from timeball.domain.task.retry import Retry
from timeball.domain.task.task import Http, host_of
from timeball.ports.store.jobs import Submission
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Tx

UNWELL = Failed(Failure(kind="http", message="no answer"))
REFUSED = Failed(Failure(kind="http", message="404", status=404))
TASK = Http(url="https://example.com/x")
HOST = host_of(TASK)


async def claim(store: Store, slots: int = 100, session: str = "w_1", ahead: int = 0) -> list[Claim]:
    """All that can be claimed, looked for until nothing is put aside any more."""
    claims: list[Claim] = []
    while True:
        got = await store.claim([SlotRequest(session, "", slots - len(claims))], ahead)
        claims += got.claims
        if not got.again or len(claims) >= slots:
            return claims


def limited(store: Store, count: int, limit: int = 2, key: str = "db", **fields: object) -> list[Submission]:
    return [one_shot(store.now(), concurrency=Concurrency(key, limit), **fields) for _ in range(count)]


async def test_no_more_than_the_limit_run_at_once(store: Store) -> None:
    sent = limited(store, 5)
    others = [one_shot(store.now()), one_shot(store.now(), tenant="other", concurrency=Concurrency("db", 2))]
    await store.submit([*sent, *others])
    first = await claim(store)
    assert len(first) == 4
    assert await claim(store) == []
    mine = [got for got in first if got.run_id in {each.runs[0].id for each in sent}]
    assert [got.run_id for got in mine] == [each.runs[0].id for each in sent[:2]]
    await store.settle([settlement(mine[0])])
    (third,) = await claim(store)
    assert third.run_id == sent[2].runs[0].id
    await store.settle([settlement(mine[1]), settlement(third)])
    assert len(await claim(store)) == 2


async def test_a_permit_is_free_however_the_attempt_ends(store: Store) -> None:
    outcomes: list[Outcome] = [UNWELL, Lost(), Released(), Cancelled(), Succeeded()]
    sent = limited(store, 2, limit=1, retry=Retry(max_retries=5, backoff="fixed", base="1h"))
    await store.submit(sent[:1])
    for outcome in outcomes[:3]:
        (got,) = await claim(store)
        await store.settle([settlement(got, outcome)])
        await store.retry_now([got.run_id])
    (got,) = await claim(store)
    await store.submit(sent[1:])
    assert await claim(store) == []
    await store.settle([settlement(got, Cancelled())])
    assert [each.run_id for each in await claim(store)] == [sent[1].runs[0].id]


async def test_a_cancelled_run_keeps_its_permit_until_it_is_confirmed(store: Store) -> None:
    sent = limited(store, 2, limit=1)
    await store.submit(sent)
    (got,) = await claim(store)
    await store.request_cancel([got.run_id])
    assert await claim(store) == []
    await store.settle([settlement(got)])
    assert len(await claim(store)) == 1


async def test_who_waits_at_a_gate_goes_by_rank(store: Store) -> None:
    (first,) = limited(store, 1, limit=1)
    low, high = limited(store, 1, limit=1, priority="low") + limited(store, 1, limit=1, priority="high")
    await store.submit([first])
    (running,) = await claim(store)
    await store.submit([low, high])
    assert await claim(store) == []
    await store.settle([settlement(running)])
    (next_one,) = await claim(store)
    assert next_one.run_id == high.runs[0].id


async def test_a_waiting_run_can_be_cancelled(store: Store) -> None:
    sent = limited(store, 3, limit=1)
    await store.submit(sent)
    (got,) = await claim(store)
    await store.request_cancel([sent[1].runs[0].id])
    await store.settle([settlement(got)])
    assert [each.run_id for each in await claim(store)] == [sent[2].runs[0].id]


async def test_many_claimers_never_exceed_a_limit(stores: list[Store]) -> None:
    count, limit = 150, 5
    sent = limited(stores[0], count, limit=limit, retry=Retry(max_retries=9, backoff="fixed", base="0s"))
    for at in range(8):
        await stores[0].register(worker(f"w_c{at}"), 600 * SECOND)
    await asyncio.gather(*(stores[at % 2].submit(sent[at::3]) for at in range(3)))
    running = done = most = 0

    async def work(at: int) -> None:
        nonlocal running, done, most
        mine = stores[at % len(stores)]
        while done < count:
            claims = (await mine.claim([SlotRequest(f"w_c{at}", "", 3)], 0)).claims
            running += len(claims)
            most = max(most, running)
            assert running <= limit
            await asyncio.sleep(0.002)
            for got in claims:
                running -= 1
                outcome = Lost() if got.attempt == 1 and got.token % 5 == 0 else None
                done += outcome is None
                assert await mine.settle([settlement(got, outcome)]) != [None]
            await mine.open_gates(10)
            await asyncio.sleep(0.001)

    async with asyncio.timeout(90):
        await asyncio.gather(*(work(at) for at in range(8)))
    assert most > 1
    assert await claim(stores[0]) == []


async def test_a_rate_lets_a_burst_through_and_then_one_after_the_other(store: Store) -> None:
    rate = RateLimit("api", 3, per="1h")
    sent = [one_shot(store.now(), rate_limit=rate) for _ in range(5)]
    await store.submit(sent)
    assert len(await claim(store)) == 3
    assert await claim(store) == []
    look_at = await store.next_look_at()
    assert look_at is not None
    assert 0 < look_at - store.now() <= HOUR // 3
    assert await store.open_gates(10) == 0


async def test_a_rate_opens_by_itself(store: Store) -> None:
    rate = RateLimit("api", 10, per="1s", burst=1)
    await store.submit([one_shot(store.now(), rate_limit=rate) for _ in range(4)])
    starts: list[int] = []
    async with asyncio.timeout(60):
        while len(starts) < 4:
            got = await store.claim([SlotRequest("w_1", "", 10)], 0)
            starts += [got.now] * len(got.claims)
            await store.open_gates(10)
            await asyncio.sleep(0.005)
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert all(gap >= 100 * MILLISECOND for gap in gaps)
    async with asyncio.timeout(60):
        while await store.next_look_at() is not None:  # nobody waits any more, and soon nobody looks
            await asyncio.sleep(0.01)
            await store.open_gates(10)


def calls(store: Store, count: int, **fields: object) -> list[Submission]:
    return [one_shot(store.now(), task=TASK, retry=Retry(backoff="fixed", base="1h"), **fields) for _ in range(count)]


async def fail(store: Store, claims: list[Claim], outcome: Outcome = UNWELL) -> None:
    for got in claims:
        await store.settle([settlement(got, outcome, host=HOST)])


async def test_a_host_that_fails_gets_a_rest_and_nobody_spends_an_attempt(store: Store) -> None:
    await store.submit(calls(store, circuit_breaker.TRIPS_AT))
    await fail(store, await claim(store))
    others = calls(store, 3)
    elsewhere = one_shot(store.now(), task=Http(url="https://example.org/"))
    await store.submit([*others, elsewhere])
    assert [got.run_id for got in await claim(store)] == [elsewhere.runs[0].id]
    runs = await store.runs([each.runs[0].id for each in others])
    assert {run.attempt for run in runs.values()} == {0}
    assert {run.gate for run in runs.values()} == {f"host:{HOST}"}
    look_at = await store.next_look_at()
    assert look_at is not None
    assert 0 < look_at - store.now() <= circuit_breaker.FIRST_OPEN_TIME


async def test_an_answer_in_between_keeps_the_circuit_closed(store: Store) -> None:
    for _ in range(3):
        await store.submit(calls(store, circuit_breaker.TRIPS_AT - 1))
        await fail(store, await claim(store))
        await store.submit(calls(store, 1))
        await fail(store, await claim(store), Succeeded())
    await store.submit(calls(store, circuit_breaker.TRIPS_AT * 2))
    await fail(store, await claim(store), REFUSED)
    await store.submit(calls(store, 1))
    assert len(await claim(store)) == 1


async def test_after_its_rest_one_run_probes(store: Store, tamper: Tamper) -> None:
    await store.submit(calls(store, circuit_breaker.TRIPS_AT))
    await fail(store, await claim(store))
    await store.submit(calls(store, 4))
    assert await claim(store) == []
    await tamper("UPDATE gates SET open_until = 1, look_at = 1")
    assert await store.open_gates(10) == 1
    (probe,) = await claim(store)
    assert await claim(store) == []
    await fail(store, [probe])  # a failed probe: another rest, for everybody
    assert await claim(store) == []
    await tamper("UPDATE gates SET open_until = 1, look_at = 1")
    await store.open_gates(10)
    (probe,) = await claim(store)
    (settled,) = await store.settle([settlement(probe, Cancelled())])  # nobody knows: another one probes
    assert settled is not None
    assert settled.frees
    (probe,) = await claim(store)
    await fail(store, [probe], Succeeded())
    await store.open_gates(10)
    assert len(await claim(store)) == 1


async def test_limits_and_tokens_are_taken_together_or_not_at_all(store: Store) -> None:
    both = {"concurrency": Concurrency("db", 1), "rate_limit": RateLimit("api", 2, per="1h")}
    await store.submit([one_shot(store.now(), **both) for _ in range(3)])
    (first,) = await claim(store)
    await store.settle([settlement(first)])
    (second,) = await claim(store)
    await store.settle([settlement(second)])
    assert await claim(store) == []


async def test_a_run_that_was_let_through_and_does_not_come_lets_the_next_one_go(store: Store, tamper: Tamper) -> None:
    """Its turn at the gate is not lost with it."""
    sent = limited(store, 3, limit=1)
    await store.submit(sent)
    (running,) = await claim(store)
    await store.settle([settlement(running)])
    await store.request_cancel([sent[1].runs[0].id])  # let through, and cancelled before anybody claimed it
    await tamper("UPDATE gates SET look_at = 1")
    await store.open_gates(10)
    assert [got.run_id for got in await claim(store)] == [sent[2].runs[0].id]


async def test_who_waits_elsewhere_does_not_hold_up_a_gate(store: Store, tamper: Tamper) -> None:
    """One that was let through here and stopped at another gate is in nobody's way here."""
    rated = {"rate_limit": RateLimit("api", 1, per="1h"), "concurrency": Concurrency("db", 1)}
    first, second = (one_shot(store.now(), **rated) for _ in range(2))
    (third,) = limited(store, 1, limit=1, priority="low")
    await store.submit([first, second, third])
    (running,) = await claim(store)
    await store.settle([settlement(running)])
    assert await claim(store) == []  # the second was let through, and has to wait for a token
    await tamper("UPDATE gates SET look_at = 1 WHERE gate = 'limit:db'")
    await store.open_gates(10)
    assert [got.run_id for got in await claim(store)] == [third.runs[0].id]


async def test_one_spec_that_cannot_be_read_stops_nobody_else(store: Store, tamper: Tamper) -> None:
    (bad,) = limited(store, 1)
    good = one_shot(store.now())
    await store.submit([bad, good])
    spec = '{"task":{"kind":"warp"},"concurrency":{"key":"db","limit":2}}'
    await tamper(f"UPDATE jobs SET spec = '{spec}' WHERE id = '{bad.job.id}'")
    assert [got.run_id for got in await claim(store)] == [good.runs[0].id]


async def test_a_host_that_failed_long_ago_is_forgotten(store: Store, tamper: Tamper) -> None:
    await store.submit(calls(store, 1))
    await fail(store, await claim(store))
    await store.forget_unused(10)
    assert await unwell(store) == 1
    await tamper("UPDATE gates SET failed_at = 1")
    await store.forget_unused(10)
    assert await unwell(store) == 0


async def unwell(store: Any) -> int:
    async def work(tx: Tx) -> list[Any]:
        return await tx.fetch(Query("unwell", "SELECT gate FROM gates WHERE failures > 0"))

    return len(await store._db.read(work))


async def test_a_token_that_was_taken_ahead_of_its_time_stays_taken(store: Store) -> None:
    now, ahead = store.now(), HOUR
    rate = RateLimit("api", 1, per="1h")
    await store.submit([one_shot(now, at=now + HOUR // 2, rate_limit=rate, priority=9)])
    (claimed,) = (await store.claim([SlotRequest("w_1", "", 1)], ahead)).claims
    await store.submit([one_shot(now, rate_limit=rate)])
    assert (await store.claim([SlotRequest("w_1", "", 1)], ahead)).claims == []
    assert await store.next_look_at() == claimed.eligible_at + HOUR


async def test_who_does_not_look_ahead_respects_who_did(store: Store) -> None:
    """A claim looks ahead, a submission that claims does not."""
    now = store.now()
    rate = RateLimit("api", 1, per="1h")
    await store.submit([one_shot(now, at=now + SECOND, rate_limit=rate)])
    (claimed,) = (await store.claim([SlotRequest("w_1", "", 1)], SECOND)).claims
    _, claims = await store.submit_and_claim([one_shot(now, rate_limit=rate)], [SlotRequest("w_1", "", 1)])
    assert claims == []
    assert await store.next_look_at() == claimed.eligible_at + HOUR


async def test_a_raised_rate_does_not_have_to_pay_for_the_old_one(store: Store) -> None:
    await store.submit([one_shot(store.now(), rate_limit=RateLimit("api", 1, per="1d"))])
    assert len(await claim(store)) == 1
    await store.submit([one_shot(store.now(), rate_limit=RateLimit("api", 1_000, per="1s"))])
    await claim(store)
    look_at = await store.next_look_at()
    # The old rate would say a day. `now` is a lower bound of the store's clock, so that a second is no safe bound.
    assert look_at is None or look_at < store.now() + HOUR


async def test_a_low_run_does_not_lose_its_age_at_a_gate(store: Store, tamper: Tamper) -> None:
    """Let through, and outranked by a fresh one, it waits again; but not for ever."""
    (first,) = limited(store, 1, limit=1)
    (low,) = limited(store, 1, limit=1, priority="low")
    await store.submit([first, low])
    (running,) = await claim(store)
    await tamper(f"UPDATE runs SET eligible_at = {store.now() - HOUR} WHERE id = '{low.runs[0].id}'")
    await store.settle([settlement(running)])
    await store.submit(limited(store, 1, limit=1, priority="high"))
    assert [got.run_id for got in await claim(store)] == [low.runs[0].id]


async def test_thousands_at_a_gate_do_not_keep_a_slot_empty(store: Store) -> None:
    """They are put aside by the hundreds, however few slots are free."""
    await store.submit(limited(store, 1_000, limit=1))
    plain = one_shot(store.now())
    await store.submit([plain])
    seen: list[str] = []
    rounds = 0
    while plain.runs[0].id not in seen:
        seen += [got.run_id for got in (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims]
        rounds += 1
    assert rounds <= 5


async def test_what_started_in_time_is_not_too_late_when_it_is_given_back(store: Store, tamper: Tamper) -> None:
    sent = one_shot(store.now(), start_deadline="1h")
    await store.submit([sent])
    (got,) = await claim(store)
    await tamper("UPDATE runs SET start_by = 1")
    await store.settle([settlement(got, Released(), at=store.now())])
    assert await store.expire(10) == 0
    assert len(await claim(store)) == 1
