"""Backfills: the fires of a past range, oldest first, a few at a time, each exactly once (I5)."""

import asyncio
import random
from collections import Counter

import pytest
from msgspec import structs

from tests.conformance.conftest import Tamper
from tests.conformance.test_amend import amend
from tests.conformance.test_planning import FAR, claim, current, fire, write
from tests.support.builders import LEASE, TENANT, recurring, run, settlement, worker
from tests.support.thorough import THOROUGH
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.errors import Conflict, IdempotencyMismatch, Invalid
from timeball.domain.instant import HOUR, MINUTE, SECOND, Micros
from timeball.domain.job.job import Job, JobState, decode_spec
from timeball.domain.planning.backfill import BackfillProgress, BackfillState
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.lifecycle import Cancelled, Failed, Failure
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.domain.task.task import Shell
from timeball.domain.workflow.definition import Workflow, WorkflowTask
from timeball.operation.context import OperationContext
from timeball.operation.runs.retry_run import retry_run
from timeball.operation.schedules.backfill import NewBackfill, begin, cancel_backfill, find_backfill, survey
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store
from timeball.server.wakeups import LocalWakeups
from timeball.system import SystemClock

BOOM = Failed(Failure(kind="exit", message="boom"))


_random = random.Random(7)
"""One for all contexts: two that begin alike make the same ids within one millisecond."""


def context(store: Store) -> OperationContext:
    return OperationContext(store, SystemClock(), _random, LocalWakeups(lambda _: None))


async def minutely(store: Store, late: Micros = -HOUR, **fields: object) -> Job:
    """A job that was just made, and that fires every minute, the next time so long ago."""
    now = store.now()
    sent = recurring(now, seconds=60, next_fire_at=now - late, **fields)
    await store.submit([sent])
    return sent.job


def wanted(job: Job, minutes: int, *, parallelism: int = 1, key: str | None = None, said: str = "") -> NewBackfill:
    """The newest so many of its fires, all from before it was made."""
    until = job.anchor - job.anchor % SECOND
    return NewBackfill(
        tenant=TENANT,
        job_id=job.id,
        since=until - minutes * MINUTE,
        until=until,
        parallelism=parallelism,
        key=key,
        fingerprint=said,
    )


async def backfill(store: Store, job: Job, minutes: int, *, parallelism: int = 1) -> str:
    begun = await begin(context(store), wanted(job, minutes, parallelism=parallelism), rendered)
    return begun.backfill_id


def rendered(progress: BackfillProgress) -> bytes:
    return progress.backfill.id.encode()


async def advance(store: Store) -> int:
    return await store.advance_backfills(await store.backfills_to_advance(10))


async def progress(store: Store, backfill_id: str) -> BackfillProgress:
    return await find_backfill(context(store), TENANT, backfill_id)


async def runs_of(store: Store, job: Job) -> list[tuple[Micros, Status]]:
    where = RunFilter(tenant=TENANT, job_id=job.id, origin=frozenset({Origin.BACKFILL}))
    found = []
    cursor = None
    while True:
        page = await store.list_runs(where, cursor, 1_000)
        found += [(each.fire_time, each.status) for each in page.items]
        if (cursor := page.next_cursor) is None:
            return sorted(found)


async def work_off(store: Store, backfill_id: str, slots: int = 100) -> list[list[Micros]]:
    """The fires that were handed out, step by step, until there are no more."""
    steps = []
    while await advance(store) or (await progress(store, backfill_id)).alive:
        claimed = await store.claim([SlotRequest("w_1", "w", slots)], 0)
        steps.append([got.fire_time for got in claimed.claims])
        await store.settle([settlement(got, at=store.now()) for got in claimed.claims])
    await advance(store)
    return steps


async def test_it_goes_oldest_first_at_its_parallelism_each_fire_once_and_comes_to_its_end(store: Store) -> None:
    job = await minutely(store)
    backfill_id = await backfill(store, job, 10, parallelism=4)
    first = await progress(store, backfill_id)
    assert (first.status, first.backfill.total, first.remaining) == ("running", 10, 10)
    steps = await work_off(store, backfill_id)
    assert [len(step) for step in steps] == [4, 4, 2]
    fires = [at for step in steps for at in step]
    assert fires == sorted(set(fires))
    assert len(fires) == 10
    assert {at % MINUTE for at in fires} == {job.anchor % MINUTE}, "the grid of the interval stays where it is"
    last = await progress(store, backfill_id)
    assert (last.status, last.succeeded, last.done, last.alive, last.remaining) == ("completed", 10, 10, 0, 0)
    assert last.backfill.finished_at is not None
    assert not await advance(store)


