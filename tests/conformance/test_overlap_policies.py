"""Every overlap policy, through plans, manual runs, ends of runs and edits (I16)."""

import random
from collections import Counter

import msgspec
import pytest

from tests.conformance.test_amend import amend
from tests.conformance.test_planning import FAR, claim, current, fire, read, submitted, until, write
from tests.support.builders import plan_due, run, settlement
from timeball.domain.dispatch import overlap
from timeball.domain.dispatch.overlap import TAKEN_OVER, Overlap
from timeball.domain.instant import MILLISECOND, SECOND
from timeball.domain.job.job import Job
from timeball.domain.planning.planning import Span
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.lifecycle import Failed, Failure
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.ports.store.runs import Claim, Wanted
from timeball.ports.store.store import Store

EVERY = list(Overlap)
REPLACING = [Overlap.CANCEL_PREVIOUS, Overlap.TERMINATE_PREVIOUS]
BOOM = Failed(Failure(kind="exit", message="boom"))
QUEUED, BLOCKED, RUNNING, SKIPPED = Status.QUEUED, Status.BLOCKED, Status.RUNNING, Status.SKIPPED


async def busy(store: Store, policy: Overlap, **fields: object) -> tuple[Job, Claim]:
    """A job with a run that a worker has."""
    job = await submitted(store, 10 * SECOND, overlap=policy, **fields)
    assert job.next_fire_at is not None
    await write(store, job, fire(job.next_fire_at))
    (got,) = await claim(store)
    return job, got


async def due(store: Store, job: Job, count: int = 1) -> list[int]:
    """Some more instants that have come, one commit each."""
    last = max(each.fire_until for each in await read(store, job))
    instants = [last + (step + 1) * MILLISECOND for step in range(count)]
    for instant in instants:
        assert await write(store, job, fire(instant))
    return instants


async def shown(store: Store, job: Job) -> list[tuple[Status, int]]:
    """How each row stands, and for how many instants."""
    return [(each.status, each.fires) for each in await read(store, job)]


async def work_off(store: Store) -> list[int]:
    """Claim and end everything, one after the other; the fire times in that order."""
    order = []
    while claims := await claim(store):
        order += [got.fire_time for got in claims]
        await store.settle([settlement(got) for got in claims])
    return order


async def adds_up(store: Store, job: Job) -> Counter[Verdict]:
    sums = await store.ledger_sums(job.id, 0, FAR)
    assert sums.due == sum(sums.counts.values())
    return Counter(sums.counts)


# --- fires --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "then"),
    [
        (Overlap.ALLOW, [(RUNNING, 1), (QUEUED, 1), (QUEUED, 1), (QUEUED, 1)]),
        (Overlap.SKIP, [(RUNNING, 1), (SKIPPED, 3)]),
        (Overlap.QUEUE, [(RUNNING, 1), (BLOCKED, 1), (BLOCKED, 1), (BLOCKED, 1)]),
        (Overlap.QUEUE_ONE, [(RUNNING, 1), (BLOCKED, 1), (SKIPPED, 2)]),
        (Overlap.CANCEL_PREVIOUS, [(RUNNING, 1), (SKIPPED, 1), (SKIPPED, 1), (BLOCKED, 1)]),
        (Overlap.TERMINATE_PREVIOUS, [(RUNNING, 1), (SKIPPED, 1), (SKIPPED, 1), (BLOCKED, 1)]),
    ],
)
async def test_three_fires_behind_a_running_one(store: Store, policy: Overlap, then: list[tuple[Status, int]]) -> None:
    job, got = await busy(store, policy)
    instants = await due(store, job, 3)
    assert await shown(store, job) == then
    if policy is not Overlap.ALLOW:
        assert await claim(store) == [], "nobody runs beside it"
    await store.settle([settlement(got)])
    ran = {
        Overlap.ALLOW: instants,
        Overlap.SKIP: [],
        Overlap.QUEUE: instants,
        Overlap.QUEUE_ONE: instants[:1],
        Overlap.CANCEL_PREVIOUS: instants[-1:],
        Overlap.TERMINATE_PREVIOUS: instants[-1:],
    }
    assert await work_off(store) == ran[policy]
    counts = await adds_up(store, job)
    assert counts[Verdict.SKIPPED] == sum(count for status, count in then if status is SKIPPED)
    assert counts[Verdict.CANCELLED] == (1 if policy in REPLACING else 0)
    assert counts.total() == 4


