"""After an acknowledged change of a job, no run of an older version fires (I10, I11). Requested runs obey the overlap
policy (I16)."""

import asyncio
from typing import Any

import msgspec
import pytest

from tests.conformance.test_planning import FAR, claim, current, fire, read, submitted, until, write
from tests.support.builders import LEASE, interval, one_shot, plan_due, recurring, run, settlement, worker
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.instant import MILLISECOND, SECOND
from timeball.domain.job.job import Job, JobState
from timeball.domain.planning.planning import Span
from timeball.domain.run.ledger import Verdict
from timeball.domain.run.lifecycle import Failed, Failure
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.ports.store.jobs import Amended, Amendment, Fired, JobFilter, Outdated
from timeball.ports.store.registry import RegisteredTask
from timeball.ports.store.runs import SlotRequest, Wanted
from timeball.ports.store.store import Store


def change(job: Job, **fields: Any) -> Amendment:
    values = {"job": job, "spec": job.spec, "state": job.state, "keep_schedule": True}
    return Amendment(**{**values, **fields})


async def amend(store: Store, job: Job, **fields: Any) -> Amended:
    """As an operation does it: what fell due is planned first."""
    (answer,) = await store.amend([change(await current(store, job), **fields)])
    if isinstance(answer, Outdated):
        await plan_due(store)
        (answer,) = await store.amend([change(await current(store, job), **fields)])
    assert isinstance(answer, Amended)
    return answer


async def test_a_change_is_a_new_version_and_only_of_what_was_read(store: Store) -> None:
    job = await submitted(store, -60 * SECOND)
    renamed = msgspec.structs.replace(job.spec, name="new")
    first, second = await store.amend([change(job, spec=renamed), change(job, spec=job.spec)])
    assert isinstance(first, Amended)
    assert (first.job.version, first.job.spec.name, second) == (2, "new", Outdated())
    assert await current(store, job) == first.job
    assert await store.amend([change(job), change(job.with_(id="j_other"))]) == [Outdated(), Outdated()]


async def test_the_future_run_is_dropped_and_its_instant_given_back(store: Store) -> None:
    job = await submitted(store, -5 * SECOND)
    await plan_due(store)
    (future,) = await read(store, job)
    changed = (await amend(store, job, state=JobState.PAUSED, pause_reason="lunch")).job
    assert (changed.state, changed.next_fire_at, changed.plan_at, changed.pause_reason) == (
        JobState.PAUSED,
        future.fire_time,
        None,
        "lunch",
    )
    assert await read(store, job) == []
    assert await plan_due(store) == []
    assert (await store.jobs([job.id]))[job.id].status == "paused"
    resumed = (await amend(store, job, state=JobState.ACTIVE)).job
    assert resumed.plan_at == resumed.updated_at
    assert await plan_due(store) == [job.id]
    assert [each.fire_time for each in await read(store, job)] == [future.fire_time]


async def test_a_dropped_run_is_not_counted(store: Store) -> None:
    job = await submitted(store, -5 * SECOND, max_runs=1)
    await plan_due(store)
    planned = await current(store, job)
    assert (planned.fired, planned.next_fire_at) == (1, None)
    changed = (await amend(store, job, state=JobState.PAUSED)).job
    assert (changed.fired, changed.next_fire_at) == (0, job.next_fire_at)
    resumed = (await amend(store, job, state=JobState.ACTIVE)).job
    assert await current(store, job) == resumed
    await plan_due(store)
    assert (await current(store, job)).fired == 1


async def test_a_job_that_fired_as_often_as_it_may_has_no_next_fire(store: Store) -> None:
    job = await submitted(store, 25 * SECOND, overlap="allow")
    await plan_due(store)
    fewer = msgspec.structs.replace(job.spec, max_runs=3)
    changed = (await amend(store, job, spec=fewer, keep_schedule=False, next_fire_at=FAR)).job
    assert (changed.fired, changed.next_fire_at, changed.plan_at) == (3, None, None)


async def test_the_end_of_a_pause_is_kept_with_it(store: Store) -> None:
    job = await submitted(store, -60 * SECOND)
    changed = (await amend(store, job, state=JobState.PAUSED, paused_until=FAR)).job
    assert changed.paused_until == FAR
    assert await current(store, job) == changed
    assert (await amend(store, job, state=JobState.ACTIVE)).job.paused_until is None


