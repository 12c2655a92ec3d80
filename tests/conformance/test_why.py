"""`timeball why`: for every situation of a run or a job, the first reason is the right one, on every store."""

import random
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.conformance.conftest import Tamper
from tests.support.builders import LEASE, TENANT, one_shot, plan_due, recurring, run, settlement, worker
from timeball import system
from timeball.domain import instant
from timeball.domain.diagnosis.reasons import Reason
from timeball.domain.dispatch.limits import Concurrency, RateLimit
from timeball.domain.dispatch.placement import Resources
from timeball.domain.instant import HOUR, MINUTE, SECOND
from timeball.domain.job.job import JobSpec
from timeball.domain.run import circuit_breaker
from timeball.domain.run.lateness import split
from timeball.domain.run.lifecycle import Failed, Failure, Lost, Succeeded
from timeball.domain.schedule.schedule import Date, Interval
from timeball.domain.task.retry import NonRetryable, Retry
from timeball.domain.task.task import Http, Python, Shell, host_of
from timeball.operation.context import OperationContext
from timeball.operation.jobs.pause import pause
from timeball.operation.jobs.submit import Created, NewJob, Submit
from timeball.operation.runs.cancel import cancel_job
from timeball.operation.runs.explain import JobExplained, explain_job, explain_run
from timeball.operation.runs.run_now import run_now
from timeball.ports.store.jobs import Submission
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store
from timeball.ports.worker_protocol import Started
from timeball.server.wakeups import LocalWakeups

BOOM = Failed(Failure(kind="exit", message="boom", exit_code=1))
UNWELL = Failed(Failure(kind="http", message="no answer"))
CALL = Http(url="https://example.com/x")
SLOW = Retry(max_retries=3, backoff="fixed", base="1h")
NEVER = Retry(max_retries=0)


class Scene:
    """A store with one idle worker `w_1` of ten slots, and everything that can be done to it."""

    def __init__(self, store: Store, tamper: Tamper) -> None:
        self.store = store
        self.tamper = tamper
        self.context = OperationContext(store, system.SystemClock(), random.Random(1), LocalWakeups(lambda _: None))

    async def submit(self, **fields: Any) -> str:
        """A job by way of the operation; its id."""
        spec = JobSpec(**{"task": Shell(command="true"), **fields})
        (created,) = await Submit(self.context, lambda _: b"")([NewJob(TENANT, spec)])
        assert isinstance(created, Created)
        return created.job_id

    async def fire(self, *, age: int = 0, **fields: Any) -> str:
        """A one-shot that is due since `age` seconds; its run's id."""
        sent = one_shot(self.store.now(), at=self.store.now() - age * SECOND, **fields)
        await self.store.submit([sent])
        return sent.runs[0].id

    async def recurring(self, *, age: int = 25, **fields: Any) -> Submission:
        """A job that has fired every ten seconds for some time, planned."""
        sent = recurring(self.store.now() - age * SECOND, seconds=10, **fields)
        await self.store.submit([sent])
        await plan_due(self.store)
        return sent

    async def claim(self, slots: int = 10, session: str = "w_1", ahead: int = 0) -> list[Claim]:
        claims: list[Claim] = []
        while True:
            got = await self.store.claim([SlotRequest(session, "", slots - len(claims))], ahead)
            claims += got.claims
            if not got.again or len(claims) >= slots:
                return claims

    async def start(self, claim: Claim) -> None:
        said = Started(run_id=claim.run_id, token=claim.token, age=0)
        await self.store.note(claim.session, [(said, self.store.now())], [])

    async def end(self, claim: Claim, outcome: Any = None, **rest: Any) -> None:
        await self.store.settle([settlement(claim, outcome, at=self.store.now(), **rest)])

    async def live(self, job_id: str) -> list[str]:
        """The live runs of a job, in the order of their instants."""
        page = await self.store.ledger(job_id, 0, instant.MAX, None, 1_000)
        return [found.id for found in page.items if not found.is_terminal]

    async def only(self, job_id: str, status: str) -> str:
        """The run of a job that has a status; the newest of several."""
        page = await self.store.ledger(job_id, 0, instant.MAX, None, 1_000)
        return [found.id for found in page.items if found.status == status][-1]

    async def fill(self, slots: int = 10, session: str = "w_1") -> list[Claim]:
        """Keep all slots of the worker busy."""
        for _ in range(slots):
            await self.fire(age=600, priority=9)
        claims = await self.claim(slots, session)
        assert len(claims) == slots
        return claims