@pytest.mark.parametrize("policy", EVERY)
async def test_a_skip_says_why(store: Store, policy: Overlap) -> None:
    job, got = await busy(store, policy)
    await due(store, job, 3)
    reasons = {
        Overlap.SKIP: f"run {got.run_id} was still running",
        Overlap.QUEUE_ONE: f"another run was already waiting behind run {got.run_id}",
        Overlap.CANCEL_PREVIOUS: TAKEN_OVER,
        Overlap.TERMINATE_PREVIOUS: TAKEN_OVER,
    }
    said = {each.reason for each in await read(store, job) if each.status is SKIPPED}
    assert said == ({reasons[policy]} if policy in reasons else set())


async def test_the_queue_has_an_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "QUEUE_DEPTH", 2)
    job, got = await busy(store, Overlap.QUEUE)
    instants = await due(store, job, 5)
    *_, span = await read(store, job)
    assert await shown(store, job) == [(RUNNING, 1), (BLOCKED, 1), (BLOCKED, 1), (SKIPPED, 3)]
    assert span.reason == f"2 runs were already waiting behind run {got.run_id}"
    await store.settle([settlement(got)])
    (second,) = await claim(store)
    (late,) = await due(store, job)
    assert await shown(store, job) == [(Status.SUCCEEDED, 1), (RUNNING, 1), (BLOCKED, 1), (SKIPPED, 3), (BLOCKED, 1)]
    await store.settle([settlement(second)])
    assert await work_off(store) == [instants[1], late], "there was room again"


async def test_queue_one_keeps_the_first_that_waits_also_among_those_that_fall_due_blocked(store: Store) -> None:
    job, got = await busy(store, Overlap.QUEUE_ONE)
    kept = store.now() + 100 * MILLISECOND
    await write(store, job, fire(kept))
    await until(store, kept)
    skipped = store.now() + 100 * MILLISECOND
    await write(store, job, fire(skipped))
    await until(store, skipped)
    await write(store, job)
    assert await shown(store, job) == [(RUNNING, 1), (BLOCKED, 1), (SKIPPED, 1)]
    await store.settle([settlement(got)])
    assert await work_off(store) == [kept]


@pytest.mark.parametrize(
    ("policy", "wanted"), [(Overlap.CANCEL_PREVIOUS, Wanted.STOP), (Overlap.TERMINATE_PREVIOUS, Wanted.DIE)]
)
async def test_who_takes_the_place_has_the_other_stopped_and_waits_for_that(
    store: Store, policy: Overlap, wanted: Wanted
) -> None:
    job, got = await busy(store, policy)
    assert await store.holding("w_1") == {got.token: Wanted.GO_ON}
    await due(store, job)
    assert await store.holding("w_1") == {got.token: wanted}
    assert (await store.worker_orders()).cancels == [("w_1", got.token, wanted is Wanted.DIE)]
    (ended,) = await store.settle([settlement(got)])
    assert ended is not None
    assert ended.status is Status.CANCELLED, "also against a late success"
    old, new = await read(store, job)
    assert old.reason == f"run {new.id} replaced this run (overlap {policy})"
    assert old.verdict is Verdict.CANCELLED
    assert [each.run_id for each in await claim(store)] == [new.id]


@pytest.mark.parametrize("policy", REPLACING)
async def test_who_takes_the_place_of_one_nobody_has_claimed_runs_at_once(store: Store, policy: Overlap) -> None:
    job = await submitted(store, 10 * SECOND, overlap=policy)
    assert job.next_fire_at is not None
    await write(store, job, fire(job.next_fire_at))
    (later,) = await due(store, job)
    old, new = await read(store, job)
    assert (old.status, old.reason) == (Status.CANCELLED, f"run {new.id} replaced this run (overlap {policy})")
    assert [got.fire_time for got in await claim(store)] == [later]


@pytest.mark.parametrize("policy", REPLACING)
async def test_who_takes_the_place_ends_a_retry_that_waits(store: Store, policy: Overlap) -> None:
    job, got = await busy(store, policy, retry=Retry(backoff=["1h"]))
    await store.settle([settlement(got, BOOM)])
    (later,) = await due(store, job)
    old, new = await read(store, job)
    assert (old.status, old.attempt) == (Status.CANCELLED, 1)
    assert old.reason == f"run {new.id} replaced this run (overlap {policy})"
    assert await work_off(store) == [later]


