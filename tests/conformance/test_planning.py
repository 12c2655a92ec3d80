"""Every fire becomes one run or part of one ledger row, and runs of a serial job execute one after the other (I2, I5,
I16, I20)."""

import asyncio
from collections import Counter

import pytest
import structlog

from tests.conformance.conftest import Tamper
from tests.support.builders import LEASE, bits, one_shot, plan_due, recurring, run, settlement, worker
from timeball.domain import ids
from timeball.domain.dispatch.overlap import QUEUE_DEPTH, Overlap
from timeball.domain.instant import HOUR, MILLISECOND, SECOND
from timeball.domain.job.job import Job
from timeball.domain.planning.planning import JobPlan, PlannedFire, Span, plan
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.lifecycle import Failed, Failure
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.ports.store.jobs import JobFilter, Submission
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store

FAR = 10**18


async def read(store: Store, job: Job) -> list[Run]:
    """All runs and spans of a job, in the order of their instants."""
    page = await store.list_runs(RunFilter(tenant=job.tenant, job_id=job.id), None, 10_000)
    return sorted(page.items, key=lambda each: (each.fire_time, each.id))


async def current(store: Store, job: Job) -> Job:
    return (await store.jobs([job.id]))[job.id].job


async def claim(store: Store, slots: int = 1_000) -> list[Claim]:
    return (await store.claim([SlotRequest("w_1", "", slots)], 0)).claims


async def until(store: Store, instant: int) -> None:
    """Sleep until the store's time is past an instant; its clock may be a little slower than this one."""
    await asyncio.sleep(max(0, instant - store.now()) / SECOND)
    for _ in range(1_000):
        if store.now() > instant:
            return
        await asyncio.sleep(0.002)
    pytest.fail("the store's clock stands still")


async def submitted(store: Store, late: int, **fields: object) -> Job:
    """An interval of ten seconds whose first fire came `late` microseconds ago."""
    first = store.now() - late
    sent = recurring(min(first - 10 * SECOND, store.now()), next_fire_at=first, **fields)
    sent = Submission(sent.job.with_(anchor=first), ())
    await store.submit([sent])
    return sent.job


async def write(store: Store, job: Job, *steps: PlannedFire | Span, next_fire_at: int | None = FAR) -> bool:
    """Commit a hand-made plan for the job as it is."""
    now = await current(store, job)
    made = JobPlan(now, steps, next_fire_at, next_fire_at)
    return bool(await store.commit_plans([made], [[ids.run(store.now(), bits) for _ in steps]]))


def fire(at: int) -> PlannedFire:
    return PlannedFire(at, Origin.SCHEDULE, at)


async def test_due_jobs_come_longest_overdue_first_and_none_is_too_old(store: Store) -> None:
    now = store.now()
    ages = [SECOND, 1_000 * 24 * HOUR, HOUR]
    sent = [recurring(now, next_fire_at=now - age) for age in ages]
    await store.submit([*sent, recurring(now, next_fire_at=now + HOUR)])
    assert [job.id for job in await store.due_jobs(10)] == [sent[at].job.id for at in (1, 2, 0)]
    assert [job.id for job in await store.due_jobs(1)] == [sent[1].job.id]
    assert await store.next_plan_at() == sent[1].job.plan_at


async def test_a_job_that_cannot_be_read_holds_nobody_up(store: Store, tamper: Tamper) -> None:
    """A time zone that is no more, a field of a newer version: its neighbours are planned and listed without it."""
    now = store.now()
    sent = [recurring(now, next_fire_at=now - age * SECOND) for age in (3, 2, 1)]
    await store.submit(sent)
    good, bad = sent[2].job, [each.job.id for each in sent[:2]]
    await tamper(f"UPDATE jobs SET spec = '{{\"never\": 1}}' WHERE id = '{bad[0]}'")
    await tamper(f"UPDATE jobs SET spec = replace(spec, '10s', 'ten') WHERE id = '{bad[1]}'")
    with structlog.testing.capture_logs() as logs:
        assert await store.due_jobs(2) == []
        assert [job.id for job in await store.due_jobs(2)] == [good.id]
        assert list(await store.jobs([*bad, good.id])) == [good.id]
        page = await store.list_jobs(JobFilter(tenant=good.tenant), None, 2)
        assert [each.job.id for each in page.items] == [good.id]
        page = await store.list_jobs(JobFilter(tenant=good.tenant), page.next_cursor, 2)
        assert (page.items, page.next_cursor) == ([], None)
    assert sorted(log["job"] for log in logs if log["log_level"] == "error") == sorted(bad)
    upcoming = await store.next_plan_at()
    assert upcoming == good.plan_at
    await plan_due(store)
    await tamper(
        f"UPDATE jobs SET spec = (SELECT spec FROM jobs WHERE id = '{good.id}'), plan_at = 0 WHERE id = '{bad[0]}'"
    )
    assert [job.next_fire_at for job in await store.due_jobs(2)] == [sent[0].job.next_fire_at]