Make = Callable[[Scene], Awaitable[str]]
SITUATIONS: list[Any] = []


def first_reason(code: str, words: str) -> Callable[[Make], Make]:
    """What the first reason has to be, and what its sentence has to contain."""

    def add(make: Make) -> Make:
        SITUATIONS.append(pytest.param(make, code, words, id=make.__name__.strip("_")))
        return make

    return add


# --- runs that wait for their time --------------------------------------------------------------------------------


@first_reason("not_due", "in 59 min")
async def scheduled_for_later(scene: Scene) -> str:
    sent = one_shot(scene.store.now(), at=scene.store.now() + HOUR - SECOND)
    await scene.store.submit([sent])
    return sent.runs[0].id


@first_reason("jitter", "is delayed by its jitter")
async def jittered(scene: Scene) -> str:
    while True:
        sent = one_shot(scene.store.now(), jitter="1h")
        if (sent.runs[0].due_at or 0) > scene.store.now() + MINUTE:
            await scene.store.submit([sent])
            return sent.runs[0].id


@first_reason("retry", "attempt 1 of 4 failed: boom")
async def waits_for_its_retry(scene: Scene) -> str:
    run_id = await scene.fire(retry=SLOW)
    (claim,) = await scene.claim()
    await scene.end(claim, BOOM)
    return run_id


# --- runs that others hold back -----------------------------------------------------------------------------------


@first_reason("overlap", "is running on worker of w_1")
async def behind_a_running_one(scene: Scene) -> str:
    sent = await scene.recurring()
    (claim,) = await scene.claim()
    await scene.start(claim)
    return (await scene.live(sent.job.id))[1]


@first_reason("overlap", "waits for its retry")
async def behind_a_retrying_one(scene: Scene) -> str:
    sent = await scene.recurring(retry=SLOW)
    (claim,) = await scene.claim()
    await scene.end(claim, BOOM)
    return (await scene.live(sent.job.id))[1]


@first_reason("overlap", "3 runs wait before this one")
async def behind_others_that_wait_too(scene: Scene) -> str:
    sent = await scene.recurring(age=55)
    return (await scene.live(sent.job.id))[-1]


@first_reason("overlap", "was asked to stop")
async def takes_the_place_of_another(scene: Scene) -> str:
    job_id = await scene.submit(schedule=Interval(expression="1h"), overlap="cancel_previous")
    await run_now(scene.context, TENANT, job_id)
    (claim,) = await scene.claim()
    await scene.start(claim)
    run_id, _ = await run_now(scene.context, TENANT, job_id)
    return run_id


@first_reason("turn", "the ordering key k is held by run")
async def not_its_turn(scene: Scene) -> str:
    await scene.fire(age=3, ordering_key="k")
    await scene.fire(age=2, ordering_key="k")
    await scene.claim()
    return await scene.fire(age=1, ordering_key="k")


@first_reason("turn", "waits for its retry")
async def the_one_whose_turn_it_is_retries(scene: Scene) -> str:
    await scene.fire(age=3, ordering_key="k", retry=SLOW)
    (claim,) = await scene.claim()
    await scene.end(claim, BOOM)
    return await scene.fire(age=1, ordering_key="k")


@first_reason("turn_blocked", "failed for good and still holds the ordering key k (dead: boom)")
async def the_one_whose_turn_it_is_gave_up(scene: Scene) -> str:
    await scene.fire(age=3, ordering_key="k", retry=NEVER)
    (claim,) = await scene.claim()
    await scene.end(claim, BOOM)
    return await scene.fire(age=1, ordering_key="k")