async def test_it_is_not_in_the_ledger(store: Store) -> None:
    job = await minutely(store)
    await work_off(store, await backfill(store, job, 3))
    assert (await store.ledger_sums(job.id, 0, FAR)).due == 0
    where = RunFilter(tenant=TENANT, job_id=job.id)
    verdicts = Counter(each.verdict for each in (await store.list_runs(where, None, 10)).items)
    assert verdicts == {Verdict.CAUGHT_UP: 3}, "nobody calls it late"


async def test_two_servers_at_once_make_no_run_twice_and_no_more_than_its_parallelism(
    stores: tuple[Store, Store],
) -> None:
    one, other = stores
    await one.register(worker("w_1"), LEASE)
    job = await minutely(one)
    backfill_id = await backfill(one, job, 12, parallelism=3)
    done: list[Micros] = []
    for _ in range(12):
        found = await one.backfills_to_advance(10)
        made = await asyncio.gather(*(each.advance_backfills(found) for each in (one, other, one, other)))
        assert (await progress(other, backfill_id)).alive <= 3, made
        claimed = (await one.claim([SlotRequest("w_1", "w", 2)], 0)).claims
        done += [got.fire_time for got in claimed]
        await asyncio.gather(
            *(each.settle([settlement(got, at=one.now()) for got in claimed]) for each in (one, other))
        )
    assert done == sorted(set(done))
    assert len(done) == 12
    await advance(one)
    assert (await progress(other, backfill_id)).status == "completed"


async def test_one_key_is_one_backfill_and_another_range_under_it_is_refused(store: Store) -> None:
    job = await minutely(store)
    asked = wanted(job, 5, key="k", said="five")
    answers = await asyncio.gather(*(begin(context(store), asked, rendered) for _ in range(5)))
    assert len({each.answer for each in answers}) == 1
    with pytest.raises(IdempotencyMismatch):
        await begin(context(store), wanted(job, 6, key="k", said="six"), rendered)
    assert len((await store.list_backfills(TENANT, job.id, None, 10)).items) == 1
    await begin(context(store), wanted(job, 5), rendered)
    found = await store.list_backfills(TENANT, None, None, 1)
    older = await store.list_backfills(TENANT, None, found.next_cursor, 1)
    assert len({each.backfill.id for each in (*found.items, *older.items)}) == 2, "a deliberate second act"
    assert older.next_cursor is None


async def test_a_repetition_is_answered_also_when_the_job_is_gone(store: Store) -> None:
    job = await minutely(store)
    asked = wanted(job, 5, key="k", said="five")
    first = await begin(context(store), asked, rendered)
    await amend(store, await current(store, job), state=JobState.CANCELLED, cancel_runs=True, keep_schedule=False)
    assert (await begin(context(store), asked, rendered)).answer == first.answer
    with pytest.raises(Conflict):
        await begin(context(store), wanted(job, 5), rendered)


async def test_what_cannot_be_backfilled_is_told(store: Store) -> None:
    job = await minutely(store)
    now = store.now()
    too_many = NewBackfill(tenant=TENANT, job_id=job.id, since=now - 100_001 * MINUTE, until=None)
    for asked, why in (
        (too_many, "more than 100,000 fires"),
        (wanted(job, 0), "after 'from'"),
        (NewBackfill(tenant=TENANT, job_id=job.id, since=now, until=now + HOUR), "is in the future"),
        (NewBackfill(tenant=TENANT, job_id=job.id, since=now - 2, until=now - 1), "no fire"),
    ):
        with pytest.raises(Invalid, match=why):
            await begin(context(store), asked, rendered)
    assert (await survey(context(store), wanted(job, 1_000))).count == 1_000
    assert not (await store.list_backfills(TENANT, None, None, 10)).items


async def test_it_waits_while_its_job_is_paused_and_ends_with_it(store: Store) -> None:
    job = await minutely(store)
    backfill_id = await backfill(store, job, 5)
    await amend(store, await current(store, job), state=JobState.PAUSED)
    assert not await advance(store)
    assert (await progress(store, backfill_id)).status == "paused"
    await amend(store, await current(store, job), state=JobState.ACTIVE)
    assert await advance(store)
    await amend(store, await current(store, job), state=JobState.CANCELLED, cancel_runs=True, keep_schedule=False)
    assert not await advance(store)
    ended = await progress(store, backfill_id)
    assert (ended.status, ended.backfill.reason) == ("cancelled", "its job was cancelled")
    assert (ended.done, ended.backfill.cancelled, ended.remaining) == (1, 1, 4)