async def test_a_plan_becomes_runs_and_moves_the_job_on(store: Store) -> None:
    job = await submitted(store, SECOND, overlap="allow")
    assert await plan_due(store) == [job.id]
    due, future = await read(store, job)
    assert (due.fire_time, due.status, due.origin) == (job.next_fire_at, Status.QUEUED, Origin.SCHEDULE)
    assert (future.fire_time, future.status) == (due.fire_time + 10 * SECOND, Status.SCHEDULED)
    assert (await current(store, job)).next_fire_at == future.fire_time + 10 * SECOND
    assert await plan_due(store) == []


async def test_a_plan_made_from_another_state_writes_nothing(store: Store) -> None:
    job = await submitted(store, SECOND)
    made = plan(job, store.now())
    fresh = [[ids.run(store.now(), bits) for _ in made.steps] for _ in range(4)]
    stale = [
        JobPlan(job.with_(version=2), made.steps, made.next_fire_at, made.plan_at),
        JobPlan(job.with_(next_fire_at=None), made.steps, made.next_fire_at, made.plan_at),
        JobPlan(job.with_(id="j_other"), made.steps, made.next_fire_at, made.plan_at),
        made,
    ]
    assert await store.commit_plans(stale, fresh) == [job.id]
    assert await store.commit_plans([made], [fresh[3]]) == []
    assert len(await read(store, job)) == len(made.steps)


async def test_an_exhausted_schedule_is_never_planned_again(store: Store) -> None:
    job = await submitted(store, SECOND, overlap="allow")
    assert job.next_fire_at is not None
    assert await write(store, job, fire(job.next_fire_at), next_fire_at=None)
    (got,) = await claim(store)
    await store.settle([settlement(got)])
    assert (await store.jobs([job.id]))[job.id].status == "completed"
    assert await store.next_plan_at() is None


async def test_overlap_allow_runs_side_by_side(store: Store) -> None:
    await submitted(store, 25 * SECOND, overlap="allow")
    await plan_due(store)
    assert len(await claim(store)) == 3


async def test_overlap_queue_runs_one_after_the_other_in_the_order_of_instants(store: Store) -> None:
    job = await submitted(store, 25 * SECOND)
    await plan_due(store)
    assert [each.status for each in await read(store, job)] == [
        Status.QUEUED,
        Status.BLOCKED,
        Status.BLOCKED,
        Status.SCHEDULED,
    ]
    order = []
    while batch := await claim(store):
        (got,) = batch
        order.append(got.fire_time)
        await store.settle([settlement(got)])
    assert order == sorted(order)
    assert len(order) == 3
    assert [each.verdict for each in await read(store, job)][-1] is Verdict.OPEN


async def test_overlap_skip_says_which_run_was_in_the_way(store: Store) -> None:
    job = await submitted(store, 25 * SECOND, overlap="skip")
    await plan_due(store)
    first, span, future = await read(store, job)
    assert (first.status, future.status) == (Status.QUEUED, Status.SCHEDULED)
    assert (span.status, span.verdict, span.fires, span.reason) == (
        Status.SKIPPED,
        Verdict.SKIPPED,
        2,
        f"run {first.id} was still running",
    )
    assert span.fire_until == span.fire_time + 10 * SECOND


async def test_a_run_that_waits_for_its_retry_is_still_in_the_way(store: Store) -> None:
    job = await submitted(store, SECOND, retry=Retry(backoff=["1h"]))
    await plan_due(store)
    (got,) = await claim(store)
    await store.settle([settlement(got, Failed(Failure(kind="exit", message="")))])
    await write(store, job, fire(store.now() - 1))
    assert await claim(store) == []
    assert await store.retry_now([got.run_id]) == [True]
    (again,) = await claim(store)
    assert again.run_id == got.run_id
    await store.settle([settlement(again)])
    assert len(await claim(store)) == 1


