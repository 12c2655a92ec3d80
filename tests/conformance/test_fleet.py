"""The state of the fleet for metrics, and what a store counts for them, on every store."""

import pytest

from tests.conformance.test_planning import claim
from tests.conformance.test_statistics import BOOM, forget
from tests.support.builders import one_shot, settlement
from timeball.domain.instant import HOUR, MINUTE, SECOND
from timeball.domain.run.lifecycle import Failed
from timeball.domain.task.retry import Retry
from timeball.ports.store.store import Store
from timeball.stores.sql.overview import fleet as fleet_module


@pytest.fixture(autouse=True)
def uncounted(store: Store) -> None:
    forget(store)


async def test_due_runs_count_by_priority_and_by_the_labels_they_need(store: Store) -> None:
    now = store.now()
    old = one_shot(now - 2 * MINUTE, priority=8)
    await store.submit([old, one_shot(now - MINUTE, priority=8), one_shot(now - SECOND)])
    await store.submit([one_shot(now - SECOND, runs_on=("gpu",)), one_shot(now, at=now + HOUR)])
    found = await store.fleet_state()
    depths = {(each.tenant, each.queue, each.priority): each.depth for each in found.queues}
    assert depths == {("default", "default", 5): 1, ("default", "default", 8): 2, ("default", "gpu", 5): 1}
    high = next(each for each in found.queues if each.priority == 8)
    assert high.oldest_at == old.runs[0].eligible_at
    assert found.now >= now


async def test_runs_that_execute_and_workers_count(store: Store) -> None:
    await store.submit([one_shot(store.now()) for _ in range(3)])
    await claim(store)
    found = await store.fleet_state()
    assert (found.queues, found.running, found.workers, found.slots) == ([], 3, 1, 10)


async def test_dead_letters_count_until_they_are_discarded(store: Store) -> None:
    await store.submit([one_shot(store.now(), retry=Retry(max_retries=0)) for _ in range(3)])
    claims = await claim(store)
    await store.settle([settlement(each, BOOM) for each in claims])
    assert (await store.fleet_state()).dead_letters == {"default": 3}
    await store.discard([claims[0].run_id])
    assert (await store.fleet_state()).dead_letters == {"default": 2}


async def test_counts_end_at_a_maximum(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "MAX_COUNTED", 2)
    await store.submit([one_shot(store.now()) for _ in range(3)])
    assert [each.depth for each in (await store.fleet_state()).queues] == [2]


@pytest.mark.parametrize("outcome", [None, BOOM])
async def test_the_lateness_of_ended_runs_is_counted_by_its_parts(store: Store, outcome: Failed | None) -> None:
    await store.submit([one_shot(store.now(), retry=Retry(max_retries=0)) for _ in range(5)])
    await store.settle([settlement(each, outcome) for each in await claim(store)])
    ends = await store.record_statistics("s_1", 1)
    parts = {part: sum(found.counts) for (tenant, part), found in ends.delays.items() if tenant == "default"}
    assert parts == dict.fromkeys(("scheduler", "blocked", "queue", "worker"), 5)


async def test_a_second_attempt_is_not_late(store: Store) -> None:
    """The instants of the first attempt are not in the row of the run any more."""
    await store.submit([one_shot(store.now(), retry=Retry(max_retries=1))])
    await store.settle([settlement(each, BOOM) for each in await claim(store)])
    assert (await store.record_statistics("s_1", 1)).delays == {}


async def test_transactions_are_counted_by_what_they_do(store: Store) -> None:
    counted = store.metrics
    reads, writes = sum(counted.reads.counts), sum(counted.writes.counts)
    await store.ping()
    await store.probe_write()
    assert (sum(counted.reads.counts), sum(counted.writes.counts)) == (reads + 1, writes + 1)
    use = store.use()
    if store.kind == "postgresql":
        assert use.connections is not None
        assert 0 <= use.connections.busy <= use.connections.open <= use.connections.limit
        assert (counted.commits, counted.checkpoints, use.log_bytes) == (None, None, None)
    else:
        assert counted.commits is not None
        assert sum(counted.commits.counts) > 0
        assert use.log_bytes is not None
        assert use.log_bytes > 0