async def test_cancelling_it_cancels_what_is_alive_of_it_and_makes_no_more(store: Store) -> None:
    job = await minutely(store)
    backfill_id = await backfill(store, job, 5, parallelism=2)
    await advance(store)
    (held,) = (await store.claim([SlotRequest("w_1", "w", 1)], 0)).claims
    assert (await cancel_backfill(context(store), TENANT, backfill_id)).status == "cancelled"
    assert [status for _, status in await runs_of(store, job)] == [Status.RUNNING, Status.CANCELLED]
    await store.settle([settlement(held, Cancelled(), at=store.now())])
    assert not await advance(store)
    ended = await cancel_backfill(context(store), TENANT, backfill_id)
    assert (ended.done, ended.backfill.cancelled, ended.remaining, ended.succeeded) == (2, 2, 3, 0)


async def test_one_whose_last_run_has_ended_is_complete_also_if_somebody_cancels_it_then(store: Store) -> None:
    backfill_id = await backfill(store, await minutely(store), 1)
    await advance(store)
    (got,) = await claim(store)
    await store.settle([settlement(got, at=store.now())])
    assert await store.cancel_backfill(backfill_id, "too late")
    found = (await progress(store, backfill_id)).backfill
    assert (found.state, found.reason, found.finished_at is not None) == (BackfillState.COMPLETED, "", True)


async def test_what_failed_is_counted_and_a_retry_keeps_its_place(store: Store) -> None:
    job = await minutely(store, retry=Retry(max_retries=1, backoff="fixed", base=0))
    backfill_id = await backfill(store, job, 2)
    for expected in (1, 0):
        await advance(store)
        (got,) = await claim(store)
        await store.settle([settlement(got, BOOM, at=store.now())])
        assert (await progress(store, backfill_id)).alive == expected
    now_at = await progress(store, backfill_id)
    assert (now_at.done, now_at.backfill.failed, now_at.succeeded, now_at.remaining) == (1, 1, 0, 1)


async def test_a_run_of_it_that_is_retried_by_hand_is_still_for_its_time(store: Store) -> None:
    job = await minutely(store, retry=Retry(max_retries=0))
    await backfill(store, job, 1)
    await advance(store)
    (got,) = await claim(store)
    meant = got.fire_time
    for _ in range(2):
        await store.settle([settlement(got, BOOM, at=store.now())])
        asked_at = store.now()
        run = await retry_run(context(store), TENANT, got.run_id)
        assert (run.origin, run.fire_time) == (Origin.RETRY, meant)
        assert run.due >= asked_at
        comes_next = (await store.jobs([job.id]))[job.id].next_run_at
        assert comes_next is not None
        assert comes_next >= asked_at
        (got,) = await claim(store)
        assert (got.run_id, got.fire_time) == (run.id, meant)
    await store.settle([settlement(got, at=store.now())])
    ended = (await store.runs([got.run_id]))[got.run_id]
    assert (ended.status, ended.verdict, ended.fire_time) == (Status.SUCCEEDED, Verdict.ON_TIME, meant)


@pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE, Overlap.CANCEL_PREVIOUS])
async def test_overlap_is_none_of_its_business(store: Store, policy: Overlap) -> None:
    job = await minutely(store, SECOND, overlap=policy)
    backfill_id = await backfill(store, job, 2)
    await advance(store)
    (held,) = await claim(store)
    assert job.next_fire_at is not None
    await write(store, job, fire(job.next_fire_at))
    (fresh,) = await claim(store)
    assert fresh.fire_time == job.next_fire_at, "a run of a backfill is not in the way of a fire"
    await store.settle([settlement(held, at=store.now())])
    await advance(store)
    (second,) = await claim(store)
    assert second.fire_time > held.fire_time, "nor the other way round"
    await store.settle([settlement(fresh), settlement(second, at=store.now())])
    await advance(store)
    assert (await progress(store, backfill_id)).succeeded == 2


async def test_who_waits_for_an_earlier_run_does_not_wait_for_a_backfill(store: Store) -> None:
    job = await minutely(store, SECOND, overlap=Overlap.QUEUE)
    await backfill(store, job, 5)
    await advance(store)
    (held,) = await claim(store)
    assert await store.trigger([run(job, store.now()), run(job, store.now())]) == [Status.QUEUED, Status.BLOCKED]
    (manual,) = await claim(store)
    await store.settle([settlement(manual)])
    assert len(await claim(store)) == 1, f"{held} is still running"


async def test_a_fresh_run_goes_before_one_of_a_backfill_that_waited_longer(store: Store) -> None:
    old, fresh = await minutely(store), await minutely(store)
    await backfill(store, old, 50, parallelism=5)
    assert await advance(store) == 5
    assert await store.trigger([run(fresh, store.now()) for _ in range(1)]) == [Status.QUEUED]
    (first,) = (await store.claim([SlotRequest("w_1", "w", 1)], 0)).claims
    assert first.job_id == fresh.id


