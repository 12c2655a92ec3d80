"""Ordering keys: one run at a time, in the order of fire times, however the run that holds the key ends (I16)."""

import asyncio

import msgspec
import pytest

from tests.conformance.test_planning import fire, read, write
from tests.support.builders import TENANT, one_shot, plan_due, recurring, run, settlement, worker
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.instant import MINUTE, SECOND
from timeball.domain.job.job import JobState
from timeball.domain.run.ledger import Origin
from timeball.domain.run.lifecycle import Failed, Failure, Lost, Outcome, Released
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.ports.store.jobs import Amended, Amendment, Submission
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store

BOOM = Failed(Failure(kind="exit", message="boom", exit_code=1))
NO_RETRIES = Retry(max_retries=0)


async def claim(store: Store, slots: int = 10, session: str = "w_1") -> list[Claim]:
    return (await store.claim([SlotRequest(session, "", slots)], 0)).claims


def in_line(store: Store, ages: list[int], key: str = "k", **fields: object) -> list[Submission]:
    now = store.now()
    return [one_shot(now, at=now - age * SECOND, ordering_key=key, **fields) for age in ages]


async def order(store: Store, outcome: Outcome | None = None) -> list[str]:
    """Claim and settle until nothing is left."""
    seen = []
    while claims := await claim(store):
        assert len(claims) == 1
        seen.append(claims[0].run_id)
        await store.settle([settlement(claims[0], outcome)])
    return seen


async def test_runs_with_one_key_go_one_by_one_by_fire_time(store: Store) -> None:
    sent = in_line(store, [3, 5, 1])
    await store.submit(sent)
    assert await order(store) == [sent[at].runs[0].id for at in (1, 0, 2)]


async def test_keys_do_not_wait_for_each_other_and_tenants_do_not_share_them(store: Store) -> None:
    now = store.now()
    await store.submit([one_shot(now, ordering_key=key, tenant=tenant) for key in "ab" for tenant in (TENANT, "other")])
    assert len(await claim(store)) == 4


async def test_an_earlier_run_that_comes_later_goes_first_unless_the_other_was_claimed(store: Store) -> None:
    late, early = in_line(store, [1, 9])
    await store.submit([late])
    await store.submit([early])
    (first,) = await claim(store)
    assert first.run_id == early.runs[0].id
    (earliest,) = in_line(store, [20])
    await store.submit([earliest])
    assert await claim(store) == []
    await store.settle([settlement(first)])
    (second,) = await claim(store)
    assert second.run_id == earliest.runs[0].id


async def test_a_retry_keeps_the_turn(store: Store) -> None:
    first, second = in_line(store, [2, 1], retry=Retry(max_retries=1, backoff="fixed", base="0s"))
    await store.submit([first, second])
    for outcome in (BOOM, Lost()):
        (claimed,) = await claim(store)
        assert claimed.run_id == first.runs[0].id
        await store.settle([settlement(claimed, outcome)])
    assert await claim(store) == []  # it gave up, and blocks the rest


async def test_one_that_is_given_back_keeps_the_turn(store: Store) -> None:
    first, second = in_line(store, [2, 1])
    await store.submit([first, second])
    (claimed,) = await claim(store)
    await store.settle([settlement(claimed, Released())])
    assert await order(store) == [first.runs[0].id, second.runs[0].id]


async def test_who_may_continue_after_a_failure_does(store: Store) -> None:
    sent = in_line(store, [3, 2, 1], retry=NO_RETRIES, on_failure="continue")
    await store.submit(sent)
    assert await order(store, BOOM) == [each.runs[0].id for each in sent]


async def test_the_retry_of_one_that_gave_up_inherits_its_turn(store: Store) -> None:
    first, second = in_line(store, [2, 1], retry=NO_RETRIES)
    await store.submit([first, second])
    assert await order(store, BOOM) == [first.runs[0].id]
    again = run(first.job, store.now(), origin=Origin.RETRY)
    assert await store.repeat([(first.runs[0].id, again)]) == [Status.QUEUED]
    assert await order(store) == [again.id, second.runs[0].id]


