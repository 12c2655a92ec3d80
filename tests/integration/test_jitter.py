"""Jitter delays a start and never moves the fire: each fire has its own delay, which never changes, and no run starts
before it has passed (I3). A start deadline counts from the end of the delay."""

from typing import Any

import pytest

from tests.support.still import START, World
from timeball.api import views
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND, Micros, render
from timeball.domain.job.job import jitter_of
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.schedule.schedule import CronSchedule, Date, Immediate
from timeball.operation.jobs.pause import pause
from timeball.ports.store.runs import SlotRequest

MINUTELY = CronSchedule(expression="* * * * *")


def due_at(run: Run) -> Micros:
    assert run.due_at is not None
    return run.due_at


async def claimable(world: World) -> int:
    """How many runs a worker could have now, and gives back at once."""
    session = await world.worker()
    claims = (await world.store.claim([SlotRequest(session, "w", 100)], 0)).claims
    await world.store.end_session(session)
    return len(claims)


async def test_each_fire_has_a_jitter_of_its_own_that_never_changes(world: World) -> None:
    job = await world.job(await world.create(MINUTELY, jitter="30s"))
    fires = [START + n * MINUTE for n in range(1_000)]
    jitters = [jitter_of(job, at) for at in fires]
    assert jitters == [jitter_of(job.with_(version=7, next_fire_at=None), at) for at in fires]
    assert 0 <= min(jitters) < SECOND
    assert 29 * SECOND < max(jitters) <= 30 * SECOND
    assert 14 * SECOND < sum(jitters) / len(jitters) < 16 * SECOND
    assert len(set(jitters)) > 990
    other = await world.job(await world.create(MINUTELY, jitter="30s"))
    assert jitters != [jitter_of(other, at) for at in fires]


@pytest.mark.parametrize("overlap", ["allow", "queue", "skip"])
async def test_a_run_starts_when_its_jitter_has_passed_and_not_before(world: World, overlap: str) -> None:
    job = await world.create(MINUTELY, jitter="30s", overlap=overlap)
    for count in range(1, 6):
        world.time = START + count * MINUTE - SECOND
        await world.plan()
        [run] = [run for run in await world.runs(job) if not run.is_terminal]
        assert run.fire_time == START + count * MINUTE
        assert run.fire_time < due_at(run) <= run.fire_time + 30 * SECOND
        world.time = due_at(run) - 1
        await world.plan()
        assert await claimable(world) == 0
        [waiting] = [each for each in await world.runs(job) if each.id == run.id]
        assert waiting.status is Status.SCHEDULED
        world.time += 1
        await world.work_off()
    runs = await world.runs(job)
    assert [run.fire_time for run in runs] == [START + n * MINUTE for n in range(1, 6)], "the fire times are nominal"
    assert [run.started_at for run in runs] == [run.due_at for run in runs]
    assert {run.verdict for run in runs} == {Verdict.ON_TIME}
    assert {views.late_ms(run) for run in runs} == {0.0}


@pytest.mark.parametrize(("late", "verdict"), [(2 * SECOND, Verdict.ON_TIME), (2 * SECOND + 1, Verdict.LATE)])
async def test_lateness_counts_from_the_jitter(world: World, late: Micros, verdict: Verdict) -> None:
    job = await world.create(Immediate(), jitter="1h")
    [run] = await world.runs(job)
    world.time = due_at(run) + late
    await world.work_off()
    [run] = await world.runs(job)
    assert run.verdict is verdict
    assert views.late_ms(run) == late / 1_000


async def test_what_is_within_its_jitter_is_not_missed(world: World) -> None:
    """The planner was away at the fire time but is back before the run should start."""
    job = await world.create(MINUTELY, jitter="50s", catch_up="none")
    found = await world.job(job)
    due = START + MINUTE + jitter_of(found, START + MINUTE)
    world.time = due + SECOND
    await world.work_off()
    [run, *_] = await world.runs(job)
    assert (run.fire_time, run.origin, run.verdict) == (START + MINUTE, Origin.SCHEDULE, Verdict.ON_TIME)


async def test_a_fire_whose_time_has_come_belongs_to_the_version_of_then(world: World) -> None:
    job = await world.create(MINUTELY, jitter="30s", name="old")
    world.time = START + MINUTE - SECOND
    await world.plan()
    [ahead] = await world.runs(job)
    await world.edit(job, name="newer", jitter="20s")
    await world.plan()
    [run] = await world.runs(job)
    assert (run.version, run.id != ahead.id) == (2, True), "before its time it is made anew"
    assert due_at(run) <= run.fire_time + 20 * SECOND
    world.time = run.fire_time
    await world.edit(job, name="newest", jitter="1s")
    await pause(world.context, "default", job)
    [kept] = await world.runs(job)
    assert (kept.id, kept.version, kept.due_at) == (run.id, 2, run.due_at), "then it is not touched any more"
    world.time = due_at(run)
    await world.work_off()
    assert await world.fired(job) == [run.fire_time]


async def test_runs_that_people_ask_for_have_no_jitter(world: World) -> None:
    job = await world.create(MINUTELY, jitter="1h")
    await world.trigger(job)
    assert await claimable(world) == 1


# --- start deadlines --------------------------------------------------------------------------------------------------


async def test_what_is_planned_too_late_to_start_is_skipped_with_the_reason(world: World) -> None:
    job = await world.create(MINUTELY, start_deadline="10m", catch_up_window="30m", overlap="allow")
    world.time += HOUR + 30 * SECOND
    await world.work_off()
    assert await world.fired(job) == [START + n * MINUTE for n in range(51, 61)]
    assert await world.ledger(job) == {"missed": 30, "skipped": 20, "caught_up": 10}
    [skipped] = [run for run in await world.runs(job) if run.verdict is Verdict.SKIPPED]
    assert (skipped.fire_time, skipped.fires) == (START + 31 * MINUTE, 20)
    assert skipped.reason == "not running at the time, and its startDeadline of 10m has passed"
    assert (await world.job(job)).fired == 10


@pytest.mark.parametrize(("late", "runs"), [(10 * MINUTE, 1), (10 * MINUTE + 1, 0)])
@pytest.mark.parametrize("rule", ["all", "last", "none"])
async def test_a_one_shot_runs_however_late_unless_it_has_a_deadline(
    world: World, late: Micros, runs: int, rule: Any
) -> None:
    date = Date(expression=render(START + DAY))
    bounded = await world.create(date, start_deadline="10m", catch_up=rule)
    patient = await world.create(date, catch_up=rule)
    world.time = START + DAY + late
    await world.work_off()
    assert len(await world.fired(bounded)) == runs
    assert len(await world.fired(patient)) == 1
    assert sum((await world.ledger(bounded)).values()) == 1
    assert await world.status(bounded) == "completed"


async def test_a_deadline_counts_from_the_jitter(world: World) -> None:
    job = await world.create(MINUTELY, jitter="50s", start_deadline="5s", catch_up="all", max_runs=1)
    due = START + MINUTE + jitter_of(await world.job(job), START + MINUTE)
    world.time = due + 5 * SECOND
    await world.work_off()
    assert await world.fired(job) == [START + MINUTE]
