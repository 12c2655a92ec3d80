"""Runs that are assigned to idle workers in the transaction that submits them: with the result of a claim, or not at
all (I6, I7, I16)."""

from typing import Any

import msgspec
import pytest

from tests.support.builders import LEASE, one_shot, settlement, worker
from timeball.domain.dispatch.limits import Concurrency, RateLimit
from timeball.domain.instant import SECOND
from timeball.domain.job.job import decode_spec
from timeball.domain.run import circuit_breaker
from timeball.domain.run.lifecycle import Failed, Failure
from timeball.domain.run.status import Status
from timeball.domain.task.task import Http, host_of
from timeball.ports.store.jobs import Accepted, Idempotency, Replayed, Submission
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store

CALL = Http(url="http://ill.example/")
ASKING = SlotRequest("w_1", "", 10, 7)


async def hand(store: Store, *submissions: Submission, wants: tuple[SlotRequest, ...] = (ASKING,)) -> list[Claim]:
    answers, claims = await store.submit_and_claim(submissions, wants)
    assert answers == [Accepted(each.job.id) for each in submissions]
    return claims


async def claimed(store: Store) -> list[str]:
    return [claim.run_id for claim in (await store.claim([ASKING], 0)).claims]


async def test_what_is_due_goes_to_who_waits_and_is_theirs(store: Store) -> None:
    first, second = one_shot(store.now()), one_shot(store.now())
    claims = await hand(store, first, second)
    assert [claim.run_id for claim in claims] == [first.runs[0].id, second.runs[0].id]
    assert {(claim.session, claim.poll, claim.attempt) for claim in claims} == {("w_1", 7, 1)}
    assert claims[0].token < claims[1].token
    assert decode_spec(claims[0].spec) == first.job.spec
    assert await claimed(store) == []
    assert set(await store.holding("w_1")) == {claim.token for claim in claims}
    run = (await store.runs([claims[0].run_id]))[claims[0].run_id]
    assert (run.status, run.worker, run.attempt) == (Status.RUNNING, "worker of w_1", 1)
    assert run.claimed_at is not None
    assert run.claimed_at >= run.fire_time
    settled = await store.settle([settlement(claim) for claim in claims])
    assert [each and each.status for each in settled] == [Status.SUCCEEDED] * 2


async def test_the_slots_go_to_the_best_and_the_others_wait(store: Store) -> None:
    now = store.now()
    low, high, medium = (one_shot(now, priority=level) for level in ("low", "high", "medium"))
    claims = await hand(store, low, high, medium, wants=(SlotRequest("w_1", "", 2, 7),))
    assert [claim.run_id for claim in claims] == [high.runs[0].id, medium.runs[0].id]
    assert await claimed(store) == [low.runs[0].id]


async def test_what_asks_for_more_may_be_the_better_one(store: Store) -> None:
    better, simple = one_shot(store.now(), priority="high", start_deadline="1h"), one_shot(store.now())
    handed = await hand(store, simple, better, wants=(SlotRequest("w_1", "", 1, 7),))
    assert [claim.run_id for claim in handed] == [better.runs[0].id]


async def test_waiting_workers_take_turns(store: Store) -> None:
    await store.register(worker("w_2"), LEASE)
    claims = await hand(store, *(one_shot(store.now()) for _ in range(4)), wants=(ASKING, SlotRequest("w_2", "", 2, 3)))
    assert [(claim.session, claim.poll) for claim in claims] == [("w_1", 7), ("w_2", 3)] * 2


async def test_nobody_is_overtaken(store: Store) -> None:
    early = one_shot(store.now() - SECOND)
    await store.submit([early])
    fresh = one_shot(store.now())
    handed = await hand(store, fresh, wants=(SlotRequest("w_1", "", 1, 7),))
    assert [claim.run_id for claim in handed] == [early.runs[0].id]
    assert await claimed(store) == [fresh.runs[0].id]


async def test_what_waits_for_its_time_is_not_in_the_way(store: Store) -> None:
    await store.submit([one_shot(store.now(), at=store.now() + 60 * SECOND)])
    assert len(await hand(store, one_shot(store.now()))) == 1


async def test_never_early(store: Store) -> None:
    assert await hand(store, one_shot(store.now(), at=store.now() + 60 * SECOND)) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"ordering_key": "k"},
        {"concurrency": Concurrency(key="c", limit=1)},
        {"rate_limit": RateLimit(key="r", limit=1, per="1h")},
        {"start_deadline": "1h"},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_what_has_to_look_at_others_is_claimed_like_ever(store: Store, fields: dict[str, Any]) -> None:
    first, second, simple = one_shot(store.now(), **fields), one_shot(store.now(), **fields), one_shot(store.now())
    held = {claim.run_id for claim in await hand(store, first, second, simple)}
    expected = {first.runs[0].id, simple.runs[0].id}
    assert held == (expected if "start_deadline" not in fields else expected | {second.runs[0].id})


async def test_a_worker_without_a_lease_gets_nothing(store: Store) -> None:
    await store.end_session("w_1")
    fresh = one_shot(store.now())
    assert await hand(store, fresh, wants=(ASKING, SlotRequest("w_unknown", "", 5))) == []
    assert (await store.runs([fresh.runs[0].id]))[fresh.runs[0].id].status is Status.QUEUED


async def test_a_dedicated_worker_gets_nothing(store: Store) -> None:
    await store.register(worker("w_2", dedicated=True, labels=["gpu"]), LEASE)
    assert await hand(store, one_shot(store.now()), wants=(SlotRequest("w_2", "", 5),)) == []


async def test_runs_for_a_kind_of_worker_wait_for_it(store: Store) -> None:
    await store.submit([one_shot(store.now(), runs_on=["gpu"])])
    fresh, choosy = one_shot(store.now()), one_shot(store.now(), runs_on=["gpu"])
    assert [claim.run_id for claim in await hand(store, fresh, choosy)] == [fresh.runs[0].id]


async def test_nobody_is_sent_to_a_host_that_rests(store: Store) -> None:
    ill = Failed(Failure(kind="http", message="502", status=502))
    for _ in range(circuit_breaker.TRIPS_AT):
        (claim,) = await hand(store, one_shot(store.now(), task=CALL))
        await store.settle([settlement(claim, ill, host=host_of(CALL))])
    assert await hand(store, one_shot(store.now(), task=CALL)) == []


async def test_a_repetition_is_not_handed_out_again(store: Store) -> None:
    first = msgspec.structs.replace(one_shot(store.now()), idempotency=Idempotency("k", "f", b"{}"))
    assert len(await hand(store, first)) == 1
    again = msgspec.structs.replace(one_shot(store.now()), idempotency=Idempotency("k", "f", b"{}"))
    assert await store.submit_and_claim([again], [ASKING]) == ([Replayed(first.job.id, b"{}")], [])
    assert await store.submit_and_claim([first], [ASKING]) == ([Accepted(first.job.id)], [])


async def test_what_never_arrived_is_given_back_with_the_next_poll(store: Store) -> None:
    (claim,) = await hand(store, one_shot(store.now()))
    assert await store.give_back("w_1", [], 8) == 1
    assert await claimed(store) == [claim.run_id]
