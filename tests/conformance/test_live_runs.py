"""A job with very many live runs is paused, changed and cancelled in bounded pieces (I28): no statement loads all of
its runs into memory."""

import random
from typing import Any

import msgspec
import pytest

from tests.conformance.conftest import Connect
from tests.support.builders import LEASE, TENANT, recurring, run, worker
from timeball import system
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.instant import HOUR
from timeball.domain.job.job import Job, JobState
from timeball.operation.context import OperationContext
from timeball.operation.jobs.pause import pause, resume
from timeball.operation.jobs.update import update
from timeball.operation.runs import cancel
from timeball.operation.runs.cancel import cancel_job
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.runs import SlotRequest
from timeball.ports.store.store import Store
from timeball.server.wakeups import LocalWakeups
from timeball.stores.postgres import tx as postgres_tx
from timeball.stores.sql.jobs import amend
from timeball.stores.sqlite import tx as sqlite_tx

LIVE_RUNS_OF_JOBS = 200
FEW = 20


@pytest.fixture
def most_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each statement answered from now on."""
    counts: list[int] = []
    for tx in (postgres_tx.Tx, sqlite_tx.Tx):
        fetch = tx.fetch

        async def counted(self: Any, query: Any, fetch: Any = fetch, **parameters: Any) -> Any:
            rows = await fetch(self, query, **parameters)
            counts.append(len(rows))
            return rows

        monkeypatch.setattr(tx, "fetch", counted)
    monkeypatch.setattr(amend, "MAX_LIVE", FEW)
    monkeypatch.setattr(cancel, "CANCELLED_AT_ONCE", FEW)
    return counts


_random = random.Random(7)
"""One for all contexts: two that begin alike make the same ids within one millisecond."""


def context(store: Store) -> OperationContext:
    return OperationContext(store, system.SystemClock(), _random, LocalWakeups(lambda _: None))


async def crowded(store: Store, **fields: Any) -> Job:
    now = store.now()
    sent = recurring(now, seconds=3600, next_fire_at=now + HOUR, overlap=Overlap.ALLOW, **fields)
    await store.submit([sent])
    for _ in range(10):
        await store.trigger([run(sent.job, now) for _ in range(LIVE_RUNS_OF_JOBS // 10)])
    return sent.job


async def test_a_job_with_many_live_runs_is_changed_without_reading_them_all(
    connect: Connect, most_rows: list[int]
) -> None:
    store = await connect()
    await store.register(worker("w_1"), LEASE)
    job = await crowded(store)
    most_rows.clear()
    await pause(context(store), TENANT, job.id)
    await resume(context(store), TENANT, job.id)
    await update(context(store), TENANT, job.id, lambda spec: msgspec.structs.replace(spec, overlap=Overlap.QUEUE))
    assert max(most_rows) <= FEW
    claims = (await store.claim([SlotRequest("w_1", "", 10)], 0)).claims
    assert len(claims) == 10
    assert all(b'"allow"' in each.spec for each in claims), "runs that are due keep the spec that they fell due with"
    assert all(each.serial for each in claims), "they look at each other from now on"


async def test_a_job_with_many_live_runs_is_cancelled_in_pieces(connect: Connect, most_rows: list[int]) -> None:
    store = await connect()
    job = await crowded(store)
    most_rows.clear()
    status = await cancel_job(context(store), TENANT, job.id)
    assert max(most_rows) <= 2 * FEW
    assert status.job.state is JobState.CANCELLED
    cancelled = await store.count_runs(RunFilter(tenant=TENANT, job_id=job.id))
    assert cancelled == LIVE_RUNS_OF_JOBS
    await store.register(worker("w_1"), LEASE)
    assert (await store.claim([SlotRequest("w_1", "", 10)], 0)).claims == []