async def test_a_retry_under_another_key_passes_the_turn_on(store: Store) -> None:
    first, second = in_line(store, [2, 1], retry=NO_RETRIES)
    await store.submit([first, second])
    assert await order(store, BOOM) == [first.runs[0].id]
    elsewhere = msgspec.structs.replace(first.job.spec, ordering_key="other")
    again = run(first.job, store.now(), origin=Origin.RETRY, spec=elsewhere)
    assert await store.repeat([(first.runs[0].id, again)]) == [Status.QUEUED]
    assert {got.run_id for got in await claim(store)} == {again.id, second.runs[0].id}


async def test_discarding_one_that_gave_up_passes_its_turn_on(store: Store) -> None:
    first, second = in_line(store, [2, 1], retry=NO_RETRIES)
    await store.submit([first, second])
    assert await order(store, BOOM) == [first.runs[0].id]
    assert await order(store) == []
    assert await store.discard([first.runs[0].id]) == [True]
    assert await order(store) == [second.runs[0].id]


async def test_the_replay_of_one_that_gave_up_waits_like_everybody_else(store: Store) -> None:
    first, second = in_line(store, [2, 1], retry=NO_RETRIES)
    await store.submit([first, second])
    assert await order(store, BOOM) == [first.runs[0].id]
    again = run(first.job, store.now(), origin=Origin.REPLAY, retry_of=first.runs[0].id)
    assert await store.trigger([again]) == [Status.BLOCKED]
    assert await order(store) == []


async def test_cancelling_the_one_whose_turn_it_is_passes_it_on(store: Store) -> None:
    sent = in_line(store, [3, 2, 1])
    await store.submit(sent)
    await store.request_cancel([sent[0].runs[0].id])
    (claimed,) = await claim(store)
    assert claimed.run_id == sent[1].runs[0].id
    await store.request_cancel([claimed.run_id])
    assert await claim(store) == []  # it keeps what it holds until its worker confirms
    await store.settle([settlement(claimed)])
    assert await order(store) == [sent[2].runs[0].id]


async def test_cancelling_a_job_passes_its_turn_on(store: Store) -> None:
    first, second = in_line(store, [2, 1])
    await store.submit([first, second])
    change = Amendment(
        job=first.job, spec=first.job.spec, state=JobState.CANCELLED, keep_schedule=False, cancel_runs=True
    )
    await store.amend([change])
    assert await order(store) == [second.runs[0].id]


async def test_turn_and_overlap_hold_apart(store: Store) -> None:
    """A run waits until both let it go, whichever does so last."""
    now = store.now()
    other = one_shot(now, at=now - MINUTE, ordering_key="k")
    job = recurring(now - 25 * SECOND, seconds=10, ordering_key="k", overlap="queue")
    await store.submit([other, job])
    await plan_due(store)
    seen = await order(store)
    assert seen[0] == other.runs[0].id
    assert len(seen) == 3


@pytest.mark.parametrize("overlap", ["queue", "queue_one", "skip"])
async def test_a_retry_goes_before_the_runs_of_its_job_that_wait_behind_what_it_repeats(
    store: Store, overlap: str
) -> None:
    """They would wait for each other: the retry for its job, the others for their turn."""
    now = store.now()
    sent = recurring(now - 15 * SECOND, seconds=10, ordering_key="k", overlap=overlap, retry=NO_RETRIES)
    await store.submit([sent])
    await plan_due(store)
    (dead,) = await order(store, BOOM)
    behind = run(sent.job, store.now())
    assert await store.trigger([behind]) == [Status.BLOCKED]
    again = run(sent.job, store.now(), origin=Origin.RETRY)
    assert await store.repeat([(dead, again)]) == [Status.QUEUED]
    earlier = one_shot(now, at=now - MINUTE, ordering_key="k")
    await store.submit([earlier])  # does not overtake the retry either
    assert await order(store) == [again.id, earlier.runs[0].id, behind.id]


