"""Starts are counted from the ledger for lateness objectives, on every store."""

from tests.conformance.test_planning import claim
from tests.conformance.test_statistics import BOOM
from tests.support.builders import one_shot, plan_due, recurring, settlement
from timeball.domain.instant import HOUR, MINUTE, SECOND
from timeball.domain.task.retry import Retry
from timeball.ports.store.overview import StartCounts
from timeball.ports.store.store import Store


async def counts(store: Store, *job_ids: str, limit: int = 100, within: int = 5 * SECOND) -> list[list[StartCounts]]:
    now = store.now()
    found = await store.count_starts(dict.fromkeys(job_ids, within), [now - 24 * HOUR, now - HOUR, now], limit)
    return [found[job_id] for job_id in job_ids]


async def test_late_starts_are_counted_however_the_run_ended(store: Store) -> None:
    now = store.now()
    prompt, late = one_shot(now), one_shot(now - MINUTE, retry=Retry(max_retries=0))
    await store.submit([prompt, late])
    claims = {each.job_id: each for each in await claim(store)}
    at = store.now()
    await store.settle([settlement(claims[prompt.job.id]), settlement(claims[late.job.id], BOOM, at=at)])
    ((_, one), (_, other)) = await counts(store, prompt.job.id, late.job.id)
    assert (one, other) == (StartCounts(1, 0), StartCounts(1, 1))


async def test_a_run_counts_in_the_range_of_its_fire(store: Store) -> None:
    old = one_shot(store.now() - 2 * HOUR)
    await store.submit([old])
    await store.settle([settlement(each, at=store.now()) for each in await claim(store)])
    assert await counts(store, old.job.id) == [[StartCounts(1, 1), StartCounts(0, 0)]]


async def test_a_run_that_waits_counts_once_it_is_late(store: Store) -> None:
    now = store.now()
    waiting = [one_shot(now - MINUTE), one_shot(now), one_shot(now, at=now + HOUR)]
    await store.submit(waiting)
    found = await counts(store, *(each.job.id for each in waiting))
    assert [each[-1] for each in found] == [StartCounts(1, 1), StartCounts(0, 0), StartCounts(0, 0)]


async def test_a_run_that_was_cancelled_in_time_does_not_count_and_later_it_does(store: Store) -> None:
    now = store.now()
    soon, late = one_shot(now, at=now + HOUR), one_shot(now - MINUTE)
    await store.submit([soon, late])
    await store.request_cancel([soon.runs[0].id, late.runs[0].id])
    found = await counts(store, soon.job.id, late.job.id)
    assert [each[-1] for each in found] == [StartCounts(0, 0), StartCounts(1, 1)]


async def test_missed_fires_are_late(store: Store) -> None:
    now = store.now()
    sent = recurring(now - MINUTE, seconds=10, next_fire_at=now - 50 * SECOND, catch_up="none")
    await store.submit([sent])
    await plan_due(store)
    ((_, found),) = await counts(store, sent.job.id)
    assert found.late >= 4
    assert found.count == found.late


async def test_the_number_of_rows_is_bounded(store: Store) -> None:
    now = store.now()
    sent = recurring(now, seconds=10, next_fire_at=now)
    await store.submit([sent])
    for _ in range(3):
        await plan_due(store)
        await store.settle([settlement(each) for each in await claim(store)])
    (ranges,) = await counts(store, sent.job.id, limit=1)
    assert ranges[-1].count <= 1
    assert ranges[-1].capped


async def test_jobs_are_found_by_their_tag(store: Store) -> None:
    one, two, other = (one_shot(store.now(), tags=[tag]) for tag in ("etl", "etl", "mail"))
    await store.submit([one, two, other])
    assert await store.jobs_with_tag("default", "etl", 10) == sorted([one.job.id, two.job.id], reverse=True)
    assert await store.jobs_with_tag("other", "etl", 10) == []
    assert await store.count_starts({}, [0, 1], 1) == {}
