"""Statistics of the ends of runs: each end counts once, however the run ended, and only for its tenant (I24)."""

import pytest

from tests.conformance.test_planning import claim, submitted
from tests.support.builders import one_shot, plan_due, recurring, run, settlement
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND, Micros
from timeball.domain.overview import tally
from timeball.domain.overview.tally import COARSE_WIDTH, FINE_WIDTH, RunTally
from timeball.domain.run.ledger import Origin
from timeball.domain.run.lifecycle import Failed, Failure
from timeball.domain.task.retry import Retry
from timeball.ports.store.maintenance import Deposed, Lead
from timeball.ports.store.runs import SlotRequest
from timeball.ports.store.store import Store
from timeball.stores.sql.committed_changes import CommittedChanges
from timeball.stores.sql.overview import statistics

BOOM = Failed(Failure(kind="exit", message="boom"))


@pytest.fixture(autouse=True)
def uncounted(store: Store) -> None:
    """Connections are used by several tests, and what one test ended is not for the next one to write."""
    forget(store)


def forget(store: Store) -> None:
    committed: CommittedChanges = store._db.committed  # type: ignore[attr-defined]
    committed.__init__()  # type: ignore[misc]


async def total(store: Store, tenant: str = "default", width: Micros = COARSE_WIDTH) -> RunTally:
    now = store.now()
    whole = RunTally()
    for each in (await store.statistics(tenant, width, now - 2 * HOUR, now + HOUR)).values():
        whole.add(each)
    return whole


async def test_every_end_is_counted_by_its_status(store: Store) -> None:
    now = store.now()
    plain = [one_shot(now, name="plain") for _ in range(3)]
    retried = one_shot(now, name="retried", retry=Retry(max_retries=0))
    cancelled = one_shot(now, at=now + HOUR, name="cancelled")
    await store.submit([*plain, retried, cancelled])
    claims = await claim(store)
    await store.settle([settlement(each, BOOM if each.job_id == retried.job.id else None) for each in claims])
    await store.request_cancel([cancelled.runs[0].id])
    await store.record_statistics("s_1", 1)
    assert (await total(store)).ends == {"succeeded": 3, "dead": 1, "cancelled": 1}
    assert (await total(store, width=FINE_WIDTH)).ends == {"succeeded": 3, "dead": 1, "cancelled": 1}


async def test_another_attempt_is_not_an_end(store: Store) -> None:
    await store.submit([one_shot(store.now(), retry=Retry(max_retries=1))])
    await store.settle([settlement(each, BOOM) for each in await claim(store)])
    await store.record_statistics("s_1", 1)
    assert (await total(store)).ends == {}


async def test_fires_that_never_ran_are_counted_one_by_one(store: Store) -> None:
    job = await submitted(store, 95 * SECOND, catch_up="none")
    await plan_due(store)
    await store.record_statistics("s_1", 1)
    due = await store.ledger_sums(job.id, 0, store.now())
    assert (await total(store)).ends == {tally.MISSED: due.due}
    assert due.due >= 9


async def test_a_span_that_grows_counts_only_what_was_added(store: Store) -> None:
    job = await submitted(store, 95 * SECOND, catch_up="none")
    await plan_due(store)
    await store.record_statistics("s_1", 1)
    before = (await total(store)).ends[tally.MISSED]
    again = await submitted(store, 35 * SECOND, catch_up="none")
    await plan_due(store)
    await store.record_statistics("s_1", 2)
    sums = await store.ledger_sums(again.id, 0, store.now())
    assert (await total(store)).ends == {tally.MISSED: before + sums.due}
    assert job.id != again.id


async def test_lateness_is_counted_for_runs_that_started(store: Store) -> None:
    now = store.now()
    quick, slow, failed = (one_shot(now - MINUTE, at=now - MINUTE) for _ in range(3))
    await store.submit([quick, slow, failed])
    late = {quick.job.id: 4_000, slow.job.id: 20 * SECOND, failed.job.id: 20 * SECOND}
    await store.settle(
        [
            settlement(each, BOOM if each.job_id == failed.job.id else None, at=each.fire_time + late[each.job_id])
            for each in await claim(store)
        ]
    )
    await store.record_statistics("s_1", 1)
    found = (await total(store)).late
    assert found == {tally.bucket_of(4_000): 1, tally.bucket_of(20 * SECOND): 1}  # the failure is tried again
    assert tally.percentiles(found, 0.5, 0.99) == [pytest.approx(4, rel=0.1), pytest.approx(20_000, rel=0.1)]


@pytest.mark.parametrize("largest", [1, 4, 7, 10])
async def test_a_sample_stands_for_all_successes_of_a_batch(
    store: Store, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "MAX_SAMPLE", largest)
    now = store.now()
    await store.submit([one_shot(now - MINUTE, at=now - MINUTE) for _ in range(10)])
    claims = await claim(store)
    await store.settle([settlement(each, at=each.fire_time + 20 * SECOND) for each in claims])
    await store.record_statistics("s_1", 1)
    assert (await total(store)).ends == {"succeeded": 10}
    assert (await total(store)).late == {tally.bucket_of(20 * SECOND): 10}