async def test_a_future_fire_waits_only_while_another_run_is_alive(store: Store) -> None:
    job = await submitted(store, SECOND)
    at = store.now() + 10 * SECOND
    assert job.next_fire_at is not None
    await write(store, job, fire(job.next_fire_at), fire(at))
    (got,) = await claim(store)
    assert (await store.claim([SlotRequest("w_1", "", 1)], 20 * SECOND)).claims == []
    await store.settle([settlement(got)])
    (ahead,) = (await store.claim([SlotRequest("w_1", "", 1)], 20 * SECOND)).claims
    assert ahead.fire_time == at


@pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE])
async def test_a_blocked_run_is_decided_when_it_falls_due(store: Store, policy: Overlap) -> None:
    job = await submitted(store, SECOND, overlap=policy)
    at = store.now() + 300 * MILLISECOND
    assert job.next_fire_at is not None
    await write(store, job, fire(job.next_fire_at), fire(at))
    assert await store.next_plan_at() == at
    await until(store, at)
    assert await write(store, job)
    first, second = await read(store, job)
    assert first.status is Status.QUEUED
    assert second.status is (Status.SKIPPED if policy is Overlap.SKIP else Status.BLOCKED)
    assert await store.next_plan_at() == FAR
    await store.settle([settlement(got) for got in await claim(store)])
    assert len(await claim(store)) == (0 if policy is Overlap.SKIP else 1)


async def test_skips_that_follow_each_other_share_a_row_until_a_run_comes_between(store: Store) -> None:
    job = await submitted(store, SECOND, overlap="skip")
    assert job.next_fire_at is not None
    start = job.next_fire_at
    await write(store, job, fire(start))
    for step in range(1, 6):
        await write(store, job, fire(start + step), next_fire_at=start + step + 1)
    first, span = await read(store, job)
    assert (span.fire_time, span.fire_until, span.fires) == (start + 1, start + 5, 5)
    await store.settle([settlement(got) for got in await claim(store)])
    await write(store, job, fire(start + 6), fire(start + 7), next_fire_at=start + 8)
    await write(store, job, Span(start + 8, start + 9, 2, Verdict.MISSED, "m"), next_fire_at=start + 10)
    await write(store, job, Span(start + 10, start + 10, 1, Verdict.MISSED, "m"), next_fire_at=start + 11)
    rows = [(each.fire_time - start, each.fires, each.verdict) for each in await read(store, job)]
    assert rows == [
        (0, 1, Verdict.ON_TIME),
        (1, 5, Verdict.SKIPPED),
        (6, 1, Verdict.OPEN),
        (7, 1, Verdict.SKIPPED),
        (8, 3, Verdict.MISSED),
    ]
    assert first.id != span.id


async def test_blocked_runs_that_are_skipped_one_by_one_share_a_row(store: Store) -> None:
    job = await submitted(store, SECOND, overlap="skip")
    assert job.next_fire_at is not None
    await write(store, job, fire(job.next_fire_at))
    for _ in range(4):
        at = store.now() + 100 * MILLISECOND
        await write(store, job, fire(at))
        await until(store, at)
    await write(store, job)
    _, span = await read(store, job)
    assert (span.verdict, span.fires) == (Verdict.SKIPPED, 4)
    sums = await store.ledger_sums(job.id, 0, FAR)
    assert sums.due == 5


async def test_missed_instants_get_a_row_with_their_reason(store: Store) -> None:
    job = await submitted(store, 3 * HOUR + 5 * SECOND, catch_up="last")
    await plan_due(store)
    missed, newest, *_ = await read(store, job)
    assert (missed.status, missed.verdict, missed.fires) == (Status.SKIPPED, Verdict.MISSED, 1080)
    assert "catchUp is last" in missed.reason
    assert newest.origin is Origin.CATCH_UP


async def test_the_queue_has_an_end(store: Store) -> None:
    job = await submitted(store, SECOND)
    assert job.next_fire_at is not None
    start = job.next_fire_at
    for first in range(0, QUEUE_DEPTH + 10, 500):
        last = min(first + 500, QUEUE_DEPTH + 10)
        await write(store, job, *(fire(start + at) for at in range(first, last)), next_fire_at=start + last)
    statuses = Counter(each.status for each in await read(store, job))
    assert statuses == {Status.QUEUED: 1, Status.BLOCKED: QUEUE_DEPTH, Status.SKIPPED: 1}
    sums = await store.ledger_sums(job.id, 0, FAR)
    assert (sums.due, sums.counts) == (
        QUEUE_DEPTH + 10,
        {Verdict.OPEN: QUEUE_DEPTH + 1, Verdict.SKIPPED: 9},
    )


