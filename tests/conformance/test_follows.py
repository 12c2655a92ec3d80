"""Jobs that follow other jobs: one fire for each run that ends, stored in the transaction of that end (I2, I5, I11)."""

import asyncio
import random
from typing import Any

import pytest
from msgspec import structs

from tests.conformance.test_calendars import frozen, named
from tests.conformance.test_planning import claim, current, read
from tests.conformance.test_retention import ended, prune
from tests.conformance.test_workflows import Crew, flow, task
from tests.support.builders import LEASE, TENANT, job, one_shot, run, settlement, spec, worker
from timeball import system
from timeball.domain.errors import Invalid
from timeball.domain.instant import DAY, HOUR, SECOND, render
from timeball.domain.job.job import Job
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.lifecycle import Failed, Failure, Outcome
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.schedule.schedule import Follow, Interval
from timeball.domain.task.retry import Retry
from timeball.operation.context import OperationContext
from timeball.operation.jobs.pause import pause, resume
from timeball.operation.jobs.submit import Created, NewJob, Submit
from timeball.operation.jobs.update import update
from timeball.operation.runs.cancel import cancel_job
from timeball.operation.runs.explain import explain_job, explain_run
from timeball.ports.store.jobs import JobFilter, Submission
from timeball.ports.store.store import Store
from timeball.server.loops.follow_trigger import FollowTrigger
from timeball.server.loops.planner import Planner
from timeball.server.wakeups import LocalWakeups
from timeball.stores.sql.runs import settling

BOOM = Failed(Failure(kind="exit", message="boom"))
NO_RETRY = Retry(max_retries=0)


_random = random.Random(7)
"""One for all contexts: two that begin alike make the same ids within one millisecond."""


def context(store: Store) -> OperationContext:
    return OperationContext(store, system.SystemClock(), _random, LocalWakeups(lambda _: None))


async def followed(store: Store, **fields: Any) -> Job:
    """A job that fires when the test says so."""
    made = job(store.now(), schedule=Interval("1h"), **{"retry": NO_RETRY, **fields})
    await store.submit([Submission(made, ())])
    return made


async def follower(store: Store, of: Job, on: Any = "succeeded", **fields: Any) -> Job:
    submit = Submit(context(store), lambda _: b"")
    [made] = await submit([NewJob(TENANT, spec(schedule=Follow(of.id, on), **fields))])
    assert isinstance(made, Created)
    assert made.job is not None
    return made.job.job


async def end(store: Store, of: Job, outcome: Outcome | None = None, count: int = 1) -> list[str]:
    """Have runs of a job end."""
    now = store.now()
    await store.trigger([run(of, now + step) for step in range(count)])
    found: list[str] = []
    while claims := [each for each in await claim(store) if each.job_id == of.id]:
        await store.settle([settlement(each, outcome, at=store.now()) for each in claims])
        found += [each.run_id for each in claims]
    return found


async def plan(store: Store) -> None:
    """A listener and a planner, until nothing is due."""
    wakeups = LocalWakeups(lambda _: None)
    for loop in (FollowTrigger(context(store), wakeups), Planner(context(store), wakeups)):
        while await loop.turn() == 0:
            pass


async def fires(store: Store, of: Job) -> list[Run]:
    await plan(store)
    return await read(store, of)


async def test_each_success_is_one_fire_that_names_its_run(store: Store) -> None:
    first = await followed(store)
    second = await follower(store, first)
    causes = await end(store, first) + await end(store, first)
    runs = await fires(store, second)
    assert [each.cause for each in runs] == causes
    assert {each.origin for each in runs} == {Origin.SCHEDULE}
    assert await fires(store, second) == runs, "once"
    assert len(await claim(store)) == 1, "they do not overlap"
    explained = await explain_run(context(store), TENANT, runs[0].id)
    assert causes[0] in explained.reasons[-1].text