async def test_a_fire_that_is_planned_late_goes_before_a_later_run_of_its_job(store: Store) -> None:
    now = store.now()
    sent = recurring(now - 15 * SECOND, seconds=10, ordering_key="k", overlap="queue")
    await store.submit([sent])
    asked_for = run(sent.job, now)
    assert await store.trigger([asked_for]) == [Status.QUEUED]
    await plan_due(store)
    planned, last = await order(store)
    assert planned != asked_for.id
    assert last == asked_for.id


async def test_many_claimers_never_break_the_order(stores: list[Store]) -> None:
    """Keys in parallel, each strictly in order, with failures, on two servers at once."""
    store = stores[0]
    now = store.now()
    sent: list[Submission] = []
    for key in "abc":
        sent += [
            one_shot(now, at=now - (60 - at) * SECOND, ordering_key=key, retry=Retry(backoff="fixed", base="0s"))
            for at in range(30)
        ]
    for at in range(6):
        await store.register(worker(f"w_c{at}"), 600 * SECOND)
    await asyncio.gather(*(stores[at % 2].submit(sent[at::4]) for at in range(4)))
    keys = {each.runs[0].id: each.job.spec.ordering_key for each in sent}
    due = {each.runs[0].id: each.runs[0].fire_time for each in sent}
    alive: dict[str, str] = {}
    ended: list[str] = []

    async def work(at: int) -> None:
        mine = stores[at % len(stores)]
        while len(ended) < len(sent):
            for got in await claim(mine, 2, f"w_c{at}"):
                key = keys[got.run_id]
                assert key is not None
                assert key not in alive
                alive[key] = got.run_id
                await asyncio.sleep(0)
                fails = got.attempt == 1 and due[got.run_id] % (3 * SECOND) == 0
                del alive[key]
                if not fails:
                    ended.append(got.run_id)
                assert await mine.settle([settlement(got, BOOM if fails else None)]) != [None]
            await asyncio.sleep(0.001)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(at) for at in range(6)))
    for key in "abc":
        of_key = [due[run_id] for run_id in ended if keys[run_id] == key]
        assert of_key == sorted(of_key)


async def test_cancelling_a_job_gives_up_the_turn_of_its_dead_run(store: Store) -> None:
    first, second = in_line(store, [2, 1], retry=NO_RETRIES)
    await store.submit([first, second])
    assert await order(store, BOOM) == [first.runs[0].id]
    change = Amendment(
        job=first.job, spec=first.job.spec, state=JobState.CANCELLED, keep_schedule=False, cancel_runs=True
    )
    await store.amend([change])
    assert await order(store) == [second.runs[0].id]


@pytest.mark.parametrize("overlap", ["queue", "skip", "queue_one"])
async def test_the_retry_of_a_dead_run_does_not_wait_for_those_that_wait_for_it(store: Store, overlap: str) -> None:
    """The next run of the job waits for the turn that the dead one keeps; its retry must not wait for that one."""
    job = recurring(store.now() - 11 * SECOND, seconds=10, ordering_key="k", overlap=overlap, retry=NO_RETRIES)
    await store.submit([job])
    await plan_due(store)
    (first,) = await claim(store)
    await store.settle([settlement(first, BOOM)])
    behind = run(job.job, store.now())
    await store.trigger([behind])
    again = run(job.job, store.now(), origin=Origin.RETRY)
    assert await store.repeat([(first.run_id, again)]) == [Status.QUEUED]
    assert (await order(store))[0] == again.id


async def test_a_fire_planned_late_and_a_run_that_was_asked_for_do_not_wait_for_each_other(
    store: Store,
) -> None:
    job = recurring(store.now() - 25 * SECOND, seconds=10, ordering_key="k", overlap="queue")
    await store.submit([job])
    manual = run(job.job, store.now())
    assert await store.trigger([manual]) == [Status.QUEUED]
    await plan_due(store)
    assert (await order(store))[-1] == manual.id