async def test_pauses_that_are_over_are_found_in_the_order_of_their_ends(store: Store) -> None:
    jobs = [await submitted(store, -60 * SECOND) for _ in range(5)]
    now = store.now()
    ends: list[int | None] = [now - 2, now - 3, now + 60 * SECOND, None]
    for job, end in zip(jobs, ends, strict=False):
        await amend(store, job, state=JobState.PAUSED, paused_until=end)
    assert await store.next_resume_at() == now - 3
    over = await store.pauses_over(10)
    assert [job.id for job in over] == [jobs[1].id, jobs[0].id]
    assert [job.id for job in await store.pauses_over(1)] == [jobs[1].id]
    await store.amend([change(job, state=JobState.ACTIVE) for job in over])
    assert await store.pauses_over(10) == []
    assert await store.next_resume_at() == now + 60 * SECOND


async def test_of_many_who_end_a_pause_at_once_one_does(stores: tuple[Store, Store]) -> None:
    jobs = [await submitted(stores[0], -60 * SECOND) for _ in range(5)]
    for job in jobs:
        await amend(stores[0], job, state=JobState.PAUSED, paused_until=stores[0].now() - 1)

    async def wake(store: Store) -> list[Any]:
        return await store.amend([change(job, state=JobState.ACTIVE) for job in await store.pauses_over(10)])

    answers = await asyncio.gather(*(wake(stores[at % 2]) for at in range(6)))
    assert sum(isinstance(answer, Amended) for batch in answers for answer in batch) == len(jobs)
    for job in jobs:
        found = await current(stores[0], job)
        assert (found.state, found.version, found.next_fire_at) == (JobState.ACTIVE, 3, job.next_fire_at)


async def test_instants_that_were_cancelled_ahead_are_known(store: Store) -> None:
    jobs = [await submitted(store, -5 * SECOND) for _ in range(2)]
    await plan_due(store)
    (future,) = await read(store, jobs[0])
    await store.request_cancel([future.id])
    assert await store.cancelled_ahead(jobs) == {jobs[0].id: frozenset({future.fire_time})}
    later = jobs[0].with_(next_fire_at=future.fire_time + 1)
    assert await store.cancelled_ahead([later, jobs[1]]) == {}
    assert await store.cancelled_ahead([]) == {}


async def test_a_new_schedule_takes_effect_as_given(store: Store) -> None:
    job = await submitted(store, -5 * SECOND)
    await plan_due(store)
    at = store.now()
    faster = msgspec.structs.replace(job.spec, schedule=interval(3))
    closing = (Span(at - 9, at - 5, 2, Verdict.MISSED, "changed"), Span(at - 4, at - 4, 1, Verdict.SKIPPED, "x"))
    changed = (
        await amend(
            store, job, spec=faster, keep_schedule=False, next_fire_at=at + 3 * SECOND, anchor=at, closing=closing
        )
    ).job
    assert (changed.next_fire_at, changed.anchor) == (at + 3 * SECOND, at)
    assert [(each.verdict, each.fires) for each in await read(store, job)] == [
        (Verdict.MISSED, 2),
        (Verdict.SKIPPED, 1),
    ]
    await plan_due(store)
    assert [each.fire_time for each in await read(store, job)][2:] == [at + 3 * SECOND]


async def test_runs_that_are_due_keep_the_version_they_fell_due_with(store: Store) -> None:
    await store.put_task(RegisteredTask(id="old", tenant="default", spec={"kind": "old"}, version=0, updated_at=1))
    await store.put_task(RegisteredTask(id="new", tenant="default", spec={"kind": "new"}, version=0, updated_at=1))
    job = await submitted(store, SECOND, task=None, task_id="old", overlap="allow", name="old")
    await plan_due(store)
    await amend(store, job, spec=msgspec.structs.replace(job.spec, name="new", task_id="new"))
    await amend(store, job, spec=msgspec.structs.replace(job.spec, name="newer", task_id="new"))
    (got,) = await claim(store)
    assert b'"name":"old"' in got.spec
    assert got.task == b'{"kind":"old"}'
    assert (await store.runs([got.run_id]))[got.run_id].version == 1
    await store.trigger([run(await current(store, job), store.now())])
    (manual,) = await claim(store)
    assert b'"name":"newer"' in manual.spec
    assert manual.task == b'{"kind":"new"}'


async def test_a_running_attempt_is_judged_by_its_own_version(store: Store) -> None:
    job = await submitted(store, SECOND, retry=Retry(max_retries=0))
    await plan_due(store)
    (got,) = await claim(store)
    await amend(store, job, spec=msgspec.structs.replace(job.spec, retry=Retry(max_retries=9)))
    (settled,) = await store.settle([settlement(got, Failed(Failure(kind="exit", message="")))])
    assert settled is not None
    assert settled.status is Status.DEAD