@pytest.mark.parametrize(("on", "wanted"), [("succeeded", [0]), ("failed", [1]), ("finished", [0, 1])])
async def test_only_ends_that_are_asked_for_count(store: Store, on: str, wanted: list[int]) -> None:
    first = await followed(store)
    second = await follower(store, first, on)
    causes = await end(store, first) + await end(store, first, BOOM)
    await store.trigger([run(first, store.now())])
    [waits] = [each for each in await read(store, first) if not each.is_terminal]
    await store.request_cancel([waits.id])
    assert [each.cause for each in await fires(store, second)] == [causes[place] for place in wanted]


async def test_a_failed_attempt_is_no_end(store: Store) -> None:
    first = await followed(store, retry=Retry(max_retries=1, backoff="fixed", base="1ms"))
    second = await follower(store, first, "finished")
    await store.trigger([run(first, store.now())])
    [claimed] = await claim(store)
    await store.settle([settlement(claimed, BOOM, at=store.now())])
    assert await fires(store, second) == []


async def test_a_one_shot_can_be_followed(store: Store) -> None:
    once = one_shot(store.now())
    await store.submit([once, one_shot(store.now())])
    second = await follower(store, once.job)
    claims = await claim(store)
    assert not any(each.serial for each in claims)
    settled = await store.settle([settlement(each, at=store.now()) for each in claims])
    assert {each.run_id for each in settled if each is not None and each.upstream_events} == {once.runs[0].id}
    assert [each.cause for each in await fires(store, second)] == [once.runs[0].id]


async def test_a_report_that_is_repeated_is_one_end(store: Store) -> None:
    first = await followed(store)
    second = await follower(store, first)
    await store.trigger([run(first, store.now())])
    [claimed] = await claim(store)
    report = settlement(claimed, at=store.now())
    answers = [*await store.settle([report, report]), *await store.settle([report])]
    assert sum(each is not None for each in answers) == 1
    assert len(await fires(store, second)) == 1
    assert await store.settle([report]) == [None]
    assert len(await fires(store, second)) == 1