@first_reason("concurrency", "the concurrency key db is full: 2 of 2 runs")
async def its_concurrency_key_is_full(scene: Scene) -> str:
    for _ in range(3):
        await scene.fire(concurrency=Concurrency("db", 2))
    run_id = await scene.fire(concurrency=Concurrency("db", 2))
    assert len(await scene.claim()) == 2
    return run_id


@first_reason("concurrency", "is full: 1 of 1 runs")
async def its_key_is_full_and_nobody_has_looked_yet(scene: Scene) -> str:
    await scene.fire(concurrency=Concurrency("db", 1))
    await scene.claim()
    return await scene.fire(concurrency=Concurrency("db", 1))


@first_reason("rate_limit", "the rate limit of the key api is used up; next token:")
async def its_rate_is_spent(scene: Scene) -> str:
    for _ in range(2):
        run_id = await scene.fire(rate_limit=RateLimit("api", 1, per="1h"))
    await scene.claim()
    return run_id


async def _trip(scene: Scene) -> None:
    for _ in range(circuit_breaker.TRIPS_AT):
        await scene.fire(task=CALL, retry=NEVER)
    for claim in await scene.claim():
        await scene.end(claim, UNWELL, host=host_of(CALL))


@first_reason("circuit_open", "the circuit breaker of example.com:443 is open: 5 calls in a row failed")
async def its_host_has_a_rest(scene: Scene) -> str:
    await _trip(scene)
    run_id = await scene.fire(task=CALL)
    assert await scene.claim() == []
    return run_id


@first_reason("circuit_probed", "checks whether the host works again")
async def its_host_is_probed(scene: Scene) -> str:
    await _trip(scene)
    await scene.fire(age=2, task=CALL)
    run_id = await scene.fire(age=1, task=CALL)
    assert await scene.claim() == []
    await scene.tamper("UPDATE gates SET open_until = 1, look_at = 1")
    await scene.store.open_gates(10)
    assert len(await scene.claim()) == 1
    return run_id


# --- runs that wait for a worker ----------------------------------------------------------------------------------


@first_reason("no_worker", "there is no worker")
async def nobody_is_there(scene: Scene) -> str:
    await scene.store.end_session("w_1")
    return await scene.fire()


@first_reason("no_fitting_worker", "no worker offers label gpu: no worker has the label gpu")
async def nobody_has_the_label(scene: Scene) -> str:
    return await scene.fire(runs_on=["gpu"])


@first_reason("no_fitting_worker", "no worker offers 4 CPU and label gpu")
async def nobody_with_the_label_is_large_enough(scene: Scene) -> str:
    await scene.store.register(worker("w_gpu", labels=["gpu"], cpu=2), LEASE)
    return await scene.fire(runs_on=["gpu"], resources=Resources(cpu=4))


@first_reason("no_fitting_worker", "can only execute runs that require a label")
async def everybody_is_dedicated(scene: Scene) -> str:
    await scene.store.end_session("w_1")
    await scene.store.register(worker("w_d", labels=["gpu"], dedicated=True), LEASE)
    return await scene.fire()


@first_reason("no_function", "no worker has the Python function reports.nightly")
async def nobody_has_its_function(scene: Scene) -> str:
    return await scene.fire(task=Python(function="reports.nightly"))


@first_reason("busy", "all 10 slots of 1 worker are busy")
async def every_slot_is_busy(scene: Scene) -> str:
    await scene.fill()
    return await scene.fire()


@first_reason("busy", "the only worker with 3 CPU is too busy")
async def whoever_fits_is_busy(scene: Scene) -> str:
    await scene.store.end_session("w_1")
    await scene.store.register(worker("w_4", cpu=4), LEASE)
    await scene.fire(age=1, resources=Resources(cpu=3))
    assert len(await scene.claim(session="w_4")) == 1
    return await scene.fire(resources=Resources(cpu=3))


@first_reason("ahead", "3 runs are ahead of this one by priority: 3 of a higher priority")
async def others_are_more_important(scene: Scene) -> str:
    await scene.fill()
    run_id = await scene.fire(priority="low")
    for _ in range(3):
        await scene.fire(priority="high")
    return run_id