async def test_cancelling_a_job_gives_up_a_turn_under_a_former_key(store: Store) -> None:
    first, second = in_line(store, [2, 1], retry=NO_RETRIES)
    await store.submit([first, second])
    assert await order(store, BOOM) == [first.runs[0].id]
    spec = msgspec.structs.replace(first.job.spec, ordering_key="another")
    change = Amendment(job=first.job, spec=spec, state=JobState.ACTIVE, keep_schedule=True)
    [amended] = await store.amend([change])
    assert isinstance(amended, Amended)
    end = Amendment(job=amended.job, spec=spec, state=JobState.CANCELLED, keep_schedule=False, cancel_runs=True)
    await store.amend([end])
    assert await order(store) == [second.runs[0].id]


async def test_nobody_overtakes_the_retry_of_a_dead_run(store: Store) -> None:
    dead, waiting, later = in_line(store, [60, 50, 10], retry=NO_RETRIES)
    await store.submit([dead, waiting])
    await order(store, BOOM)
    again = run(dead.job, store.now(), origin=Origin.RETRY)
    await store.repeat([(dead.runs[0].id, again)])
    await store.submit([later])
    assert await order(store) == [again.id, waiting.runs[0].id, later.runs[0].id]


async def test_one_that_is_given_back_lets_an_earlier_one_go_first(store: Store) -> None:
    given_back, earliest, between = in_line(store, [10, 50, 30])
    await store.submit([given_back])
    (claimed,) = await claim(store)
    await store.submit([earliest])
    await store.settle([settlement(claimed, Released())])
    await store.submit([between])
    assert await order(store) == [earliest.runs[0].id, between.runs[0].id, given_back.runs[0].id]


async def test_one_that_is_given_back_does_not_wait_for_a_run_that_waits_for_it(store: Store) -> None:
    """An earlier fire of the same job came meanwhile, and its policy lets only one of them live at a time."""
    now = store.now()
    job = recurring(
        now - 20 * SECOND, next_fire_at=now - 10 * SECOND, ordering_key="k", overlap=Overlap.QUEUE, catch_up="all"
    )
    await store.submit([job])
    by_hand = run(job.job, now)
    await store.trigger([by_hand])
    (claimed,) = await claim(store)
    assert claimed.run_id == by_hand.id
    await plan_due(store)
    await store.settle([settlement(claimed, Released())])
    assert len(await order(store)) >= 2


async def test_a_retry_is_in_the_way_of_nothing_that_fell_due_before_it(store: Store) -> None:
    """A fire waits for its turn behind a dead run of its job, and later ones are skipped for its sake. When somebody
    retries the dead run, that goes first; the fire was let in long ago, and runs after it."""
    now = store.now()
    sent = recurring(now - 60 * SECOND, ordering_key="k", overlap=Overlap.SKIP, retry=NO_RETRIES)
    await store.submit([sent])
    ages = [40, 30, 20, 10]
    await write(store, sent.job, fire(now - ages[0] * SECOND))
    [dead] = await order(store, BOOM)
    for age in ages[1:3]:
        await write(store, sent.job, fire(now - age * SECOND))
    again = run(sent.job, store.now(), origin=Origin.RETRY)
    assert await store.repeat([(dead, again)]) == [Status.QUEUED]
    await write(store, sent.job, fire(now - ages[3] * SECOND))
    found = {each.fire_time: each for each in await read(store, sent.job) if each.id != again.id}
    waited = found[now - ages[1] * SECOND]
    assert [(at, found[at].status, found[at].fires) for at in sorted(found)] == [
        (now - ages[0] * SECOND, Status.DEAD, 1),
        (now - ages[1] * SECOND, Status.BLOCKED, 1),
        (now - ages[2] * SECOND, Status.SKIPPED, 1),
        (now - ages[3] * SECOND, Status.SKIPPED, 1),
    ]
    assert await order(store) == [again.id, waited.id]
