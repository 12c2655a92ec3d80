"""I28: no loop of a server holds the event loop for more than 50 ms of CPU, with the largest batch that it takes.

The loops are those of the server itself: a new one fails here until its worst case is registered. A ticker of 5 ms
measures the CPU time of the event loop's thread between two ticks. On PostgreSQL all work of a transaction is done in
that thread; on SQLite the writer's thread does it, and takes turns with the event loop.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from tests.conformance.conftest import Tamper
from tests.conformance.test_backfills import wanted
from tests.conformance.test_retention import prune  # noqa: F401 (its fixtures make old days)
from tests.support.builders import LEASE, TENANT, job, one_shot, recurring, run, settlement, spec, worker
from tests.support.stalls import MAX_STALL_SECONDS, TRIES, Ticker
from timeball import system
from timeball.domain.dispatch.limits import RateLimit
from timeball.domain.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Micros
from timeball.domain.planning.planning import MAX_INSTANTS
from timeball.domain.run import error_fingerprint
from timeball.domain.run.lifecycle import Failed, Failure
from timeball.domain.run.status import Status
from timeball.domain.schedule.schedule import CronSchedule, Follow, Interval
from timeball.domain.task.retry import Retry
from timeball.domain.task.task import Shell
from timeball.domain.tenant import Tenant, TenantLimits
from timeball.domain.workflow.definition import Workflow, WorkflowTask
from timeball.operation.context import OperationContext
from timeball.operation.credential_uses import MAX_NOTED_USES
from timeball.operation.events.collector import MAX_COLLECTED
from timeball.operation.events.filters import EventFilter
from timeball.operation.events.hub import MAX_LISTENERS
from timeball.operation.jobs.pause import pause
from timeball.operation.jobs.submit import NewJob, Submit
from timeball.operation.run_events import MAX_FOLLOWERS
from timeball.operation.runs.settle import Settle
from timeball.operation.schedules.backfill import begin
from timeball.ports.store.jobs import Submission
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store
from timeball.ports.worker_protocol import Poll, RegisterWorker, Started
from timeball.server.loop import Loop
from timeball.server.loops.credential_use_writer import CredentialUseWriter
from timeball.server.server import Server
from timeball.stores.sql.committed_changes import CommittedChanges

MAX_TURNS = 40

pytestmark = [
    pytest.mark.timeout(300),
    # On PostgreSQL each loop takes the same decisions with the same code, and to prepare its batch takes long.
    pytest.mark.parametrize("kept", ["sqlite", pytest.param("postgres", marks=pytest.mark.parts)], indirect=True),
]


class House:
    """A server that is not started, with a worker `w_1`."""

    def __init__(self, store: Store, tamper: Tamper) -> None:
        self.store = store
        self.tamper = tamper
        self.server = Server(store, system.SystemClock(), random.Random(1), keep_for=30 * DAY)
        self.polls: list[asyncio.Task[Any]] = []
        self.followers = ExitStack()

    @property
    def context(self) -> OperationContext:
        return self.server.context

    async def submit(self, submissions: Sequence[Submission]) -> None:
        for start in range(0, len(submissions), 500):
            await self.store.submit(submissions[start : start + 500])

    async def claim(self, count: int) -> list[Claim]:
        claims: list[Claim] = []
        while len(claims) < count and (
            got := (await self.store.claim([SlotRequest("w_1", "", count - len(claims))], 0)).claims
        ):
            claims += got
        return claims


Left = Callable[[], Awaitable[object]]
"""What is left to do: the case proves nothing if the loop did not do its work."""
Prepare = Callable[[House], Awaitable[Left]]
WORST: dict[str, Prepare] = {}


def worst(loop: str) -> Callable[[Prepare], Prepare]:
    def add(prepare: Prepare) -> Prepare:
        WORST[loop] = prepare
        return prepare

    return add


LAYER = 150


def large_workflow() -> Workflow:
    """800 KB with 90,000 needs: a workflow may have 100,000."""
    layers = [[f"t{layer}-{place}" for place in range(LAYER)] for layer in range(5)]
    return Workflow(
        [
            WorkflowTask(name=name, task=Shell(command="true"), needs=layers[layer - 1] if layer else [])
            for layer, names in enumerate(layers)
            for name in names
        ]
    )


@worst("planner")
async def long_absence_and_rare_crons(house: House) -> Left:
    """Jobs that missed thousands of fires, and jobs whose next fire is years away in a zone with clock changes."""
    now = house.store.now()
    await house.submit(
        [recurring(now - HOUR, seconds=3_600, next_fire_at=now - MINUTE, task=large_workflow()) for _ in range(5)]
    )
    rare = CronSchedule("59 59 23 29 2 *", "Europe/Berlin")
    rules = {"catch_up": "all", "catch_up_window": "1h"}
    await house.submit(
        [recurring(now - DAY, seconds=1, next_fire_at=now - MAX_INSTANTS * SECOND, **rules) for _ in range(2)]
        + [Submission(job(now - HOUR, schedule=rare, next_fire_at=now - MINUTE), ()) for _ in range(500)]
    )

    async def left() -> int:
        return sum(each.spec.schedule == rare for each in await house.store.due_jobs(1_000))

    return left


@worst("credential_use_writer")
async def as_many_uses_as_are_noted(house: House) -> Left:
    writer, now = of(house, "credential_use_writer"), house.store.now()
    assert isinstance(writer, CredentialUseWriter)
    writer._sleeps_until = 0
    for number in range(MAX_NOTED_USES):
        house.context.credential_uses.note(f"k_{number}", TENANT, f"user-{number}", now)

    async def left() -> int:
        return len(house.context.credential_uses.take())

    return left


@worst("dispatcher")
async def many_due_runs_for_many_slots(house: House) -> Left:
    await house.submit([one_shot(house.store.now(), parameters={"text": "x" * 1_000}) for _ in range(2_000)])
    gateway = house.server.gateway
    for number in range(3):
        welcome = await gateway.hello(RegisterWorker(name=f"poller {number}", slots=1_000))
        poll = Poll(session=welcome.session, seq=1, free=1_000, held=[], wait=10 * SECOND)
        house.polls.append(asyncio.create_task(gateway.poll(poll)))
    await asyncio.sleep(0)

    async def left() -> int:
        return len(await house.claim(2_000))

    return left


@worst("tenant_limit_reader")
async def many_tenants_with_limits(house: House) -> Left:
    limits = TenantLimits(weight=2, concurrent_runs=5, jobs=10, runs_per_day=100, requests_per_second=50)
    for number in range(1_000):
        if await house.store.tenant(f"t{number}") is None:
            await house.store.create_tenant(Tenant(id=f"t{number}", limits=limits, created_at=1, updated_at=1))

    async def left() -> int:
        return 1_000 - len(house.context.limits.by_tenant)

    return left


@worst("workflow_advancer")
async def a_large_workflow_with_many_needs(house: House) -> Left:
    await house.submit([one_shot(house.store.now(), task=large_workflow())])

    async def left() -> int:
        return LAYER - len(await house.claim(1_000))

    return left


@worst("gate_opener")
async def many_gates_whose_time_has_come(house: House) -> Left:
    rates = [RateLimit(key=f"k{number}", limit=1, per="1s", burst=1) for number in range(120)]
    await house.submit([one_shot(house.store.now(), rate_limit=rate) for rate in rates for _ in range(3)])
    for _ in range(4):
        await house.store.claim([SlotRequest("w_1", "", 1_000)], 0)
    await asyncio.sleep(1)

    async def left() -> bool:
        return not await house.claim(1_000)

    return left


@worst("deadline_expirer")
async def many_runs_past_their_deadline(house: House) -> Left:
    now = house.store.now()
    await house.submit([one_shot(now, at=now - 10 * SECOND, start_deadline="5s") for _ in range(600)])
    return house.store.next_expiry


@worst("cancel_sender")
async def many_running_attempts_to_cancel(house: House) -> Left:
    await house.submit([one_shot(house.store.now()) for _ in range(2_000)])
    claims = await house.claim(2_000)
    for start in range(0, len(claims), 500):
        await house.store.request_cancel([each.run_id for each in claims[start : start + 500]])

    async def left() -> int:
        return 2_000 - len((await house.store.worker_orders()).cancels)

    return left


@worst("preemptor")
async def many_preemptible_attempts(house: House) -> Left:
    ago = house.store.now() - 10 * SECOND
    await house.submit([one_shot(ago, priority="low", preemptible=True) for _ in range(1_000)])
    claims = await house.claim(1_000)
    starts = [(Started(run_id=each.run_id, token=each.token, age=0), ago) for each in claims]
    await house.store.note("w_1", starts, [])
    await house.tamper("UPDATE workers SET slots = 1000")
    await house.submit([one_shot(ago, priority="high") for _ in range(100)])

    async def left() -> bool:
        return not await house.store.pause_orders()

    return left


@worst("lease_rescuer")
async def all_runs_of_a_worker_that_died(house: House) -> Left:
    await house.submit([one_shot(house.store.now(), retry=Retry(max_retries=0)) for _ in range(600)])
    await house.claim(600)
    await house.tamper("UPDATE workers SET lease_until = 1")

    async def left() -> int:
        return len(await house.store.lapsed(10_000))

    return left


@worst("pause_resumer")
async def many_pauses_that_are_over(house: House) -> Left:
    now = house.store.now()
    sent = [recurring(now, seconds=1, next_fire_at=now - HOUR) for _ in range(110)]
    await house.submit(sent)
    for each in sent:
        await pause(house.context, TENANT, each.job.id, until=house.store.now() + HOUR)
    await house.tamper(f"UPDATE jobs SET paused_until = {now}")
    return house.store.next_resume_at


@worst("backfiller")
async def many_backfills_with_many_runs_at_a_time(house: House) -> Left:
    now = house.store.now()
    sent = [recurring(now, seconds=60, next_fire_at=now + HOUR) for _ in range(30)]
    await house.submit(sent)
    for each in sent:
        await begin(house.context, wanted(each.job, 200, parallelism=100), lambda progress: b"")

    async def left() -> int:
        return 3_000 - len(await house.claim(3_000))

    return left


@worst("follow_trigger")
async def many_ends_that_many_jobs_follow(house: House) -> Left:
    upstream = job(house.store.now(), schedule=Interval("1h"), retry=Retry(max_retries=0))
    await house.submit([Submission(upstream, ())])
    submit = Submit(house.context, lambda _: b"")
    await submit([NewJob(TENANT, spec(schedule=Follow(upstream.id, "succeeded"))) for _ in range(100)])
    now = house.store.now()
    for _ in range(10):
        await house.store.trigger([run(upstream, now)])
        claims = await house.claim(1)
        await house.store.settle([settlement(each, at=now) for each in claims])

    async def left() -> bool:
        return await house.store.apply_upstream_events(10_000) > 0

    return left


@worst("maintenance")
async def a_day_that_goes(house: House) -> Left:
    old = house.store.now() - 40 * DAY
    await house.submit([one_shot(old) for _ in range(600)])
    claims = await house.claim(600)
    await house.store.settle([settlement(each, at=old) for each in claims])

    async def left() -> int:
        return len(await house.store.runs([each.run_id for each in claims]))

    return left


@worst("run_watcher")
async def as_many_followers_as_there_may_be(house: House) -> Left:
    await house.submit([one_shot(house.store.now()) for _ in range(MAX_FOLLOWERS)])
    events = [
        house.followers.enter_context(house.context.run_events.following(each.run_id, "k_1"))
        for each in await house.claim(MAX_FOLLOWERS)
    ]

    async def left() -> int:
        return MAX_FOLLOWERS - sum(event.is_set() for event in events)

    return left


@worst("event_publisher")
async def as_many_changes_and_listeners_as_there_may_be(house: House) -> Left:
    """Of runs that no listener knows yet: their jobs are looked up."""
    hub = house.context.events
    house.followers.callback(house.store.watch_changes, None)
    filters = [EventFilter(), EventFilter(tag="x"), EventFilter(statuses=frozenset({Status.SUCCEEDED, Status.RUNNING}))]
    filters += [EventFilter(tag=f"{number}") for number in range(MAX_LISTENERS - len(filters))]
    await house.submit([one_shot(house.store.now(), tags=["x"]) for _ in range(1_000)])
    claims = await house.claim(1_000)
    for where in filters:
        hub.subscribe("default", where, "k_1", "", house.context.clock.monotonic(), house.context.rng)
    await house.store.settle([settlement(each) for each in claims])
    while hub._collector._count < MAX_COLLECTED - 4_000:
        await house.submit([one_shot(house.store.now(), tags=["x"]) for _ in range(1_000)])
        await house.store.settle([settlement(each) for each in await house.claim(1_000)])

    async def left() -> bool:
        return not hub._collector.is_empty

    return left


@worst("statistics_writer")
async def many_ends_of_two_seconds(house: House) -> Left:
    """Plain successes, which a statement counts, and failures, which are counted one by one."""
    committed: CommittedChanges = house.store._db.committed  # type: ignore[attr-defined]
    for outcome in (None, None, Failed(Failure(kind="exit", message="boom"))):
        await house.submit([one_shot(house.store.now(), retry=Retry(max_retries=0)) for _ in range(1_000)])
        await house.store.settle([settlement(each, outcome) for each in await house.claim(1_000)])

    async def left() -> bool:
        return bool(committed._ends.tallies or committed._ends.uncounted)

    return left


async def turned(loop: Loop) -> None:
    """Let it turn until it rests."""
    for _ in range(MAX_TURNS):
        rest: Micros = await loop.turn()
        if rest > 100 * MILLISECOND:
            return
        await asyncio.sleep(rest / SECOND)


async def longest_hold(work: Callable[[], Awaitable[object]]) -> float:
    """The longest stretch of CPU time between two ticks while something is done."""
    gc.collect()
    with Ticker() as ticker:
        await work()
    return ticker.longest.cpu


def of(house: House, name: str) -> Loop:
    return next(loop for loop in house.server.loops if loop.name == name)


async def test_every_loop_of_the_server_has_a_worst_case(store: Store, tamper: Tamper) -> None:
    missing = {loop.name for loop in House(store, tamper).server.loops} - WORST.keys()
    assert not missing, f"register the largest batch of {', '.join(sorted(missing))} with @worst in this file"


@pytest.mark.parametrize("name", sorted(WORST))
async def test_a_loop_with_its_largest_batch_lets_the_event_loop_turn(store: Store, tamper: Tamper, name: str) -> None:
    holds: list[float] = []
    await store.register(worker("w_1", slots=10_000), LEASE)
    while len(holds) < TRIES and not (holds and min(holds) <= MAX_STALL_SECONDS):
        house = House(store, tamper)
        left = await WORST[name](house)
        holds.append(await longest_hold(partial(turned, of(house, name))))
        assert not await left(), f"{name} did not do its work"
        house.followers.close()
        for poll in house.polls:
            poll.cancel()
        await asyncio.gather(*house.polls, return_exceptions=True)
    assert min(holds) <= MAX_STALL_SECONDS, f"{name} held the event loop for {min(holds) * 1e3:.0f} ms of CPU"


async def test_a_report_of_failures_that_all_differ_lets_the_event_loop_turn(store: Store, tamper: Tamper) -> None:
    """Each gets a fingerprint, and is judged by the rules of its job."""
    house = House(store, tamper)
    await store.register(worker("w_1", slots=10_000), LEASE)
    holds: list[float] = []
    words = " ".join(f"0x{number:08x} '{number}' /var/{number}.log 2026-01-01T00:00:00Z" for number in range(45))
    while len(holds) < TRIES and not (holds and min(holds) <= MAX_STALL_SECONDS):
        await house.submit([one_shot(store.now(), retry=Retry(max_retries=0)) for _ in range(1_000)])
        claims = await house.claim(1_000)
        assert len(claims) == 1_000
        ends = [
            settlement(each, Failed(Failure(kind="exit", message=f"{number * 7919} {words}")))
            for number, each in enumerate(claims)
        ]
        error_fingerprint._normalized.cache_clear()
        holds.append(await longest_hold(partial(Settle(house.context), ends)))
        assert not await store.held("w_1", [(each.run_id, each.attempt, each.token) for each in claims])
    assert min(holds) <= MAX_STALL_SECONDS, f"settling held the event loop for {min(holds) * 1e3:.0f} ms of CPU"