async def test_a_later_one_shot_does_not_overlap_a_run_somebody_asked_for(store: Store) -> None:
    """A one-shot's runs do not look at each other, until there are two."""
    sent = one_shot(store.now(), at=store.now() + HOUR)
    waiting = Submission(sent.job.with_(next_fire_at=store.now() - 1, plan_at=0), ())
    await store.submit([waiting])
    assert await store.trigger([run(waiting.job, store.now())]) == [Status.QUEUED]
    assert await write(store, waiting.job, fire(store.now() - 1), next_fire_at=None)
    (got,) = await claim(store)
    assert await claim(store) == []
    await store.settle([settlement(got)])
    assert len(await claim(store)) == 1


@pytest.mark.timeout(300)
async def test_two_planners_make_each_instant_happen_once(stores: tuple[Store, Store]) -> None:
    store = stores[0]
    policies = [Overlap.ALLOW, Overlap.QUEUE, Overlap.SKIP]
    jobs = [await submitted(store, 95 * SECOND, overlap=policies[at % 3], catch_up_window="1h") for at in range(12)]
    for _ in range(6):
        await asyncio.gather(*(plan_due(stores[turn % 2]) for turn in range(4)))
    for job in jobs:
        rows = await read(store, job)
        instants = [each.fire_time + step * 10 * SECOND for each in rows for step in range(each.fires)]
        assert len(instants) == len(set(instants)) >= 10
        assert sorted(instants) == list(range(min(instants), max(instants) + 1, 10 * SECOND))


@pytest.mark.parametrize("policy", [policy for policy in Overlap if policy is not Overlap.ALLOW])
async def test_runs_of_a_serial_job_never_overlap_under_concurrency(
    stores: tuple[Store, Store], policy: Overlap
) -> None:
    """Planners, claimers, triggers and ends of runs, all at once, over two servers."""
    for session in range(2):
        await stores[0].register(worker(f"w_{session}"), LEASE)
    jobs = [await submitted(stores[0], SECOND, overlap=policy) for _ in range(4)]
    held: Counter[str] = Counter()
    finished: Counter[str] = Counter()
    worst = 0
    working = True

    async def planner(store: Store) -> None:
        while working:
            for job in jobs:
                await write(store, job, fire(store.now() - 1), next_fire_at=store.now())
            await asyncio.sleep(0)

    async def asker(store: Store) -> None:
        while working:
            await store.trigger([run(job, store.now()) for job in jobs])
            await asyncio.sleep(0.005)

    async def runner(store: Store, session: str) -> None:
        nonlocal worst, working
        while working:
            claims = (await store.claim([SlotRequest(session, "", 3)], 0)).claims
            held.update(got.job_id for got in claims)
            worst = max([worst, *held.values()])
            await asyncio.sleep(0.001)
            held.subtract(got.job_id for got in claims)
            await store.settle([settlement(got) for got in claims])
            finished.update(got.job_id for got in claims)
            working = working and min(finished[job.id] for job in jobs) < 15

    tasks = [planner(each) for each in stores] + [asker(stores[1])]
    tasks += [runner(stores[at], f"w_{at}") for at in range(2)]
    await asyncio.wait_for(asyncio.gather(*tasks), 100)
    assert worst == 1
    # Nothing is left behind: once the planners rest, every waiting run gets its turn.
    while claims := (await stores[0].claim([SlotRequest("w_0", "", 100)], 0)).claims:
        await stores[0].settle([settlement(got) for got in claims])
    for job in jobs:
        assert not [each for each in await read(stores[0], job) if not each.is_terminal]


async def test_fires_are_counted_with_the_plan_that_makes_them(store: Store) -> None:
    job = await submitted(store, 25 * SECOND, catch_up="last")
    await plan_due(store)
    assert (await current(store, job)).fired == 2, "the newest missed one and the next; missed ones do not count"
    assert not await store.commit_plans([plan(job, store.now())], [[ids.run(store.now(), bits) for _ in range(3)]])
    assert (await current(store, job)).fired == 2


async def test_however_many_plan_a_job_fires_no_more_often_than_it_may(stores: tuple[Store, Store]) -> None:
    policies = [Overlap.ALLOW, Overlap.QUEUE, Overlap.SKIP]
    jobs = [await submitted(stores[0], 95 * SECOND, overlap=policies[at % 3], max_runs=7) for at in range(6)]
    for _ in range(4):
        await asyncio.gather(*(plan_due(stores[turn % 2]) for turn in range(4)))
    for job in jobs:
        found = await current(stores[0], job)
        assert (found.fired, found.next_fire_at) == (7, None)
        assert sum(each.fires for each in await read(stores[0], job)) == 7