async def test_a_fire_that_was_handed_out_ahead_has_to_be_waited_for(store: Store) -> None:
    at = store.now() + 300 * MILLISECOND
    sent = one_shot(store.now(), at=at)
    await store.submit([sent])
    assert len((await store.claim([SlotRequest("w_1", "", 1)], SECOND)).claims) == 1
    paused = change(sent.job, state=JobState.PAUSED)
    assert await store.amend([paused]) == [Fired(at)]
    assert await current(store, sent.job) == sent.job
    await until(store, at)
    (answer,) = await store.amend([paused])
    assert isinstance(answer, Amended)


async def test_cancelling_a_job_ends_its_runs(store: Store) -> None:
    job = await submitted(store, 25 * SECOND)
    await plan_due(store)
    (running,) = await claim(store)
    answer = await amend(store, job, state=JobState.CANCELLED, cancel_runs=True)
    assert (answer.cancelled, answer.job.plan_at) == (3, None)
    statuses = [each.status for each in await read(store, job)]
    assert statuses == [Status.RUNNING, Status.CANCELLED, Status.CANCELLED]
    assert await store.holding("w_1") == {running.token: Wanted.STOP}
    assert await store.settle([settlement(running)]) != [None]
    assert (await store.jobs([job.id]))[job.id].status == "cancelled"
    assert await store.trigger([run(job, store.now())]) == [None]


async def test_tags_follow_the_spec(store: Store) -> None:
    sent = recurring(store.now(), tags=["a", "b"])
    await store.submit([sent])
    await amend(store, sent.job, spec=msgspec.structs.replace(sent.job.spec, tags=["b", "c"]))

    async def tagged(tag: str) -> int:
        return len((await store.list_jobs(JobFilter(tenant="default", tag=tag), None, 10)).items)

    assert [await tagged(tag) for tag in "abc"] == [0, 1, 1]


async def test_when_overlap_becomes_allowed_nobody_waits_any_more(store: Store) -> None:
    job = await submitted(store, 25 * SECOND)
    await plan_due(store)
    assert len(await claim(store)) == 1
    await amend(store, job, spec=msgspec.structs.replace(job.spec, overlap=Overlap.ALLOW))
    assert len(await claim(store)) == 2


async def test_when_overlap_becomes_forbidden_the_next_run_waits_for_all_of_them(store: Store) -> None:
    job = await submitted(store, 15 * SECOND, overlap="allow")
    await plan_due(store)
    first, second = await claim(store)
    await amend(store, job, spec=msgspec.structs.replace(job.spec, overlap=Overlap.QUEUE))
    await write(store, job, fire(store.now() - 1))
    await store.settle([settlement(first)])
    assert await claim(store) == []
    await store.settle([settlement(second)])
    assert len(await claim(store)) == 1


async def test_no_fire_follows_an_older_version_than_was_acknowledged(stores: tuple[Store, Store]) -> None:
    """Edits race with planners and claimers; whatever is claimed later for a later instant is of the new version."""
    one, two = stores
    await one.register(worker("w_1"), LEASE)
    for _ in range(12):
        job = await submitted(one, -2 * SECOND, overlap="allow")

        async def edit(job: Job) -> tuple[int, int]:
            while True:
                now = await current(one, job)
                (answer,) = await one.amend([change(now, spec=msgspec.structs.replace(now.spec, name="new"))])
                if isinstance(answer, Amended):
                    return answer.job.version, one.now()

        (version, acknowledged), *_, claimed = await asyncio.gather(
            edit(job), plan_due(one), plan_due(two), two.claim([SlotRequest("w_1", "", 9)], 3 * SECOND)
        )
        await plan_due(two)
        later = (await two.claim([SlotRequest("w_1", "", 9)], 60 * SECOND)).claims
        runs = await two.runs([got.run_id for got in (*claimed.claims, *later)])
        for got in (*claimed.claims, *later):
            if got.job_id == job.id and got.fire_time > acknowledged:
                assert runs[got.run_id].version == version
                assert b'"name":"new"' in got.spec
        assert len({each.fire_time for each in await read(one, job)}) == len(await read(one, job))


# --- asked for ----------------------------------------------------------------------------------------------------


async def test_asking_again_with_the_same_id_changes_nothing(store: Store) -> None:
    job = await submitted(store, -60 * SECOND)
    wanted = run(job, store.now())
    assert await store.trigger([wanted, wanted]) == [Status.QUEUED] * 2
    assert await store.trigger([wanted]) == [Status.QUEUED]
    (got,) = await claim(store)
    assert await store.trigger([wanted]) == [Status.RUNNING]
    await store.settle([settlement(got)])
    assert await store.trigger([wanted]) == [Status.SUCCEEDED]
    assert await store.trigger([run(job.with_(id="j_other"), store.now())]) == [None]


