"""`delivery: at_most_once`: an attempt that may have begun is never repeated, whatever its outcome (I12)."""

import asyncio

import pytest

from tests.support.builders import LEASE, one_shot, recurring, run, settlement, worker
from timeball.domain.run.lifecycle import INTERRUPTED, SILENT, Failed, Failure, Lost, Outcome, Released, Succeeded
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store
from timeball.ports.worker_protocol import LOCAL_KEY, Started

BROKEN = Failed(Failure(kind="exit", message="exit code 3", exit_code=3))
NOTHING_BEGAN = Released(begun=False)
AT_ONCE = Retry(max_retries=5, backoff=["0s"])


async def claim_all(store: Store, session: str = "w_1") -> list[Claim]:
    return (await store.claim([SlotRequest(session, "", 10)], 0)).claims


async def start(store: Store, session: str = "w_1") -> Claim:
    """Submit a one-shot that is delivered at most once, and claim it."""
    await store.submit([one_shot(store.now(), delivery="at_most_once", retry=AT_ONCE)])
    (got,) = await claim_all(store, session)
    return got


async def read(store: Store, claim: Claim) -> Run:
    return (await store.runs([claim.run_id]))[claim.run_id]


@pytest.mark.parametrize(
    ("outcome", "failure"), [(BROKEN, BROKEN.failure), (Lost(), SILENT), (Released(), INTERRUPTED)]
)
async def test_an_attempt_that_started_is_the_last(store: Store, outcome: Outcome, failure: Failure) -> None:
    claim = await start(store)
    at = store.now()
    (settled,) = await store.settle([settlement(claim, outcome, at=at)])
    assert settled is not None
    assert settled.status is Status.FAILED
    found = await read(store, claim)
    assert (found.status, found.attempt, found.failure, found.started_at) == (Status.FAILED, 1, failure, at)
    assert await claim_all(store) == []


async def test_an_attempt_that_was_handed_back_before_it_started_costs_nothing(store: Store) -> None:
    claim = await start(store)
    (settled,) = await store.settle([settlement(claim, Released(), started_at=None)])
    assert settled is not None
    assert settled.status is None
    (again,) = await claim_all(store)
    assert (again.run_id, again.attempt) == (claim.run_id, 1)
    (ended,) = await store.settle([settlement(again, Succeeded())])
    assert ended is not None
    assert ended.status is Status.SUCCEEDED


@pytest.mark.parametrize("attempts", [0, 1])
async def test_a_worker_that_reported_a_start_may_still_say_that_nothing_began(store: Store, attempts: int) -> None:
    """I29: a worker that lacks something may notice that late. Only the words of the holder of the run count."""
    delivery = "at_least_once" if attempts else "at_most_once"
    await store.submit([one_shot(store.now(), delivery=delivery, retry=AT_ONCE, start_deadline="1h")])
    for _ in range(attempts):
        (lost,) = await claim_all(store)
        await store.settle([settlement(lost, Lost(), started_at=None)])
    (claim,) = await claim_all(store)
    before = await read(store, claim)
    await store.note("w_1", [(Started(run_id=claim.run_id, token=claim.token, age=0), store.now())], [])
    (settled,) = await store.settle([settlement(claim, NOTHING_BEGAN, started_at=None)])
    assert settled is not None
    assert settled.status is None
    found = await read(store, claim)
    assert (found.started_at, found.failure) == (None, before.failure)
    (again,) = await claim_all(store)
    assert (again.run_id, again.attempt) == (claim.run_id, attempts + 1)


async def test_whoever_falls_silent_may_have_started(store: Store) -> None:
    """Short attempts say nothing before they end: that no start was reported proves nothing."""
    await store.register(worker("w_2"), LEASE)
    claim = await start(store, "w_2")
    assert await store.renew([("w_2", LOCAL_KEY)], 1) != [None]
    await asyncio.sleep(0.01)
    (lost,) = await store.lapsed(10)
    assert lost.started_at is None
    await store.settle([lost])
    found = await read(store, claim)
    assert (found.status, found.failure) == (Status.FAILED, SILENT)


@pytest.mark.parametrize("how", ["give_back", "end_session"])
async def test_what_a_worker_does_not_hold_goes_to_another_unless_its_start_was_reported(
    store: Store, how: str
) -> None:
    await store.register(worker("w_2"), LEASE)
    started, waiting = await start(store, "w_2"), await start(store, "w_2")
    await store.note("w_2", [(Started(run_id=started.run_id, token=started.token, age=0), store.now())], [])
    if how == "give_back":
        await store.give_back("w_2", [], 1)
    else:
        await store.end_session("w_2")
    found = await read(store, started)
    assert (found.status, found.failure) == (Status.FAILED, INTERRUPTED)
    assert [claim.run_id for claim in await claim_all(store)] == [waiting.run_id]


async def test_the_next_run_of_its_job_goes_on(store: Store) -> None:
    now = store.now()
    serial = recurring(now, seconds=3600, delivery="at_most_once")
    await store.submit([serial])
    assert await store.trigger([run(serial.job, now), run(serial.job, now)]) == [Status.QUEUED, Status.BLOCKED]
    (first,) = await claim_all(store)
    await store.settle([settlement(first, Released())])
    (second,) = await claim_all(store)
    assert second.run_id != first.run_id


async def test_a_drain_and_a_lapsed_lease_at_once_end_it_once(stores: tuple[Store, Store]) -> None:
    await stores[0].register(worker("w_1"), LEASE)
    for _ in range(15):
        claim = await start(stores[0])
        ends = [settlement(claim, Released()), settlement(claim, Lost()), settlement(claim, BROKEN)]
        answers = await asyncio.gather(
            *(stores[at % 2].settle([each]) for at, each in enumerate(ends)), claim_all(stores[1])
        )
        assert sum(answer != [None] for answer in answers[:-1]) == 1
        assert answers[-1] == []
        assert (await read(stores[0], claim)).status is Status.FAILED


async def test_jobs_without_the_rule_are_handed_back_although_they_had_started(store: Store) -> None:
    await store.submit([one_shot(store.now()) for _ in range(3)])
    claims = await claim_all(store)
    settled = await store.settle([settlement(claim, Released()) for claim in claims])
    assert [each.status for each in settled if each is not None] == [None, None, None]
    assert [(claim.run_id, claim.attempt) for claim in await claim_all(store)] == [(c.run_id, 1) for c in claims]