@first_reason("ahead", "2 runs are ahead of this one by priority: 1 of a higher priority and 1 that waited longer")
async def others_waited_longer(scene: Scene) -> str:
    await scene.fill()
    await scene.fire(age=500, priority="low")
    await scene.fire(priority="high")
    return await scene.fire()


@first_reason("ahead", "1 run is ahead of this one")
async def others_ask_for_the_same_worker(scene: Scene) -> str:
    await scene.store.register(worker("w_gpu", labels=["gpu"], slots=1, dedicated=True), LEASE)
    for _ in range(5):
        await scene.fire(age=9)
    await scene.fire(age=9, runs_on=["mars"])
    await scene.fire(age=9, runs_on=["gpu"])
    assert len(await scene.claim(1, "w_gpu")) == 1
    await scene.fire(age=5, runs_on=["gpu"])
    return await scene.fire(runs_on=["gpu"])


@first_reason("reserved", "worker worker of w_4 is reserved for runs like this one")
async def a_worker_is_kept_free_for_it(scene: Scene) -> str:
    await scene.store.end_session("w_1")
    await scene.store.register(worker("w_4", slots=4), LEASE)
    run_id = await scene.fire(age=600, resources=Resources(slots=4), priority=0)
    await scene.fire()
    await scene.claim(1, "w_4")
    return run_id


@first_reason("claimable", "worker worker of w_1 has room")
async def about_to_be_handed_out(scene: Scene) -> str:
    return await scene.fire()


# --- runs that a worker has ---------------------------------------------------------------------------------------


@first_reason("claimed", "has claimed the run and is about to report its start")
async def claimed(scene: Scene) -> str:
    run_id = await scene.fire()
    await scene.claim()
    return run_id


@first_reason("claimed", "has claimed the run and starts it")
async def claimed_ahead(scene: Scene) -> str:
    sent = one_shot(scene.store.now(), at=scene.store.now() + MINUTE)
    await scene.store.submit([sent])
    assert len(await scene.claim(ahead=2 * MINUTE)) == 1
    return sent.runs[0].id


@first_reason("running", "the run has been executing on worker of w_1")
async def running(scene: Scene) -> str:
    run_id = await scene.fire()
    (claim,) = await scene.claim()
    await scene.start(claim)
    return run_id


@first_reason("cancelling", "a cancel was requested")
async def being_cancelled(scene: Scene) -> str:
    run_id = await running(scene)
    await scene.store.request_cancel([run_id])
    return run_id


@first_reason("silent", "stopped answering")
async def its_worker_fell_silent(scene: Scene) -> str:
    run_id = await running(scene)
    await scene.tamper("UPDATE workers SET lease_until = 1")
    return run_id


@first_reason("silent", "(1 min ago); worker worker of w_1 has not reported the end")
async def its_worker_does_not_report(scene: Scene) -> str:
    run_id = await scene.fire(timeout="1s", grace="1s")
    (claim,) = await scene.claim()
    await scene.start(claim)
    await scene.tamper(f"UPDATE runs SET attempt_started_at = {scene.store.now() - 62 * SECOND}")
    return run_id


# --- runs that ended ----------------------------------------------------------------------------------------------


@first_reason("succeeded", "the run succeeded now on worker of w_1")
async def succeeded(scene: Scene) -> str:
    run_id = await scene.fire()
    (claim,) = await scene.claim()
    await scene.end(claim)
    return run_id


@first_reason("late", "the run started 1 min late: 1 min in the queue for a worker")
async def late_in_the_queue(scene: Scene) -> str:
    run_id = await scene.fire(age=60)
    (claim,) = await scene.claim()
    await scene.tamper(f"UPDATE runs SET created_at = {scene.store.now() - 80 * SECOND}")
    await scene.end(claim)
    return run_id


