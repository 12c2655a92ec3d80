"""A row that cannot be processed delays itself and nothing else: I2, I20, I26. There are more such rows than one batch
holds, on every store, before the healthy ones."""

import random

import msgspec
import pytest
import structlog

from tests.conformance.conftest import Tamper
from tests.support.builders import TENANT, one_shot, recurring
from timeball import system
from timeball.domain.diagnosis.reasons import Code
from timeball.domain.dispatch.limits import Concurrency
from timeball.domain.errors import Conflict, NotFound
from timeball.domain.instant import HOUR, MINUTE, SECOND
from timeball.domain.job.job import Job, JobSpec, JobState
from timeball.domain.planning import planning, upcoming_fires
from timeball.domain.planning.planning_failure import retry_delay
from timeball.domain.run.ledger import Verdict
from timeball.domain.schedule.schedule import Interval
from timeball.domain.task.task import Shell
from timeball.domain.workflow.definition import WorkflowTask
from timeball.operation.context import OperationContext
from timeball.operation.find import find_scheduled
from timeball.operation.jobs.pause import pause, resume
from timeball.operation.jobs.update import update
from timeball.operation.runs.cancel import cancel_job
from timeball.operation.runs.explain import explain_job
from timeball.operation.runs.settle import Settle
from timeball.ports.store.jobs import Amendment, Submission
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.runs import Settled, Settlement, SlotRequest
from timeball.ports.store.store import Store
from timeball.server.loops import backfiller, follow_trigger, lease_rescuer, pause_resumer
from timeball.server.loops.backfiller import Backfiller
from timeball.server.loops.follow_trigger import FollowTrigger
from timeball.server.loops.lease_rescuer import LeaseRescuer
from timeball.server.loops.pause_resumer import PauseResumer
from timeball.server.loops.planner import BATCH, Planner
from timeball.server.loops.workflow_advancer import WorkflowAdvancer
from timeball.server.wakeups import LocalWakeups
from timeball.stores.sql.runs.claiming import LOOK_AT
from timeball.stores.sql.workflows.workflow_runs import MAX_BEGUN

BROKEN = BATCH + 20
FEW = 5
"""A batch, where a test makes it small."""


