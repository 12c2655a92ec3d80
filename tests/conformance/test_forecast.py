"""The data of a forecast, on every store: jobs that will fire, and the durations of their runs."""

import random
from typing import Any

import msgspec
import pytest

from tests.support.builders import TENANT, one_shot, recurring, settlement
from timeball import system
from timeball.domain.instant import HOUR, MILLISECOND, SECOND
from timeball.domain.job.job import Job
from timeball.domain.planning import forecast
from timeball.domain.planning.forecast import Forecast
from timeball.domain.run.lifecycle import Failed, Failure
from timeball.domain.task.retry import Retry
from timeball.domain.task.task import Shell
from timeball.operation.context import OperationContext
from timeball.operation.schedules import forecast as forecasting
from timeball.ports.store.runs import SlotRequest
from timeball.ports.store.store import Store
from timeball.server.wakeups import LocalWakeups


async def test_jobs_that_will_fire_come_in_pages(store: Store) -> None:
    now = store.now()
    sent = [recurring(now, next_fire_at=now + HOUR) for _ in range(5)]
    await store.submit([*sent, one_shot(now), recurring(now, next_fire_at=now + HOUR, tenant="else")])
    first = await store.firing_jobs(TENANT, "", 3)
    assert [job.id for job in first.items] == [each.job.id for each in sent[:3]]
    assert first.next_cursor == sent[2].job.id
    rest = await store.firing_jobs(TENANT, first.next_cursor, 3)
    assert ([job.id for job in rest.items], rest.next_cursor) == ([each.job.id for each in sent[3:]], None)


async def test_durations_are_those_of_runs_that_succeeded(store: Store) -> None:
    now = store.now()
    sent = [one_shot(now, retry=Retry(max_retries=0)) for _ in range(3)]
    await store.submit(sent)
    claims = {claim.job_id: claim for claim in (await store.claim([SlotRequest("w_1", "", 10)], 0)).claims}
    quick, slow, failed = (claims[each.job.id] for each in sent)
    start = store.now()
    await store.settle(
        [
            settlement(quick, started_at=start, finished_at=start + 250 * MILLISECOND),
            settlement(slow, started_at=start, finished_at=start + 4 * SECOND),
            settlement(failed, Failed(Failure("exit", "no")), started_at=start, finished_at=start + SECOND),
        ]
    )
    jobs = [each.job.id for each in sent]
    means = await store.mean_durations([*jobs, "j_gone"], now - HOUR)
    assert means == {jobs[0]: 0.25, jobs[1]: 4.0}
    assert await store.mean_durations(jobs, now + HOUR) == {}
    assert await store.mean_durations([], 0) == {}


async def test_a_forecast_keeps_only_what_it_counts_with(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """I28: parameters and tasks may be a megabyte each; schedules are not."""
    now = store.now()
    large = {"task": Shell(command="true " * 1_000), "parameters": {"large": "x" * 5_000}}
    await store.submit([recurring(now, next_fire_at=now + HOUR, **large) for _ in range(5)])
    sizes: list[int] = []
    original = forecast.forecast_fires

    def forecast_fires(jobs: list[Job], *rest: Any) -> Forecast:
        sizes.extend(len(msgspec.json.encode(job.spec)) for job in jobs)
        return original(jobs, *rest)

    monkeypatch.setattr("timeball.operation.schedules.forecast.forecast.forecast_fires", forecast_fires)
    context = OperationContext(store, system.SystemClock(), random.Random(7), LocalWakeups(lambda _: None))
    found = await forecasting.forecast_fires(context, TENANT, now, now + 10 * HOUR, HOUR)
    assert found.forecast.jobs == 5
    assert max(sizes) < 500