@first_reason("late", "blocked by an earlier run, the ordering key or a limit")
async def late_because_of_a_limit(scene: Scene) -> str:
    for age in (61, 60):
        run_id = await scene.fire(age=age, concurrency=Concurrency("db", 1))
    (claim,) = await scene.claim()
    await scene.tamper(f"UPDATE runs SET created_at = {scene.store.now() - 80 * SECOND}")
    await scene.end(claim)
    (claim,) = await scene.claim()
    assert claim.run_id == run_id
    await scene.end(claim)
    return run_id


@first_reason("caught_up", "and was caught up")
async def caught_up(scene: Scene) -> str:
    sent = await scene.recurring(age=25, catch_up="last")
    (claim,) = await scene.claim()
    await scene.end(claim)
    return await scene.only(sent.job.id, "succeeded")


@first_reason("skipped", "was still running")
async def skipped_by_overlap(scene: Scene) -> str:
    job_id = await scene.submit(schedule=Interval(expression="1h"), overlap="skip")
    await run_now(scene.context, TENANT, job_id)
    run_id, _ = await run_now(scene.context, TENANT, job_id)
    return run_id


@first_reason("skipped", "it did not start within its start deadline")
async def too_late_to_start(scene: Scene) -> str:
    run_id = await scene.fire(age=60, start_deadline="10s")
    assert await scene.store.expire(10) == 1
    return run_id


@first_reason("skipped", "a later fire replaced this run")
async def replaced_while_it_waited(scene: Scene) -> str:
    sent = await scene.recurring(age=35, overlap="cancel_previous")
    return await scene.only(sent.job.id, "skipped")


@first_reason("missed", "fires from")
async def missed(scene: Scene) -> str:
    sent = await scene.recurring(age=55, catch_up="last")
    return await scene.only(sent.job.id, "skipped")


@first_reason("cancelled", "the run was cancelled now.")
async def cancelled(scene: Scene) -> str:
    run_id = await scene.fire()
    await scene.store.request_cancel([run_id])
    return run_id


@first_reason("cancelled", "replaced this run (overlap terminate_previous)")
async def cancelled_for_a_later_fire(scene: Scene) -> str:
    job_id = await scene.submit(schedule=Interval(expression="1h"), overlap="terminate_previous")
    run_id, _ = await run_now(scene.context, TENANT, job_id)
    (claim,) = await scene.claim()
    await run_now(scene.context, TENANT, job_id)
    await scene.end(claim)
    return run_id


@first_reason("dead", "all attempts failed (2); the last one: boom")
async def dead(scene: Scene) -> str:
    run_id = await scene.fire(retry=Retry(max_retries=1, backoff="fixed", base="0s"))
    for _ in range(2):
        (claim,) = await scene.claim()
        await scene.end(claim, BOOM)
    return run_id


@first_reason("failed", "excludes a retry of this failure: boom")
async def not_worth_another_try(scene: Scene) -> str:
    run_id = await scene.fire(retry=Retry(non_retryable=NonRetryable(exit_codes=[1])))
    (claim,) = await scene.claim()
    await scene.end(claim, BOOM)
    return run_id


@first_reason("at_most_once", "the worker stopped answering; the attempt may or may not have done its work")
async def delivered_at_most_once(scene: Scene) -> str:
    run_id = await scene.fire(delivery="at_most_once")
    (claim,) = await scene.claim()
    await scene.end(claim, Lost())
    return run_id


# --- jobs ---------------------------------------------------------------------------------------------------------


@first_reason("paused", "the job is paused: the warehouse moves.")
async def paused(scene: Scene) -> str:
    job_id = await scene.submit(schedule=Interval(expression="1h"))
    await pause(scene.context, TENANT, job_id, reason="the warehouse moves")
    return job_id


@first_reason("paused", "the job is paused until")
async def paused_for_a_time(scene: Scene) -> str:
    job_id = await scene.submit(schedule=Interval(expression="1h"))
    await pause(scene.context, TENANT, job_id, until=scene.store.now() + HOUR)
    return job_id


@first_reason("cancelled", "the job was cancelled")
async def cancelled_job(scene: Scene) -> str:
    job_id = await scene.submit(schedule=Interval(expression="1h"))
    await cancel_job(scene.context, TENANT, job_id)
    return job_id