class Parts:
    """A server's parts, of which a test turns one loop at a time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.wakeups = LocalWakeups(lambda _: None)
        self.context = OperationContext(store, system.SystemClock(), random.Random(1), self.wakeups)


async def due(store: Store, count: int, late: int = 0, **fields: object) -> list[Job]:
    """Jobs of an interval of ten seconds, whose next fire came `late` microseconds ago."""
    first = store.now() - late
    made = [recurring(first - 10 * SECOND, next_fire_at=first, **fields) for _ in range(count)]
    sent = [Submission(each.job.with_(anchor=first), ()) for each in made]
    await store.submit(sent)
    return [each.job for each in sent]


async def planned(store: Store, job: Job) -> list[int]:
    page = await store.list_runs(RunFilter(tenant=TENANT, job_id=job.id), None, 1_000)
    return sorted(run.fire_time for run in page.items)


def break_planning(monkeypatch: pytest.MonkeyPatch, broken: set[str]) -> None:
    """Let the plan of some jobs raise, as a defect or a vanished rule of a time zone would."""
    original = planning.plan

    def plan(job: Job, *args: object, **more: object) -> object:
        if job.id in broken:
            raise ZeroDivisionError(f"no rule for {job.id}")
        return original(job, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(planning, "plan", plan)


async def test_jobs_that_cannot_be_planned_stop_no_others(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """I2, I20: the planner puts each of them off, and plans what is behind them in its next turn. Once planning works
    again, the next fire is the one that was due, so that none is lost."""
    parts = Parts(store)
    bad = await due(store, BROKEN, MINUTE)
    good = await due(store, 5, SECOND)
    broken = {job.id for job in bad}
    break_planning(monkeypatch, broken)
    planner = Planner(parts.context, parts.wakeups)
    with structlog.testing.capture_logs() as logs:
        for _ in range(4):
            await planner.turn()
    assert all([await planned(store, job) for job in good])
    assert not await planned(store, bad[0])
    assert sorted(entry["job"] for entry in logs if "cannot be planned" in entry["event"]) == sorted(broken)
    failures = await store.planning_failures([bad[0].id])
    assert "no rule for" in failures[bad[0].id].reason
    assert "no rule for" in (await find_scheduled(parts.context, TENANT, bad[0].id)).warnings[0]
    assert (await explain_job(parts.context, TENANT, bad[0].id)).answer.code is Code.UNPLANNABLE
    broken.clear()
    first_turn_after_a_start = Planner(parts.context, parts.wakeups)
    while await first_turn_after_a_start.turn() == 0:
        pass
    assert (await planned(store, bad[0]))[0] == bad[0].next_fire_at
    assert (await planned(store, bad[-1]))[0] == bad[-1].next_fire_at
    assert await store.planning_failures([bad[0].id]) == {}


async def accounted(store: Store, job: Job) -> list[tuple[int, int, int, str]]:
    """The rows of the ledger up to now: first and last fire, number of fires, verdict."""
    page = await store.ledger(job.id, 0, store.now() + 1, None, 1_000)
    return [(row.fire_time, row.fire_until, row.fires, row.verdict) for row in page.items]


async def test_a_job_that_cannot_be_planned_can_be_cancelled(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """I2: its due fires become missed, with the reason, in exactly one row of the ledger."""
    parts = Parts(store)
    [job] = await due(store, 1, MINUTE)
    break_planning(monkeypatch, {job.id})
    cancelled = await cancel_job(parts.context, TENANT, job.id)
    assert cancelled.status == "cancelled"
    [row] = (await store.ledger(job.id, 0, store.now() + 1, None, 10)).items
    first = job.next_fire_at or 0
    count = (row.fire_until - first) // (10 * SECOND) + 1
    assert (row.fire_time, row.fires, row.verdict) == (first, count, Verdict.MISSED)
    assert 7 <= count <= 9  # of a minute, and the next ones if the test is slow
    assert "no rule for" in row.reason
    assert (await cancel_job(parts.context, TENANT, job.id)).status == "cancelled"
    assert len(await accounted(store, job)) == 1


async def test_a_job_that_cannot_be_planned_can_be_paused_and_no_fire_is_lost(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I2: its due fires wait with those of the pause. When it is resumed and can be planned, each of them is run or
    gets a verdict; when it is cancelled instead, they are missed."""
    parts = Parts(store)
    [job, other] = await due(store, 2, MINUTE)
    broken = {job.id, other.id}
    break_planning(monkeypatch, broken)
    paused = await pause(parts.context, TENANT, job.id, reason="broken")
    assert (paused.status, paused.job.next_fire_at) == ("paused", job.next_fire_at)
    assert await accounted(store, job) == []
    await pause(parts.context, TENANT, other.id)
    await cancel_job(parts.context, TENANT, other.id)
    [(first, _, count, verdict)] = await accounted(store, other)
    assert (first, verdict) == (other.next_fire_at, Verdict.MISSED)
    assert count >= 7
    broken.clear()
    await resume(parts.context, TENANT, job.id)
    planner = Planner(parts.context, parts.wakeups)
    while not await planned(store, job):
        await planner.turn()
    rows = await accounted(store, job)
    assert rows[0][0] == job.next_fire_at
    assert sum(row[2] for row in rows) == len({at for row in rows for at in range(row[0], row[1] + 1, 10 * SECOND)})