async def test_each_success_of_a_batch_is_counted_with_its_lateness(store: Store) -> None:
    """Exact counts; a lateness is off by at most one bucket."""
    now, runs = store.now(), 1_000
    await store.submit([one_shot(now - MINUTE, at=now - MINUTE, tenant=f"t{at % 3}") for at in range(runs)])
    claims = (await store.claim([SlotRequest("w_1", "", runs)], 0)).claims
    late = {each.run_id: int(700 * 1.0145**at) for at, each in enumerate(claims)}  # 0.7 ms to 20 minutes
    await store.settle([settlement(each, at=each.fire_time + late[each.run_id]) for each in claims])
    await store.record_statistics("s_1", 1)
    found = RunTally()
    for number in range(3):
        of_tenant = await total(store, f"t{number}")
        assert of_tenant.ends == {"succeeded": len(range(number, runs, 3))}
        found.add(of_tenant)
    exact = sorted(map(tally.bucket_of, late.values()))
    counted = sorted(bucket for bucket, times in found.late.items() for _ in range(times))
    assert len(counted) == runs
    assert all(abs(one - other) <= 1 for one, other in zip(exact, counted, strict=True))


async def test_a_backfill_is_not_late(store: Store) -> None:
    sent = recurring(store.now())
    await store.submit([sent])
    await store.trigger([run(sent.job, store.now() - HOUR, origin=Origin.BACKFILL)])
    await store.settle([settlement(each, at=store.now()) for each in await claim(store)])
    await store.record_statistics("s_1", 1)
    assert await total(store) == RunTally({"succeeded": 1}, {})


async def test_a_batch_that_is_sent_again_counts_once(store: Store) -> None:
    await store.submit([one_shot(store.now()) for _ in range(5)])
    await store.settle([settlement(each) for each in await claim(store)])
    first = await store.record_statistics("s_1", 1)
    assert await store.record_statistics("s_1", 1) is first
    assert (await total(store)).ends == {"succeeded": 5}
    await store.submit([one_shot(store.now())])
    await store.settle([settlement(each) for each in await claim(store)])
    await store.record_statistics("s_1", 2)
    assert (await total(store)).ends == {"succeeded": 6}


async def test_servers_add_up(stores: tuple[Store, Store]) -> None:
    one, two = stores
    forget(one)
    forget(two)
    await one.submit([one_shot(one.now()) for _ in range(5)])
    claims = await claim(one)
    await one.settle([settlement(each) for each in claims[:2]])
    await two.settle([settlement(each) for each in claims[2:]])
    await one.record_statistics("s_1", 1)
    await two.record_statistics("s_2", 1)
    assert (await total(one)).ends == {"succeeded": 5}


async def test_nothing_is_counted_for_another_tenant(store: Store) -> None:
    mine, theirs = one_shot(store.now()), one_shot(store.now(), tenant="other")
    await store.submit([mine, theirs])
    await store.settle([settlement(each) for each in await claim(store)])
    await store.record_statistics("s_1", 1)
    assert (await total(store)).ends == {"succeeded": 1}
    assert (await total(store, "other")).ends == {"succeeded": 1}
    assert (await total(store, "nobody")).ends == {}


async def test_a_transaction_that_failed_counts_nothing(store: Store) -> None:
    sent = one_shot(store.now())
    await store.submit([sent])
    (claimed,) = await claim(store)
    stale = settlement(claimed, token=claimed.token + 1)
    assert await store.settle([stale]) == [None]
    await store.record_statistics("s_1", 1)
    assert (await total(store)).ends == {}


async def test_old_stretches_are_forgotten_and_others_stay(store: Store) -> None:
    old, new = store.now() - 26 * HOUR, store.now()
    await store.submit([one_shot(old, at=old), one_shot(new)])
    await store.settle([settlement(each, at=each.fire_time) for each in await claim(store)])
    await store.record_statistics("s_1", 1)
    lead = await store.lead("housekeeping", "s_1", HOUR)
    assert lead is not None
    assert await store.forget_statistics(lead) == 2
    assert await store.forget_statistics(lead) == 0
    found = await store.statistics("default", COARSE_WIDTH, 0, new + DAY)
    assert [each.ends for each in found.values()] == [{"succeeded": 1}]
    with pytest.raises(Deposed):
        await store.forget_statistics(Lead("housekeeping", "s_2", 7))


async def test_a_skip_by_overlap_is_counted(store: Store) -> None:
    sent = recurring(store.now() - 25 * SECOND, next_fire_at=store.now() - 5 * SECOND, overlap="skip", seconds=2)
    await store.submit([sent])
    await plan_due(store)
    sums = await store.ledger_sums(sent.job.id, 0, store.now())
    await store.record_statistics("s_1", 1)
    ends = (await total(store)).ends
    assert sum(ends.values()) == sum(times for verdict, times in sums.counts.items() if verdict != "open")