@pytest.mark.parametrize("policy", EVERY)
async def test_instants_that_are_caught_up_at_once(store: Store, policy: Overlap) -> None:
    """Four instants in one plan, nothing alive: the newest runs where one takes the place of another."""
    job = await submitted(store, 35 * SECOND, overlap=policy)
    await plan_due(store)
    due_now = (await read(store, job))[:-1]
    expected = {
        Overlap.ALLOW: [(QUEUED, 1)] * 4,
        Overlap.SKIP: [(QUEUED, 1), (SKIPPED, 3)],
        Overlap.QUEUE: [(QUEUED, 1)] + [(BLOCKED, 1)] * 3,
        Overlap.QUEUE_ONE: [(QUEUED, 1), (BLOCKED, 1), (SKIPPED, 2)],
        Overlap.CANCEL_PREVIOUS: [(SKIPPED, 3), (QUEUED, 1)],
        Overlap.TERMINATE_PREVIOUS: [(SKIPPED, 3), (QUEUED, 1)],
    }
    assert [(each.status, each.fires) for each in due_now] == expected[policy]
    if policy in REPLACING:
        assert (due_now[0].reason, due_now[1].fire_time) == (TAKEN_OVER, due_now[0].fire_time + 30 * SECOND)
    assert await current(store, job) != job


@pytest.mark.parametrize("policy", REPLACING)
async def test_the_newest_that_is_caught_up_takes_the_place_of_who_runs_and_who_waits(
    store: Store, policy: Overlap
) -> None:
    job, got = await busy(store, policy)
    (waiting,) = await due(store, job)
    steps = [fire(waiting + step * MILLISECOND) for step in (1, 2, 3)]
    await write(store, job, *steps)
    assert await shown(store, job) == [(RUNNING, 1), (SKIPPED, 1), (SKIPPED, 2), (BLOCKED, 1)]
    *_, newest = await read(store, job)
    await store.settle([settlement(got)])
    old, *_ = await read(store, job)
    # Who is cancelled twice keeps the first reason: that run was the first to want its place.
    assert old.reason.endswith(f"replaced this run (overlap {policy})")
    assert await work_off(store) == [newest.fire_time]


@pytest.mark.parametrize("policy", REPLACING)
async def test_a_fire_to_come_takes_the_place_when_it_falls_due_and_not_before(store: Store, policy: Overlap) -> None:
    job, got = await busy(store, policy)
    at = store.now() + 300 * MILLISECOND
    await write(store, job, fire(at))
    assert await store.holding("w_1") == {got.token: Wanted.GO_ON}
    assert await store.next_plan_at() == at
    await until(store, at)
    await write(store, job)
    assert (await store.worker_orders()).cancels == [("w_1", got.token, policy is Overlap.TERMINATE_PREVIOUS)]
    await store.settle([settlement(got)])
    assert await work_off(store) == [at]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("policy", EVERY)
async def test_every_instant_is_in_one_row_whatever_happens(store: Store, policy: Overlap, seed: int) -> None:
    """Plans, ends, retries, cancels and manual runs as they come; consecutive instants that did not run share rows."""
    rng = random.Random(seed)
    job = await submitted(store, 60 * SECOND, overlap=policy, retry=Retry(backoff="fixed", base="0s"))
    assert job.next_fire_at is not None
    start, count = job.next_fire_at, 0
    held: list[Claim] = []
    for _ in range(40):
        match rng.choice(["fire", "fire", "fires", "miss", "claim", "end", "fail", "cancel", "ask"]):
            case "fire" | "fires" as what:
                more = 1 if what == "fire" else 3
                await write(store, job, *(fire(start + at * MILLISECOND) for at in range(count, count + more)))
                count += more
            case "miss":
                span = Span(start + count * MILLISECOND, start + (count + 1) * MILLISECOND, 2, Verdict.MISSED, "m")
                await write(store, job, span)
                count += 2
            case "claim":
                held += await claim(store, 2)
                assert policy is Overlap.ALLOW or len(held) <= 1
            case "end" | "fail" as what if held:
                got = held.pop(0)
                await store.settle([settlement(got, BOOM if what == "fail" and got.attempt < 3 else None)])
            case "cancel" if alive := [each.id for each in await read(store, job) if not each.is_terminal]:
                await store.request_cancel([rng.choice(alive)])
            case "ask":
                await store.trigger([run(job, store.now())])
    await store.settle([settlement(got) for got in held])
    await work_off(store)
    rows = [each for each in await read(store, job) if each.is_due_instant]
    assert all(each.is_terminal for each in rows)
    assert all(each.fire_until - each.fire_time == (each.fires - 1) * MILLISECOND for each in rows)
    covered = [each.fire_time + step * MILLISECOND for each in rows for step in range(each.fires)]
    assert covered == [start + at * MILLISECOND for at in range(count)]
    assert (await adds_up(store, job)).total() == count


@pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE_ONE])
async def test_however_long_a_run_takes_what_it_keeps_from_running_is_one_row(store: Store, policy: Overlap) -> None:
    job, _ = await busy(store, policy)
    await due(store, job, 20)
    assert Counter(status for status, _ in await shown(store, job))[SKIPPED] == 1
    assert (await adds_up(store, job)).total() == 21


# --- runs that people ask for -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "answers"),
    [
        (Overlap.ALLOW, [QUEUED, QUEUED]),
        (Overlap.SKIP, [SKIPPED, SKIPPED]),
        (Overlap.QUEUE, [BLOCKED, BLOCKED]),
        (Overlap.QUEUE_ONE, [BLOCKED, SKIPPED]),
        (Overlap.CANCEL_PREVIOUS, [BLOCKED, BLOCKED]),
        (Overlap.TERMINATE_PREVIOUS, [BLOCKED, BLOCKED]),
    ],
)
async def test_asking_while_one_runs_says_what_happened(store: Store, policy: Overlap, answers: list[Status]) -> None:
    job, got = await busy(store, policy)
    asked = [run(job, store.now()) for _ in answers]
    assert [(await store.trigger([each]))[0] for each in asked] == answers
    await store.settle([settlement(got)])
    ran = {
        Overlap.ALLOW: asked,
        Overlap.SKIP: [],
        Overlap.QUEUE: asked,
        Overlap.QUEUE_ONE: asked[:1],
        Overlap.CANCEL_PREVIOUS: asked[1:],
        Overlap.TERMINATE_PREVIOUS: asked[1:],
    }
    assert await work_off(store) == [each.fire_time for each in ran[policy]]
    assert (await adds_up(store, job)).total() == 1, "what people ask for is no instant of the schedule"


@pytest.mark.parametrize(
    ("policy", "answers"),
    [
        (Overlap.ALLOW, [QUEUED, QUEUED, QUEUED]),
        (Overlap.SKIP, [QUEUED, SKIPPED, SKIPPED]),
        (Overlap.QUEUE, [QUEUED, BLOCKED, BLOCKED]),
        (Overlap.QUEUE_ONE, [QUEUED, BLOCKED, SKIPPED]),
        (Overlap.CANCEL_PREVIOUS, [SKIPPED, SKIPPED, QUEUED]),
        (Overlap.TERMINATE_PREVIOUS, [SKIPPED, SKIPPED, QUEUED]),
    ],
)
async def test_asking_for_several_at_once_says_what_happened(
    store: Store, policy: Overlap, answers: list[Status]
) -> None:
    job = await submitted(store, -3_600 * SECOND, overlap=policy)
    asked = [run(job, store.now()) for _ in answers]
    assert await store.trigger(asked) == answers
    assert await store.trigger(asked) == answers, "asking again changes nothing"


@pytest.mark.parametrize("policy", REPLACING)
async def test_asking_takes_the_place_of_one_that_is_queued_and_of_those_that_wait(
    store: Store, policy: Overlap
) -> None:
    job = await submitted(store, -3_600 * SECOND, overlap=policy)
    first, second, third, fourth = (run(job, store.now()) for _ in range(4))
    assert await store.trigger([first]) == [QUEUED]
    assert await store.trigger([second]) == [QUEUED], "nobody had claimed the first"
    (got,) = await claim(store)
    assert got.run_id == second.id
    assert await store.trigger([third]) == [BLOCKED]
    assert await store.trigger([fourth]) == [BLOCKED]
    await store.settle([settlement(got)])
    found = await store.runs([each.id for each in (first, second, third, fourth)])
    assert {found[each.id].status for each in (first, second, third)} == {Status.CANCELLED}
    assert [each.run_id for each in await claim(store)] == [fourth.id]
    assert found[first.id].reason == f"run {second.id} replaced this run (overlap {policy})"
    assert found[third.id].reason == f"run {fourth.id} replaced this run (overlap {policy})"


