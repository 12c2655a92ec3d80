"""Every commit that changes a run, a job or a worker is reported to the listener; a failed commit is not."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from tests.conformance.test_amend import amend
from tests.conformance.test_backfills import context, minutely
from tests.conformance.test_planning import claim, submitted
from tests.conformance.test_workers import lapse
from tests.conformance.test_workflows import DIAMOND, Crew, begin
from tests.support.builders import LEASE, TENANT, one_shot, plan_due, recurring, run, settlement, worker
from timeball.domain.dispatch.limits import Concurrency
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.errors import TimeballError
from timeball.domain.events import EventType
from timeball.domain.instant import HOUR, MINUTE, SECOND
from timeball.domain.job.job import JobState
from timeball.domain.run.lifecycle import Failed, Failure, Released
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.operation.schedules.backfill import NewBackfill, advance
from timeball.operation.schedules.backfill import begin as begin_backfill
from timeball.ports.store.changes import (
    ChangeBatch,
    JobChange,
    JobColumns,
    JobSeen,
    Recorded,
    RunChange,
    RunColumns,
    WorkerChange,
)
from timeball.ports.store.runs import SlotRequest
from timeball.ports.store.store import Store
from timeball.ports.worker_protocol import LOCAL_KEY, Progress

BOOM = Failed(Failure(kind="exit", message="boom"))


class Changes:
    """What the commits of a store changed."""

    def __init__(self, store: Store) -> None:
        self._found: list[Recorded] = []
        store.watch_changes(self._add)

    def _add(self, batches: Sequence[ChangeBatch]) -> None:
        for batch in batches:
            changes = batch.list_changes()
            assert batch.count == len(changes)
            if batch.list_columns is not None:
                compare(changes, batch.list_columns())
            self._found += changes

    def __iter__(self) -> Iterator[Recorded]:
        found, self._found = self._found, []
        return iter(found)

    def runs(self) -> list[tuple[str, Status]]:
        return [(each.run_id, each.status) for each in self if isinstance(each, RunChange)]

    def jobs(self) -> list[tuple[str, EventType]]:
        return [(each.job_id, each.type) for each in self if isinstance(each, JobChange)]

    def workers(self) -> list[tuple[EventType, str, str]]:
        return [(each.type, each.session, each.name) for each in self if isinstance(each, WorkerChange)]


def compare(changes: Sequence[Recorded], columns: RunColumns | JobColumns) -> None:
    """The columns are the changes, in their order."""
    if isinstance(columns, JobColumns):
        jobs = [each for each in changes if isinstance(each, JobChange) and each.job is not None]
        assert [(each.type, each.job_id) for each in jobs] == [(columns.type, job_id) for job_id in columns.job_ids]
        assert [each.job.tenant for each in jobs if each.job] == columns.tenants
        return
    runs = [each for each in changes if isinstance(each, RunChange)]
    assert [each.run_id for each in runs] == columns.run_ids
    assert [each.job_id for each in runs] == columns.job_ids
    assert [each.tenant for each in runs] == (columns.tenants or [""] * len(runs))
    statuses = columns.statuses if not isinstance(columns.statuses, Status) else [columns.statuses] * len(runs)
    assert [each.status for each in runs] == statuses


@pytest.fixture
def changes(store: Store) -> Changes:
    return Changes(store)


async def test_the_life_of_a_run(store: Store, changes: Changes) -> None:
    sent = one_shot(store.now(), name="nightly")
    (new,) = sent.runs
    await store.submit([sent])
    job, queued = changes
    assert isinstance(job, JobChange)
    assert (job.type, job.job_id, job.job) == (EventType.JOB_CREATED, sent.job.id, sent.job)
    assert isinstance(queued, RunChange)
    assert (queued.run_id, queued.job_id, queued.tenant, queued.status) == (new.id, sent.job.id, TENANT, Status.QUEUED)
    (got,) = await claim(store)
    (started,) = changes
    assert isinstance(started, RunChange)
    assert (started.status, started.attempt, started.worker) == (Status.RUNNING, 1, "w_1")
    assert started.tenant == TENANT
    assert started.spec is not None
    assert msgspec.json.decode(started.spec)["name"] == "nightly"
    await store.settle([settlement(got)])
    assert changes.runs() == [(new.id, Status.SUCCEEDED)]


async def test_a_run_that_is_assigned_with_its_submit_is_started(store: Store, changes: Changes) -> None:
    sent = one_shot(store.now())
    _, claims = await store.submit_and_claim([sent], [SlotRequest("w_1", "", 1)])
    assert len(claims) == 1
    _, started = changes
    assert isinstance(started, RunChange)
    assert (started.run_id, started.status, started.tenant) == (sent.runs[0].id, Status.RUNNING, TENANT)
    assert (started.worker, started.attempt) == ("w_1", 1)


async def test_a_submit_that_claims_what_waited_before_says_so(store: Store, changes: Changes) -> None:
    first = one_shot(store.now())
    await store.submit([first])
    list(changes)
    _, claims = await store.submit_and_claim([one_shot(store.now())], [SlotRequest("w_1", "", 1)])
    assert (claims[0].run_id, Status.RUNNING) in changes.runs()


async def test_retries_releases_and_ends(store: Store, changes: Changes) -> None:
    sent = [one_shot(store.now(), retry=Retry(max_retries=retries)) for retries in (1, 0, 0)]
    await store.submit(sent)
    by_run = {each.run_id: each for each in await claim(store)}
    again, dead, back = (by_run[each.runs[0].id] for each in sent)
    list(changes)
    await store.settle([settlement(again, BOOM), settlement(dead, BOOM), settlement(back, Released(), started_at=None)])
    assert sorted(changes.runs()) == sorted(
        [(again.run_id, Status.RETRYING), (dead.run_id, Status.DEAD), (back.run_id, Status.QUEUED)]
    )
    assert await store.settle([settlement(again), settlement(dead, BOOM)]) == [None, None]
    assert changes.runs() == [], "stale"


async def test_what_a_worker_leaves_behind(store: Store, changes: Changes) -> None:
    await store.register(worker("w_2", name="rack 3"), LEASE)
    assert changes.workers() == [(EventType.WORKER_REGISTERED, "w_2", "rack 3")]
    await store.submit([one_shot(store.now())])
    (got,) = (await store.claim([SlotRequest("w_2", "", 1)], 0)).claims
    list(changes)
    assert await store.end_session("w_2")
    seen = list(changes)
    assert [(each.run_id, each.status) for each in seen if isinstance(each, RunChange)] == [(got.run_id, Status.QUEUED)]
    assert [each.type for each in seen if isinstance(each, WorkerChange)] == [EventType.WORKER_LEFT]
    assert not await store.end_session("w_none")
    assert changes.workers() == []


async def test_a_worker_whose_lease_lapsed_is_lost_once(store: Store, changes: Changes) -> None:
    await store.register(worker("w_2", name="rack 3"), LEASE)
    await lapse(store, "w_2")
    list(changes)
    await store.lapsed(10)
    await store.lapsed(10)
    assert changes.workers() == [(EventType.WORKER_LOST, "w_2", "rack 3")]


async def test_changes_of_a_job(store: Store, changes: Changes) -> None:
    job = await submitted(store, -60 * SECOND)
    list(changes)
    await amend(store, job, spec=msgspec.structs.replace(job.spec, name="new"))
    await amend(store, job, state=JobState.PAUSED)
    await amend(store, job, state=JobState.PAUSED, pause_reason="lunch")
    await amend(store, job, state=JobState.ACTIVE)
    await amend(store, job, state=JobState.CANCELLED, keep_schedule=False, cancel_runs=True)
    assert changes.jobs() == [
        (job.id, EventType.JOB_UPDATED),
        (job.id, EventType.JOB_PAUSED),
        (job.id, EventType.JOB_UPDATED),
        (job.id, EventType.JOB_RESUMED),
        (job.id, EventType.JOB_CANCELLED),
    ]


async def test_runs_that_end_with_their_job_are_named(store: Store, changes: Changes) -> None:
    sent = one_shot(store.now(), at=store.now() - SECOND)
    await store.submit([sent])
    list(changes)
    await amend(store, sent.job, state=JobState.CANCELLED, keep_schedule=False, cancel_runs=True)
    assert changes.runs() == [(sent.runs[0].id, Status.CANCELLED)]


async def test_planned_runs_are_named_with_their_job(store: Store, changes: Changes) -> None:
    now = store.now()
    sent = recurring(now - 9 * SECOND, seconds=10, next_fire_at=now - SECOND, name="often", overlap=Overlap.ALLOW)
    await store.submit([sent])
    list(changes)
    await plan_due(store)
    seen = list(changes)
    assert [each.job.id for each in seen if isinstance(each, JobSeen)] == [sent.job.id]
    statuses = [each.status for each in seen if isinstance(each, RunChange)]
    assert statuses == [Status.QUEUED, Status.SCHEDULED]


async def test_fires_that_are_skipped_are_named(store: Store, changes: Changes) -> None:
    now = store.now()
    sent = recurring(now - HOUR, seconds=60, next_fire_at=now - HOUR, catch_up="none")
    await store.submit([sent])
    list(changes)
    await plan_due(store)
    assert Status.SKIPPED in {status for _, status in changes.runs()}


async def test_replaced_runs_are_named(store: Store, changes: Changes) -> None:
    job = await submitted(store, -HOUR, overlap=Overlap.CANCEL_PREVIOUS)
    now = store.now()
    first, second = (
        run(job, now, created_at=now + MINUTE) for _ in range(2)
    )  # no test is so slow that they look planned
    await store.trigger([first])
    list(changes)
    await store.trigger([second])
    seen = changes.runs()
    assert (first.id, Status.CANCELLED) in seen
    assert [status for run_id, status in seen if run_id == second.id] == [Status.BLOCKED, Status.QUEUED]


async def test_runs_that_are_blocked_and_unblocked_are_named(store: Store, changes: Changes) -> None:
    """By an earlier run of their job, by their ordering key, and at a gate."""
    job = await submitted(store, -HOUR, overlap=Overlap.QUEUE)
    runs = [run(job, store.now()) for _ in range(2)]
    await store.trigger(runs)
    keyed = [one_shot(store.now(), ordering_key="k") for _ in range(2)]
    gated = [one_shot(store.now(), concurrency=Concurrency("c", 1)) for _ in range(2)]
    await store.submit([*keyed, *gated])
    waiting = {runs[1].id, keyed[1].runs[0].id}
    assert waiting <= {run_id for run_id, status in changes.runs() if status is Status.BLOCKED}
    claims = await claim(store)
    parked = {run_id for run_id, status in changes.runs() if status is Status.BLOCKED}
    assert parked == {gated[1].runs[0].id}
    await store.settle([settlement(each) for each in claims])
    unblocked = {run_id for run_id, status in changes.runs() if status is Status.QUEUED}
    assert unblocked == waiting | parked


async def test_cancelled_expired_and_repeated_runs_are_named(store: Store, changes: Changes) -> None:
    now = store.now()
    waiting, late = one_shot(now), one_shot(now, at=now - 10 * SECOND, start_deadline="5s")
    await store.submit([waiting, late])
    list(changes)
    await store.request_cancel([waiting.runs[0].id])
    assert changes.runs() == [(waiting.runs[0].id, Status.CANCELLED)]
    await store.expire(10)
    assert changes.runs() == [(late.runs[0].id, Status.SKIPPED)]
    again = run(waiting.job, store.now(), retry_of=waiting.runs[0].id)
    await store.repeat([(waiting.runs[0].id, again)])
    assert changes.runs() == [(again.id, Status.QUEUED)]


async def test_progress_of_attempts_that_are_held(store: Store, changes: Changes) -> None:
    await store.submit([one_shot(store.now())])
    (got,) = await claim(store)
    list(changes)
    steps = [
        Progress(run_id=got.run_id, token=got.token, fraction=0.1),
        Progress(run_id=got.run_id, token=got.token, fraction=0.5, note="half"),
        Progress(run_id=got.run_id, token=got.token + 1, fraction=0.9),
    ]
    await store.note("w_1", [], steps)
    (step,) = changes
    assert isinstance(step, RunChange)
    assert (step.run_id, step.progress) == (got.run_id, (0.5, "half"))


async def test_a_workflow_names_the_runs_of_its_tasks(store: Store, changes: Changes) -> None:
    run_id = await begin(store, *DIAMOND)
    await Crew(store).drive(run_id)
    seen = [each for each in changes if isinstance(each, RunChange)]
    ends = [each for each in seen if each.status is Status.SUCCEEDED]
    assert [each.is_task for each in ends] == [True] * 4 + [False]
    assert ends[-1].run_id == run_id
    assert {each.tenant for each in ends} == {TENANT}


async def test_the_runs_of_a_backfill_are_named(store: Store, changes: Changes) -> None:
    job = await minutely(store)
    now = store.now()
    asked = NewBackfill(tenant=TENANT, job_id=job.id, since=now - 10 * MINUTE, until=now - 5 * MINUTE)
    begun = await begin_backfill(context(store), asked, lambda _: b"")
    list(changes)
    made = await advance(context(store), [begun.backfill_id])
    assert [status for _, status in changes.runs()] == [Status.QUEUED] * made
    assert made


async def test_a_write_that_fails_says_nothing_and_its_neighbours_do(store: Store, changes: Changes) -> None:
    """On SQLite they may share a transaction."""

    async def fail(tx: Any) -> None:
        tx.changes.append(object())
        raise TimeballError("refused")

    driver: Any = store._db  # type: ignore[attr-defined]
    sent = [one_shot(store.now()) for _ in range(20)]
    answers = await asyncio.gather(
        *(store.submit([each]) for each in sent[:10]),
        *(driver.write(fail) for _ in range(5)),
        *(store.submit([each]) for each in sent[10:]),
        return_exceptions=True,
    )
    assert sum(isinstance(each, TimeballError) for each in answers) == 5
    assert {run_id for run_id, _ in changes.runs()} == {each.runs[0].id for each in sent}


async def test_a_submit_that_is_sent_again_says_nothing_new(store: Store, changes: Changes) -> None:
    sent = one_shot(store.now())
    await store.submit([sent])
    list(changes)
    await store.submit([sent])
    assert list(changes) == []
    assert await store.renew([("w_1", LOCAL_KEY)], LEASE) != [None]
    assert list(changes) == []