async def test_ordering_keys_and_limits_hold(store: Store) -> None:
    job = await minutely(store, ordering_key="k")
    backfill_id = await backfill(store, job, 4, parallelism=3)
    steps = await work_off(store, backfill_id)
    assert [len(step) for step in steps if step] == [1, 1, 1, 1]
    fires = [at for step in steps for at in step]
    assert fires == sorted(fires)


async def test_each_run_executes_the_job_as_it_is_when_the_run_is_made(store: Store) -> None:
    job = await minutely(store, start_deadline="1s", jitter="1h")
    await backfill(store, job, 2)
    await advance(store)
    edited = await current(store, job)
    changed = structs.replace(edited.spec, parameters={"rev": 2})
    (got,) = await claim(store)
    await amend(store, edited, spec=changed)
    await store.settle([settlement(got, at=store.now())])
    await advance(store)
    (then,) = await claim(store)
    assert [b'"rev":2' in each.spec for each in (got, then)] == [False, True]


async def test_the_fires_of_a_workflow_are_woven_one_after_the_other(store: Store) -> None:
    tasks = [
        WorkflowTask(name="a", task=Shell(command="true")),
        WorkflowTask(name="b", needs=["a"], task=Shell(command="true")),
    ]
    job = await minutely(store, task=Workflow(tasks))
    backfill_id = await backfill(store, job, 3)
    names = []
    while (await progress(store, backfill_id)).status == "running":
        await advance(store)
        await store.advance_workflows(500)
        claims = await claim(store)
        names += [decode_spec(got.spec).name.partition("/")[2] for got in claims]
        await store.settle([settlement(got, at=store.now()) for got in claims])
    assert names == ["a", "b"] * 3
    assert (await progress(store, backfill_id)).succeeded == 3


async def test_one_that_cannot_be_read_keeps_no_other_from_going_on(store: Store, tamper: Tamper) -> None:
    job, other = await minutely(store), await minutely(store)
    broken, well = await backfill(store, job, 2), await backfill(store, other, 2)
    await tamper(f"UPDATE backfills SET spec = '?' WHERE id = '{broken}'")
    assert len(await work_off(store, well)) == 2
    assert [each.backfill.id for each in (await store.list_backfills(TENANT, None, None, 10)).items] == [well]
    assert await store.backfills([broken]) == {}


async def test_why_is_about_the_fires_of_today(store: Store) -> None:
    job = await minutely(store, SECOND)
    await backfill(store, job, 2)
    await advance(store)
    assert job.next_fire_at is not None
    await write(store, job, fire(job.next_fire_at))
    standing = await store.standing(job.id)
    assert standing is not None
    assert standing.run is not None
    assert standing.run.run.origin is Origin.SCHEDULE


async def test_what_comes_next_of_its_job_is_not_a_fire_of_the_past(store: Store) -> None:
    job = await minutely(store)
    await backfill(store, job, 2)
    await advance(store)
    found = (await store.jobs([job.id]))[job.id]
    assert found.next_run_at == job.next_fire_at


async def test_a_long_one_does_not_delay_fresh_runs_and_is_not_lost_in_a_crash(store: Store) -> None:
    """Whoever dies between two calls leaves nothing half done: every step here could be the last of its server."""
    fires, parallelism = (10_000, 50) if THOROUGH else (50, 7)
    job, fresh = await minutely(store), await minutely(store, overlap=Overlap.ALLOW)
    backfill_id = await backfill(store, job, fires, parallelism=parallelism)
    rng = random.Random(5)
    seen: Counter[Micros] = Counter()
    order: list[Micros] = []
    held: list[Claim] = []
    waiting: set[str] = set()
    while (await progress(store, backfill_id)).status != "completed":
        await advance(store)
        new = run(fresh, store.now())
        if rng.random() < 0.3:
            await store.trigger([new])
            waiting.add(new.id)
        slots = rng.randrange(1, parallelism)
        got = (await store.claim([SlotRequest("w_1", "w", slots)], 0)).claims
        assert waiting <= {each.run_id for each in got}, "a fresh run waited for one of the backfill"
        waiting.clear()
        held += got
        ours = [each.fire_time for each in got if each.job_id == job.id]
        order += ours
        seen.update(ours)
        rng.shuffle(held)
        ended, held = held[: len(held) // 2 + 1], held[len(held) // 2 + 1 :]
        await store.settle([settlement(each, at=store.now()) for each in ended])
    assert len(seen) == fires
    assert set(seen.values()) == {1}
    assert order == sorted(order), "oldest first"
    assert (await progress(store, backfill_id)).succeeded == fires