@pytest.mark.parametrize("policy", REPLACING)
async def test_a_retry_that_another_one_pushes_aside_leaves_the_old_run_to_be_retried(
    store: Store, policy: Overlap
) -> None:
    job, got = await busy(store, policy, retry=Retry(max_retries=0))
    await store.settle([settlement(got, BOOM)])
    await due(store, job)
    (other,) = await claim(store)
    await store.settle([settlement(other, BOOM)])
    again = [run(job, store.now(), origin=Origin.RETRY) for _ in range(2)]
    old = [got.run_id, other.run_id]
    assert await store.repeat(list(zip(old, again, strict=True))) == [SKIPPED, QUEUED]
    found = await store.runs(old)
    assert [found[run_id].retried_as for run_id in old] == [None, again[1].id]


# --- edits --------------------------------------------------------------------------------------------------------


async def switch(store: Store, job: Job, policy: Overlap) -> None:
    await amend(store, job, spec=msgspec.structs.replace(job.spec, overlap=policy))


@pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE_ONE])
async def test_who_was_let_wait_waits_on_under_a_policy_with_less_room(store: Store, policy: Overlap) -> None:
    job, got = await busy(store, Overlap.QUEUE)
    instants = await due(store, job, 3)
    await switch(store, job, policy)
    await due(store, job)
    assert await shown(store, job) == [(RUNNING, 1), *[(BLOCKED, 1)] * 3, (SKIPPED, 1)]
    await store.settle([settlement(got)])
    assert await work_off(store) == instants


@pytest.mark.parametrize("policy", REPLACING)
async def test_the_first_fire_of_a_policy_that_replaces_takes_the_place_of_a_whole_queue(
    store: Store, policy: Overlap
) -> None:
    job, got = await busy(store, Overlap.QUEUE)
    await due(store, job, 3)
    await switch(store, job, policy)
    assert (await store.worker_orders()).cancels == [], "an edit alone stops nobody"
    (newest,) = await due(store, job)
    assert await shown(store, job) == [(RUNNING, 1), *[(SKIPPED, 1)] * 3, (BLOCKED, 1)]
    await store.settle([settlement(got)])
    assert await work_off(store) == [newest]


@pytest.mark.parametrize("policy", REPLACING)
async def test_it_takes_the_place_of_all_that_ran_side_by_side(store: Store, policy: Overlap) -> None:
    job, first = await busy(store, Overlap.ALLOW)
    await due(store, job, 2)
    held = [first, *await claim(store)]
    await switch(store, job, policy)
    (newest,) = await due(store, job)
    assert {token for _, token, _ in (await store.worker_orders()).cancels} == {got.token for got in held}
    for got in held:
        assert await claim(store) == [], "it waits for all of them"
        await store.settle([settlement(got)])
    assert await work_off(store) == [newest]


async def test_one_that_was_to_take_a_place_keeps_it_when_the_policy_changes(store: Store) -> None:
    job, got = await busy(store, Overlap.CANCEL_PREVIOUS)
    (successor,) = await due(store, job)
    await switch(store, job, Overlap.QUEUE)
    (behind,) = await due(store, job)
    (ended,) = await store.settle([settlement(got)])
    assert ended is not None
    assert ended.status is Status.CANCELLED, "what was asked for is not taken back"
    assert await work_off(store) == [successor, behind]


@pytest.mark.parametrize("policy", [each for each in EVERY if each is not Overlap.ALLOW])
async def test_when_overlap_becomes_allowed_all_that_wait_may_go(store: Store, policy: Overlap) -> None:
    job, _ = await busy(store, policy)
    await due(store, job, 2)
    waiting = [each.fire_time for each in await read(store, job) if each.status is BLOCKED]
    await switch(store, job, Overlap.ALLOW)
    (later,) = await due(store, job)
    assert sorted(got.fire_time for got in await claim(store)) == [*waiting, later]