@first_reason("not_due", "next fire:")
async def not_due_yet(scene: Scene) -> str:
    return await scene.submit(schedule=Interval(expression="1h"))


@first_reason("not_begun", "the schedule begins")
async def not_begun(scene: Scene) -> str:
    starts = instant.render(scene.store.now() + 2 * HOUR)
    return await scene.submit(schedule=Interval(expression="1h"), start_at=starts)


@first_reason("ended", "no fire is left before endAt")
async def its_schedule_ended(scene: Scene) -> str:
    now = scene.store.now()
    sent = recurring(now - 25 * SECOND, seconds=10, end_at=instant.render(now - SECOND), catch_up="none")
    await scene.store.submit([sent])
    await plan_due(scene.store)
    return sent.job.id


@first_reason("exhausted", "the job has fired 1 time, which is its maxRuns")
async def fired_as_often_as_it_may(scene: Scene) -> str:
    sent = await scene.recurring(max_runs=1, catch_up="last")
    (claim,) = await scene.claim()
    await scene.end(claim)
    return sent.job.id


@first_reason("completed", "has no further fire")
async def complete(scene: Scene) -> str:
    job_id = await scene.submit()
    (claim,) = await scene.claim()
    await scene.end(claim)
    return job_id


@first_reason("planning", "is about to become a run")
async def not_planned_yet(scene: Scene) -> str:
    sent = recurring(scene.store.now() - 15 * SECOND, seconds=10)
    await scene.store.submit([sent])
    return sent.job.id


@first_reason("busy", "all 10 slots of 1 worker are busy")
async def the_run_of_a_job_waits(scene: Scene) -> str:
    await scene.fill()
    return await scene.submit(schedule=Date(expression=datetime.now(UTC).isoformat()))


# ------------------------------------------------------------------------------------------------------------------


async def reasons_of(scene: Scene, ident: str) -> list[Reason]:
    if ident.startswith("r_"):
        return (await explain_run(scene.context, TENANT, ident)).reasons
    found: JobExplained = await explain_job(scene.context, TENANT, ident)
    return [found.answer]


@pytest.mark.parametrize(("make", "code", "words"), SITUATIONS)
async def test_the_first_reason_is_the_right_one(
    store: Store, tamper: Tamper, make: Make, code: str, words: str
) -> None:
    scene = Scene(store, tamper)
    first, *_ = await reasons_of(scene, await make(scene))
    text = re.sub(r"\b[1-9] s ago", "now", first.text.lower())  # on a busy machine
    assert (first.code, words.lower() in text) == (code, True), first.text


async def test_all_that_stands_in_the_way_is_told_in_order(store: Store, tamper: Tamper) -> None:
    scene = Scene(store, tamper)
    rules = {"runs_on": ["gpu"], "ordering_key": "k", "start_deadline": "1h"}
    await scene.fire(age=3, ordering_key="k")
    held = await scene.fire(age=1, **rules)
    future = one_shot(store.now(), at=store.now() + HOUR, **(rules | {"ordering_key": "other"}))
    await store.submit([future])
    assert [each.code for each in await reasons_of(scene, held)] == ["turn", "no_fitting_worker", "start_deadline"]
    coming = await reasons_of(scene, future.runs[0].id)
    assert [each.code for each in coming] == ["not_due", "no_fitting_worker", "start_deadline"]


async def test_a_run_that_gave_up_comes_before_an_overlap(store: Store, tamper: Tamper) -> None:
    """Everything behind it waits for a person."""
    scene = Scene(store, tamper)
    await scene.fire(age=60, ordering_key="k", retry=NEVER)
    (claim,) = await scene.claim()
    await scene.end(claim, BOOM)
    sent = await scene.recurring(ordering_key="k")
    second = (await scene.live(sent.job.id))[1]
    reasons = await reasons_of(scene, second)
    assert [each.code for each in reasons] == ["turn_blocked", "overlap"]
    assert reasons[0].run_id == claim.run_id