@pytest.mark.parametrize(
    ("policy", "statuses", "claimable"),
    [
        (Overlap.ALLOW, [Status.QUEUED, Status.QUEUED], 2),
        (Overlap.QUEUE, [Status.QUEUED, Status.BLOCKED], 1),
        (Overlap.SKIP, [Status.QUEUED, Status.SKIPPED], 1),
    ],
)
@pytest.mark.parametrize("once", [False, True])
async def test_asking_twice_keeps_the_overlap_rule(
    store: Store, policy: Overlap, statuses: list[Status], claimable: int, once: bool
) -> None:
    if once:
        sent = one_shot(store.now(), overlap=policy)
        await store.submit([sent])
        await store.settle([settlement(got) for got in await claim(store)])
        job = sent.job
    else:
        job = await submitted(store, -60 * SECOND, overlap=policy)
    runs = [run(job, store.now()) for _ in range(2)]
    assert [(await store.trigger([each]))[0] for each in runs] == statuses
    claims = await claim(store)
    assert len(claims) == claimable
    await store.settle([settlement(got) for got in claims])
    assert len(await claim(store)) == statuses.count(Status.BLOCKED)
    if Status.SKIPPED in statuses:
        skipped = (await store.runs([runs[1].id]))[runs[1].id]
        assert skipped.reason == f"run {runs[0].id} was still running"


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE])
async def test_a_future_run_waits_for_the_one_that_was_asked_for(store: Store, policy: Overlap, once: bool) -> None:
    at = store.now() + 400 * MILLISECOND
    if once:
        sent = one_shot(store.now(), at=at, overlap=policy)
        await store.submit([sent])
        job = sent.job
    else:
        job = await submitted(store, -60 * SECOND, overlap=policy)
        await write(store, job, fire(at))
    wanted = run(job, store.now())
    assert await store.trigger([wanted]) == [Status.QUEUED]
    (got,) = (await store.claim([SlotRequest("w_1", "", 5)], SECOND)).claims
    assert got.run_id == wanted.id
    assert await store.next_plan_at() == at
    await until(store, at)
    await write(store, job, next_fire_at=None if once else FAR)
    (future,) = [each for each in await read(store, job) if each.id != wanted.id]
    assert future.status is (Status.SKIPPED if policy is Overlap.SKIP else Status.BLOCKED)
    await store.settle([settlement(got)])
    assert len(await claim(store)) == (policy is Overlap.QUEUE)


async def test_when_the_asked_for_run_ends_in_time_the_future_one_is_as_before(store: Store) -> None:
    at = store.now() + 60 * SECOND
    sent = one_shot(store.now(), at=at, overlap="skip")
    await store.submit([sent])
    await store.trigger([run(sent.job, store.now())])
    await store.settle([settlement(got) for got in await claim(store)])
    assert await store.next_eligible_at() == at
    await store.trigger([wanted := run(sent.job, store.now())])
    assert await store.next_eligible_at() != at
    await store.request_cancel([wanted.id])
    assert await store.next_eligible_at() == at


async def test_of_many_who_ask_at_once_one_runs_and_the_others_wait(stores: tuple[Store, Store]) -> None:
    await stores[0].register(worker("w_1"), LEASE)
    for schedule in ("once", "often"):
        sent = one_shot(stores[0].now()) if schedule == "once" else recurring(stores[0].now())
        await stores[0].submit([sent])
        await stores[0].settle([settlement(got) for got in await claim(stores[0])])
        wanted = [run(sent.job, stores[0].now()) for _ in range(20)]
        answers = await asyncio.gather(*(stores[at % 2].trigger([each]) for at, each in enumerate(wanted)))
        assert sorted(status for (status,) in answers if status) == [Status.BLOCKED] * 19 + [Status.QUEUED]
        for _ in wanted:
            (got,) = await claim(stores[1])
            await stores[1].settle([settlement(got, serial=False)])
        assert await claim(stores[1]) == []


@pytest.mark.parametrize("late", [True, False])
async def test_an_instant_that_comes_while_a_pause_is_accounted_for_is_not_forgotten(store: Store, late: bool) -> None:
    """Whoever gives a paused job another schedule closes what fell due meanwhile; it counts again if more did."""
    job = await submitted(store, 15 * SECOND)
    paused = (await amend(store, job, state=JobState.PAUSED)).job
    first, now = paused.next_fire_at or 0, store.now()
    closing = (Span(first, first, 1, Verdict.MISSED, "paused"),)
    unclosed = now if late else now + 60 * SECOND
    new = change(paused, keep_schedule=False, next_fire_at=now + 90 * SECOND, closing=closing, unclosed=unclosed)
    [answer] = await store.amend([new])
    assert isinstance(answer, Outdated if late else Amended)
    assert len([each for each in await read(store, job) if each.verdict is Verdict.MISSED]) == (0 if late else 1)