async def test_a_job_that_cannot_be_planned_can_get_another_schedule(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I2: the due fires of the old schedule are missed; the new schedule begins after them."""
    parts = Parts(store)
    [job] = await due(store, 1, MINUTE)
    broken = {job.id}
    break_planning(monkeypatch, broken)

    def hourly(spec: JobSpec) -> JobSpec:
        return msgspec.structs.replace(spec, schedule=Interval(expression="1h"))

    changed = await update(parts.context, TENANT, job.id, hourly)
    assert changed.job.next_fire_at is not None
    assert changed.job.next_fire_at > store.now()
    [(first, _, count, verdict)] = await accounted(store, job)
    assert (first, verdict) == (job.next_fire_at, Verdict.MISSED)
    assert count >= 7


@pytest.mark.parametrize("is_paused", [False, True])
async def test_a_job_whose_fires_cannot_be_computed_can_be_cancelled(
    store: Store, monkeypatch: pytest.MonkeyPatch, is_paused: bool
) -> None:
    """I2: of its due fires only the first is known. It is missed, and the reason says that the others are unknown."""
    parts = Parts(store)
    [job] = await due(store, 1, MINUTE)
    break_planning(monkeypatch, {job.id})

    def no_fires(*_: object) -> object:
        raise ZeroDivisionError("no rule")

    monkeypatch.setattr(upcoming_fires, "fires", no_fires)
    if is_paused:
        await pause(parts.context, TENANT, job.id)
    assert (await cancel_job(parts.context, TENANT, job.id)).status == "cancelled"
    [row] = (await store.ledger(job.id, 0, store.now() + 1, None, 10)).items
    assert (row.fire_time, row.fires, row.verdict) == (job.next_fire_at, 1, Verdict.MISSED)
    assert "no rule" in row.reason


async def test_jobs_whose_spec_cannot_be_read_stop_no_others(store: Store, tamper: Tamper) -> None:
    """I2, I20: a newer server wrote the spec, or its time zone is gone. The job is not denied: it is a 409, no 404."""
    parts = Parts(store)
    bad = await due(store, BROKEN, MINUTE, name="bad")
    good = await due(store, 5, SECOND)
    await tamper("UPDATE jobs SET spec = '{\"moons\": ' || spec || '}' WHERE name = 'bad'")
    planner = Planner(parts.context, parts.wakeups)
    for _ in range(4):
        await planner.turn()
    assert all([await planned(store, job) for job in good])
    with pytest.raises(Conflict, match="cannot be read"):
        await find_scheduled(parts.context, TENANT, bad[0].id)
    with pytest.raises(NotFound):
        await find_scheduled(parts.context, "other", bad[0].id)
    await tamper("UPDATE jobs SET spec = substr(spec, 11, length(spec) - 11) WHERE name = 'bad'")
    upgraded = Planner(parts.context, parts.wakeups)
    while await upgraded.turn() == 0:
        pass
    assert (await planned(store, bad[-1]))[0] == bad[-1].next_fire_at


async def test_the_delay_of_a_job_that_cannot_be_planned_grows_up_to_a_bound(store: Store) -> None:
    """And starts anew once the job was planned or changed."""
    [job] = await due(store, 1)
    assert [retry_delay(count) // SECOND for count in range(1, 9)] == [15, 30, 60, 120, 240, 480, 600, 600]
    for failures in range(1, 9):
        [job] = [(await store.jobs([job.id]))[job.id].job]
        before = store.now()
        await store.put_off([(job, "no rule")])
        failure = (await store.planning_failures([job.id]))[job.id]
        assert failure.failures == failures
        assert failure.retry_at >= before + retry_delay(failures)
    await store.put_off([(job, "stale: the job was put off since it was read")])
    assert (await store.planning_failures([job.id]))[job.id].reason == "no rule"


async def test_jobs_whose_calendar_cannot_be_read_stop_no_others(store: Store, tamper: Tamper) -> None:
    """I2, I20: a newer server may have written the calendar."""
    from tests.conformance.test_calendars import frozen, named

    parts = Parts(store)
    await store.put_calendar(named(frozen(), "freeze"))
    bad = await due(store, BROKEN, MINUTE, calendars=["freeze"])
    good = await due(store, 5, SECOND)
    await tamper('UPDATE calendars SET spec = \'{"entries": [], "moons": 2}\'')
    planner = Planner(parts.context, parts.wakeups)
    for _ in range(4):
        await planner.turn()
    assert all([await planned(store, job) for job in good])
    failures = await store.planning_failures([bad[0].id])
    assert "freeze" in failures[bad[0].id].reason
    await tamper("DELETE FROM calendars")
    await store.put_calendar(named(frozen(), "freeze"))
    while await planner.turn() == 0:
        pass
    assert (await planned(store, bad[0]))[0] == bad[0].next_fire_at


async def test_a_plan_that_cannot_be_written_stops_no_others(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """I2: the transaction of a batch fails as a whole; its plans are written in ever smaller parts."""
    parts = Parts(store)
    bad, *good = await due(store, 20, SECOND)
    commit = store.commit_plans

    async def refuse_one(plans: list[planning.JobPlan], run_ids: list[list[str]]) -> list[str]:
        if any(each.job.id == bad.id for each in plans):
            raise OverflowError("too large for the store")
        return await commit(plans, run_ids)

    monkeypatch.setattr(store, "commit_plans", refuse_one)
    planner = Planner(parts.context, parts.wakeups)
    for _ in range(2):
        await planner.turn()
    assert all([await planned(store, job) for job in good])
    assert "too large" in (await store.planning_failures([bad.id]))[bad.id].reason


# --- the other loops: with more broken rows than a batch holds, in front of healthy ones -----------------------------


async def test_runs_whose_limits_cannot_be_read_stop_no_others(store: Store, tamper: Tamper) -> None:
    """I17, I26: a claim looks at the first 500 runs if some have limits; those that it cannot read are put off."""
    now = store.now()
    limits = {"concurrency": Concurrency("db", 1_000)}
    await store.submit([one_shot(now - MINUTE, at=now - MINUTE, name="bad", **limits) for _ in range(LOOK_AT + 10)])
    good = [one_shot(now, **limits) for _ in range(3)]
    await store.submit(good)
    await tamper("UPDATE jobs SET spec = '{\"concurrency\": 7}' WHERE name = 'bad'")
    claimed = []
    for poll in range(3):
        claimed += (await store.claim([SlotRequest("w_1", "", 10, poll)], 0)).claims
    assert sorted(claim.job_id for claim in claimed) == sorted(each.job.id for each in good)
    await tamper('UPDATE jobs SET spec = \'{"task": {"kind": "shell", "command": "true"}}\' WHERE name = \'bad\'')
    await tamper("UPDATE runs SET eligible_at = 0 WHERE state = 'ready'")
    assert len((await store.claim([SlotRequest("w_1", "", 10, 9)], 0)).claims) == 10, "they run once they can be read"


async def test_paused_jobs_that_cannot_be_read_keep_no_others_paused(
    store: Store, tamper: Tamper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pause_resumer, "BATCH", FEW)
    parts = Parts(store)
    bad = await due(store, 2 * FEW, -HOUR, name="bad")
    good = await due(store, 2, -HOUR)
    for at, job in enumerate([*bad, *good]):
        end = store.now() - 1_000_000 + at
        paused = Amendment(job=job, spec=job.spec, state=JobState.PAUSED, keep_schedule=True, paused_until=end)
        await store.amend([paused])
    await tamper("UPDATE jobs SET spec = '{\"moons\": 2}' WHERE name = 'bad'")
    loop = PauseResumer(parts.context, parts.wakeups)
    while await loop.turn() == 0:
        pass
    states = {(await store.jobs([job.id]))[job.id].job.state for job in good}
    assert states == {JobState.ACTIVE}


async def test_jobs_that_cannot_be_resumed_keep_no_others_paused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pause_resumer, "BATCH", FEW)
    parts = Parts(store)
    jobs = await due(store, 2 * FEW + 2, -HOUR)
    broken = {job.id for job in jobs[: 2 * FEW]}
    for at, job in enumerate(jobs):
        end = store.now() - 1_000_000 + at
        paused = Amendment(job=job, spec=job.spec, state=JobState.PAUSED, keep_schedule=True, paused_until=end)
        await store.amend([paused])
    amend = store.amend

    async def refuse_some(amendments: list[Amendment]) -> object:
        if any(each.job.id in broken for each in amendments):
            raise OverflowError("too large")
        return await amend(amendments)

    monkeypatch.setattr(store, "amend", refuse_some)
    loop = PauseResumer(parts.context, parts.wakeups)
    while await loop.turn() == 0:
        pass
    states = [(await store.jobs([job.id]))[job.id].job.state for job in jobs]
    assert states == [JobState.PAUSED] * 2 * FEW + [JobState.ACTIVE] * 2


async def test_followers_that_cannot_be_read_keep_no_others_from_following(
    store: Store, tamper: Tamper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I19: by the order of their ids the broken ones come first."""
    from tests.conformance.test_follows import end, followed, follower

    monkeypatch.setattr(follow_trigger, "BATCH", FEW)
    parts = Parts(store)
    source = await followed(store)
    for _ in range(2 * FEW):
        await follower(store, source, name="bad")
    good = await follower(store, source)
    await tamper("UPDATE jobs SET spec = '{\"moons\": 2}' WHERE name = 'bad'")
    await end(store, source)
    loop = FollowTrigger(parts.context, parts.wakeups)
    while await loop.turn() == 0:
        pass
    assert (await store.jobs([good.id]))[good.id].job.next_fire_at is not None


async def test_backfills_that_cannot_be_read_keep_no_others_waiting(
    store: Store, tamper: Tamper, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.conformance.test_backfills import backfill, progress

    monkeypatch.setattr(backfiller, "BATCH", FEW)
    parts = Parts(store)
    job = recurring(store.now(), seconds=60).job
    await store.submit([Submission(job, ())])
    for _ in range(2 * FEW):
        await backfill(store, job, 3)
    good = await backfill(store, job, 3)
    await tamper(f"UPDATE backfills SET calendars = '7' WHERE id < '{good}'")
    loop = Backfiller(parts.context, parts.wakeups)
    while await loop.turn() == 0:
        pass
    assert (await progress(store, good)).backfill.made == 1


async def test_workflows_that_cannot_begin_keep_no_others_from_it(store: Store, tamper: Tamper) -> None:
    """I19: a spec that can be read and is no workflow, which no version of Timeball writes."""
    from tests.conformance.test_workflows import flow

    parts = Parts(store)
    task = WorkflowTask(name="a", task=Shell(command="true"))
    bad = [flow(store, task) for _ in range(2 * MAX_BEGUN)]
    await store.submit(bad)
    good = [flow(store, task) for _ in range(2)]
    await store.submit(good)
    last = max(each.job.id for each in bad)
    shell = '{"task": {"kind": "shell", "command": "true"}}'
    await tamper(f"UPDATE jobs SET spec = '{shell}' WHERE id <= '{last}'")
    loop = WorkflowAdvancer(parts.context, parts.wakeups)
    for _ in range(20):
        await loop.turn()
    claimed = (await store.claim([SlotRequest("w_1", "", 10)], 0)).claims
    assert sorted(claim.job_id for claim in claimed) == sorted(each.job.id for each in good)


async def test_lost_runs_that_cannot_be_settled_keep_no_others_from_their_rescue(
    store: Store, tamper: Tamper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I7, I26."""
    monkeypatch.setattr(lease_rescuer, "BATCH", FEW)
    parts = Parts(store)
    await store.submit([one_shot(store.now()) for _ in range(3 * FEW)])
    claims = (await store.claim([SlotRequest("w_1", "", 100)], 0)).claims
    broken = {claim.run_id for claim in claims[: 2 * FEW]}
    await tamper("UPDATE workers SET lease_until = 0 WHERE session = 'w_1'")
    settle = store.settle

    async def refuse_some(settlements: list[Settlement]) -> list[Settled | None]:
        if any(each.run_id in broken for each in settlements):
            raise OverflowError("too large")
        return await settle(settlements)

    monkeypatch.setattr(store, "settle", refuse_some)
    loop = LeaseRescuer(parts.context, parts.wakeups, Settle(parts.context))
    for _ in range(3):
        await loop.turn()
    left = {each.run_id for each in await store.lapsed(100)}
    assert left <= broken