async def test_the_runs_in_the_way_are_named(store: Store, tamper: Tamper) -> None:
    scene = Scene(store, tamper)
    first = await scene.fire(age=2, concurrency=Concurrency("db", 1))
    second = await scene.fire(age=1, concurrency=Concurrency("db", 1))
    third = await scene.fire(concurrency=Concurrency("db", 1))
    await scene.claim()
    for waiting, others in ((second, ""), (third, "1 run waits before this one")):
        (reason,) = await reasons_of(scene, waiting)
        assert reason.run_id == first
        assert first in reason.text
        assert others in reason.text


async def test_counting_who_is_ahead_ends_at_a_bound(
    store: Store, tamper: Tamper, monkeypatch: pytest.MonkeyPatch
) -> None:
    from timeball.domain.diagnosis import run_text
    from timeball.stores.sql.reading import diagnosis_snapshot

    monkeypatch.setattr(diagnosis_snapshot, "MAX_COUNTED", 20)
    monkeypatch.setattr(run_text, "MAX_COUNTED", 20)
    scene = Scene(store, tamper)
    await scene.fill()
    now = store.now()
    await store.submit([one_shot(now, at=now - 5 * SECOND) for _ in range(30)])
    reasons = await reasons_of(scene, await scene.fire())
    assert "More than 20 runs are ahead of this one" in reasons[0].text


async def test_a_job_tells_its_newest_exceptions(store: Store, tamper: Tamper) -> None:
    scene = Scene(store, tamper)
    sent = await scene.recurring(age=55, catch_up="last")
    (claim,) = await scene.claim()
    await scene.end(claim)
    found = await explain_job(scene.context, TENANT, sent.job.id)
    assert [each.verdict for each in found.facts.exceptions] == ["caught_up", "missed"]


async def test_another_tenants_run_and_job_are_unknown(store: Store) -> None:
    from timeball.domain.errors import NotFound

    scene = Scene(store, lambda _: None)  # type: ignore[arg-type]
    sent = one_shot(store.now(), tenant="other")
    await store.submit([sent])
    with pytest.raises(NotFound):
        await explain_run(scene.context, TENANT, sent.runs[0].id)
    with pytest.raises(NotFound):
        await explain_job(scene.context, TENANT, sent.job.id)


async def test_the_lateness_of_a_run_that_was_retried_is_that_of_its_first_attempt(
    store: Store, tamper: Tamper
) -> None:
    scene = Scene(store, tamper)
    blocker = await scene.fire(age=31, concurrency=Concurrency("db", 1))
    run_id = await scene.fire(age=30, concurrency=Concurrency("db", 1), retry=Retry(backoff="fixed", base="0s"))
    await tamper(f"UPDATE runs SET created_at = {store.now() - 50 * SECOND}")
    (claim,) = await scene.claim()
    assert claim.run_id == blocker
    await scene.end(claim)
    for outcome in (BOOM, Succeeded()):
        (claim,) = await scene.claim()
        await scene.end(claim, outcome)
    found = (await store.runs([run_id]))[run_id]
    first = (await store.first_attempts([run_id, blocker]))[run_id]
    assert await store.first_attempts([blocker]) == {}
    parts = split(found, first)
    assert parts is not None
    assert found.started_at is not None
    assert parts.total == found.started_at - found.fire_time
    assert parts.blocked > 29 * SECOND
    assert parts.scheduler == 0


async def test_the_run_of_a_job_that_waits_behind_another_is_not_the_one_that_is_explained(
    store: Store, tamper: Tamper
) -> None:
    """What matters of a job is the run that keeps the others waiting."""
    scene = Scene(store, tamper)
    sent = await scene.recurring()
    (claim,) = await scene.claim()
    await scene.start(claim)
    found = await explain_job(scene.context, TENANT, sent.job.id)
    assert found.run is not None
    assert found.run.facts.run.id == claim.run_id
    assert found.answer.code == "running"
    assert await store.trigger([run(sent.job, store.now())]) == ["blocked"]