async def test_an_end_and_what_follows_are_one_transaction(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await followed(store)
    second = await follower(store, first)
    await store.trigger([run(first, store.now())])
    [claimed] = await claim(store)

    async def killed(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(settling, "_persist", killed)
        with pytest.raises(ZeroDivisionError):
            await store.settle([settlement(claimed, at=store.now())])
    assert await fires(store, second) == [], "it has not ended"
    await store.settle([settlement(claimed, at=store.now())])
    assert len(await fires(store, second)) == 1


async def test_two_servers_end_and_hear_at_once(stores: tuple[Store, Store]) -> None:
    one, other = stores
    await one.register(worker("w_1"), LEASE)
    first = await followed(one, overlap="allow")
    second = await follower(one, first, overlap="allow")
    await one.trigger([run(first, one.now()) for _ in range(40)])
    claims = await claim(one)
    assert len(claims) == 40

    async def settle(store: Store, share: list[Any]) -> None:
        for each in share:
            await store.settle([settlement(each, at=store.now())])

    async def keep_planning(store: Store) -> None:
        listener, planner = (kind(context(store), LocalWakeups(lambda _: None)) for kind in (FollowTrigger, Planner))
        while not done:
            await listener.turn()
            await planner.turn()
            await asyncio.sleep(0)

    done: list[bool] = []
    planners = [asyncio.create_task(keep_planning(store)) for store in stores]
    await asyncio.gather(settle(one, claims[::2]), settle(other, claims[1::2]))
    done.append(True)
    await asyncio.gather(*planners)
    runs = await fires(one, second)
    assert sorted(str(each.cause) for each in runs) == sorted(each.run_id for each in claims)
    assert len({each.fire_time for each in runs}) == 40


@pytest.mark.parametrize(("rule", "verdicts"), [("all", [Verdict.OPEN] * 3), ("none", [Verdict.MISSED])])
async def test_what_ends_during_a_pause_is_for_the_catch_up_rule(
    store: Store, rule: str, verdicts: list[Verdict]
) -> None:
    first = await followed(store, overlap="allow")
    second = await follower(store, first, catch_up=rule, overlap="allow")
    await pause(context(store), TENANT, second.id)
    await end(store, first, count=3)
    assert await fires(store, second) == []
    paused = (await store.jobs([second.id]))[second.id]
    assert paused.status == "paused"
    assert paused.job.next_fire_at is not None
    await asyncio.sleep(2.1 if rule == "none" else 0)  # what is less late than that is on time
    await resume(context(store), TENANT, second.id)
    runs = await fires(store, second)
    assert [each.verdict for each in runs] == verdicts
    assert sum(each.fires for each in runs) == 3
    assert (await store.ledger_sums(second.id, 0, 10**18)).due == 3


async def test_overlap_applies(store: Store) -> None:
    first = await followed(store, overlap="allow")
    second = await follower(store, first, overlap="skip")
    await end(store, first, count=3)
    ran, skipped = await fires(store, second)
    assert (ran.verdict, skipped.verdict, skipped.fires) == (Verdict.OPEN, Verdict.SKIPPED, 2)


async def test_an_edit_is_for_later_ends_only(store: Store) -> None:
    first = await followed(store)
    second = await follower(store, first)
    [cause] = await end(store, first)  # nobody has heard of it
    await update(context(store), TENANT, second.id, lambda old: structs.replace(old, parameters={"a": 1}))
    [later] = await end(store, first)
    runs = await fires(store, second)
    assert [(each.cause, each.version) for each in runs] == [(cause, 1), (later, 2)]


async def test_what_waits_is_closed_by_a_new_schedule(store: Store) -> None:
    first, other = await followed(store), await followed(store)
    second = await follower(store, first)
    await pause(context(store), TENANT, second.id)
    await end(store, first)
    await end(store, first)
    await update(context(store), TENANT, second.id, lambda old: structs.replace(old, schedule=Follow(other.id)))
    await resume(context(store), TENANT, second.id)
    await end(store, first)
    [cause] = await end(store, other)
    closed, ran = await fires(store, second)
    assert (closed.fires, closed.verdict) == (2, Verdict.MISSED)
    assert ran.cause == cause


async def test_it_can_begin_and_cease_to_follow(store: Store) -> None:
    first = await followed(store)
    second = await followed(store)
    await update(context(store), TENANT, second.id, lambda old: structs.replace(old, schedule=Follow(first.id)))
    assert (await current(store, second)).next_fire_at is None
    [cause] = await end(store, first)
    assert [each.cause for each in await fires(store, second)] == [cause]
    await update(context(store), TENANT, second.id, lambda old: structs.replace(old, schedule=Interval("1h")))
    await end(store, first)
    assert len(await fires(store, second)) == 1
    assert (await current(store, second)).next_fire_at is not None


async def test_bounds_apply(store: Store) -> None:
    first = await followed(store)
    twice = await follower(store, first, max_runs=2)
    later = await follower(store, first, start_at=render(store.now() + HOUR))
    for _ in range(3):
        await end(store, first)
    assert len(await fires(store, twice)) == 2
    assert await fires(store, later) == []
    while claims := await claim(store):
        await store.settle([settlement(each, at=store.now()) for each in claims])
    assert (await store.jobs([twice.id]))[twice.id].status == "completed"
    await update(context(store), TENANT, twice.id, lambda old: structs.replace(old, max_runs=3))
    await end(store, first)
    assert len(await fires(store, twice)) == 3


async def test_jobs_cannot_follow_each_other_in_a_circle(store: Store) -> None:
    first = await followed(store, name="a")
    second = await follower(store, first, name="b")
    third = await follower(store, second, name="c")

    def to(of: Job) -> Any:
        return lambda old: structs.replace(old, schedule=Follow(of.id))

    with pytest.raises(Invalid, match="a follows c follows b follows a"):
        await update(context(store), TENANT, first.id, to(third))
    with pytest.raises(Invalid, match="a follows a"):
        await update(context(store), TENANT, first.id, to(first))
    with pytest.raises(Invalid, match="there is no job 'nobody'"):
        await update(context(store), TENANT, first.id, lambda old: structs.replace(old, schedule=Follow("nobody")))
    assert await end(store, first)
    assert len(await fires(store, second)) == 1


async def test_two_edits_at_once_make_no_circle(stores: tuple[Store, Store]) -> None:
    one, other = stores
    first, second = await followed(one), await followed(one)

    def to(of: Job) -> Any:
        return lambda old: structs.replace(old, schedule=Follow(of.id))

    answers = await asyncio.gather(
        update(context(one), TENANT, first.id, to(second)),
        update(context(other), TENANT, second.id, to(first)),
        return_exceptions=True,
    )
    assert sorted(isinstance(each, Invalid) for each in answers) == [False, True]


async def test_a_name_will_do_if_only_one_job_has_it(store: Store) -> None:
    first = await followed(store, name="nightly")
    submit = Submit(context(store), lambda _: b"")

    async def after(name: str) -> Any:
        [made] = await submit([NewJob(TENANT, spec(schedule=Follow(name)))])
        return made.job.job.spec.schedule if isinstance(made, Created) and made.job else made

    assert await after("nightly") == Follow(first.id)
    assert isinstance(await after("weekly"), Invalid)
    await followed(store, name="nightly")
    assert "more than one job" in str(await after("nightly"))
    await cancel_job(context(store), TENANT, first.id)
    assert "was cancelled" in str(await after(first.id))


async def test_who_follows_is_told_apart_from_who_is_done(store: Store) -> None:
    first = await followed(store)
    second = await follower(store, first)

    async def listed(*status: str) -> set[str]:
        page = await store.list_jobs(JobFilter(tenant=TENANT, status=frozenset(status)), None, 10)
        return {each.job.id for each in page.items}

    assert await listed("scheduled") == await listed("scheduled", "completed") == {first.id, second.id}
    assert await listed("completed") == set()
    [reason] = (await explain_job(context(store), TENANT, second.id)).reasons
    assert f"after each success of job {first.id}" in reason.text
    await cancel_job(context(store), TENANT, first.id)
    [reason] = (await explain_job(context(store), TENANT, second.id)).reasons
    assert "was cancelled" in reason.text
    await cancel_job(context(store), TENANT, second.id)
    assert await listed("scheduled") == set()


async def test_a_workflow_ends_once_however_many_tasks_it_has(store: Store) -> None:
    sent = flow(store, task("a"), task("b", "a"))
    await store.submit([sent])
    second = await follower(store, sent.job)
    assert (await Crew(store).drive(sent.runs[0].id)).status is Status.SUCCEEDED
    assert [each.cause for each in await fires(store, second)] == [sent.runs[0].id]


async def test_what_ends_in_a_freeze_is_one_fire_at_its_end(store: Store) -> None:
    length = 300_000
    while True:
        opens = store.now() + length
        await store.put_calendar(named(frozen((opens - HOUR, opens))))
        first = await followed(store, overlap="allow")
        second = await follower(store, first, calendars=["freeze"], excluded="next_open", overlap="allow")
        causes = await end(store, first, count=3)
        found = await fires(store, second)
        if store.now() < opens - 50_000:
            break
        length *= 2  # the machine was so slow that the freeze was over
    [span] = found
    assert (span.fires, span.verdict) == (3, Verdict.SKIPPED)
    assert (await current(store, second)).next_fire_at == opens
    await asyncio.sleep(max(0, opens - store.now()) / SECOND + 0.01)
    span, fired = await fires(store, second)
    assert (fired.fire_time, fired.cause in causes) == (opens, True)
    [cause] = await end(store, first)
    *_, last = await fires(store, second)
    assert last.cause == cause


async def test_a_job_that_is_followed_stays_when_its_runs_go(store: Store) -> None:
    sent = [one_shot(store.now() - 40 * DAY) for _ in range(2)]
    await ended(store, sent)
    await follower(store, sent[0].job)
    await prune(store)
    assert set(await store.jobs([each.job.id for each in sent])) == {sent[0].job.id}
