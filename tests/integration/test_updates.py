"""Changes of live jobs, through the operations: no past fire runs again, and no due fire is lost."""

from typing import Any

import pytest
from msgspec import structs

from tests.support.still import START, World
from timeball.domain import ids
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND, Micros, render
from timeball.domain.job.job import JobSpec
from timeball.domain.run.ledger import Origin
from timeball.domain.run.run import new_run
from timeball.domain.schedule.schedule import CronSchedule, Date, Immediate, Interval
from timeball.operation.jobs import amend
from timeball.operation.jobs.pause import pause, resume
from timeball.operation.jobs.update import update
from timeball.operation.runs.cancel import cancel_job, cancel_run
from timeball.operation.runs.run_now import run_now
from timeball.ports.store.queries import RunFilter


def renamed(spec: JobSpec) -> JobSpec:
    return structs.replace(spec, name="renamed")


@pytest.mark.parametrize("schedule", [Immediate(), Date(expression=render(START - HOUR))], ids=["immediate", "date"])
async def test_renaming_a_finished_one_shot_does_not_run_it_again(world: World, schedule: Any) -> None:
    job = await world.create(schedule)
    await world.work_off()
    world.time += MINUTE
    await update(world.context, "default", job, renamed)
    await world.work_off()
    assert await world.ledger(job) == {"on_time" if isinstance(schedule, Immediate) else "late": 1}


async def test_the_same_date_written_otherwise_is_the_same_fire(world: World) -> None:
    job = await world.create(Date(expression="2027-01-15T08:00:00Z"))
    await world.work_off()
    same = Date(expression="2027-01-15T09:00:00+01:00")
    await update(world.context, "default", job, lambda spec: structs.replace(spec, schedule=same))
    await world.work_off()
    assert sum((await world.ledger(job)).values()) == 1


async def test_renaming_keeps_the_grid_of_an_interval(world: World) -> None:
    job = await world.create(Interval(expression="24h"))
    world.time += HOUR
    found = await update(world.context, "default", job, renamed)
    assert found.job.next_fire_at == START + DAY


async def test_a_new_name_moves_only_fires_that_are_spread_by_it(world: World) -> None:
    plain = await world.create(CronSchedule(expression="30 4 * * THU"), name="a")
    spread = await world.create(CronSchedule(expression="H H * * *"), name="a")
    before = [item.job.next_fire_at for item in (await world.store.jobs([plain, spread])).values()]
    after = [(await update(world.context, "default", job, renamed)).job.next_fire_at for job in (plain, spread)]
    assert after[0] == before[0]
    assert after[1] != before[1]


async def test_a_schedule_edit_that_crosses_an_instant_fires_it_once(world: World) -> None:
    """The clock passes the instant between the decision and the commit."""
    job = await world.create(CronSchedule(expression="* * * * * *"), overlap="allow")
    await world.plan()
    world.time = START + SECOND - 100
    commit = world.store.amend

    async def late(amendments: Any) -> Any:
        world.time += 200
        return await commit(amendments)

    world.store.amend = late  # type: ignore[method-assign]
    changed = CronSchedule(expression="* * * * * *", dst_gap="skip")
    await update(world.context, "default", job, lambda spec: structs.replace(spec, schedule=changed))
    world.time = START + 3 * SECOND
    await world.work_off()
    assert await world.fired(job) == [START + n * SECOND for n in (1, 2, 3)]


async def test_instants_that_a_paused_job_forgoes_are_accounted_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amend, "INSTANTS_PER_SLICE", 100)
    job = await world.create(Interval(expression="1m"))
    await pause(world.context, "default", job)
    world.time += 5 * HOUR
    changed = Interval(expression="1h")
    await update(world.context, "default", job, lambda spec: structs.replace(spec, schedule=changed))
    await resume(world.context, "default", job)
    await world.work_off()
    assert await world.ledger(job) == {"missed": 300}


async def test_deleting_a_paused_job_closes_what_fell_due(world: World) -> None:
    job = await world.create(Interval(expression="1m"))
    await pause(world.context, "default", job)
    world.time += HOUR
    await cancel_job(world.context, "default", job)
    assert await world.ledger(job) == {"missed": 60}


async def test_an_instant_that_was_cancelled_does_not_come_back_with_a_new_schedule(world: World) -> None:
    job = await world.create(CronSchedule(expression="* * * * *"))
    world.time += 50 * SECOND
    await world.plan()
    [pending] = (await world.store.list_runs(RunFilter(tenant="default", job_id=job), None, 10)).items
    await cancel_run(world.context, "default", pending.id)
    changed = CronSchedule(expression="* * * * *", dst_gap="skip")
    await update(world.context, "default", job, lambda spec: structs.replace(spec, schedule=changed))
    world.time = pending.fire_time + MINUTE
    await world.work_off()
    assert await world.fired(job) == [pending.fire_time + MINUTE]
    assert await world.ledger(job) == {"cancelled": 1, "on_time": 1}


@pytest.mark.parametrize("rest", [0, 30 * SECOND], ids=["active", "paused"])
async def test_a_cancelled_instant_stays_so_in_the_middle_of_a_new_schedule(world: World, rest: Micros) -> None:
    job = await world.create(Interval(expression="10s"), catch_up_window="1h")
    [pending] = await world.runs(job)
    await cancel_run(world.context, "default", pending.id)
    await world.edit(job, schedule=CronSchedule(expression="*/2 * * * * *"))
    if rest:
        world.time += 3 * SECOND
        await pause(world.context, "default", job)
        world.time += rest
        await resume(world.context, "default", job)
    await world.live(12 * SECOND)
    instants = range(START + 2 * SECOND, world.time + 1, 2 * SECOND)
    assert await world.fired(job) == [at for at in instants if at != pending.fire_time]
    ledger = await world.ledger(job)
    assert ledger.pop("cancelled") == 1
    assert sum(ledger.values()) == len(instants) - 1
    assert (await world.job(job)).fired == len(await world.runs(job))


async def test_instants_that_a_pause_forgoes_do_not_count_what_was_cancelled(world: World) -> None:
    job = await world.create(Interval(expression="10s"))
    [pending] = await world.runs(job)
    await cancel_run(world.context, "default", pending.id)
    await world.edit(job, schedule=Interval(expression="5s"))
    await pause(world.context, "default", job)
    world.time += 21 * SECOND
    await world.edit(job, schedule=Interval(expression="1h"))
    assert await world.ledger(job) == {"cancelled": 1, "missed": 3}


async def test_a_run_that_was_asked_for_survives_an_edit(world: World) -> None:
    """Also when this server's clock was ahead of the store's when it was asked for."""
    job = await world.create(Interval(expression="24h"))
    found = (await world.store.jobs([job]))[job].job
    later = world.time + SECOND
    asked = new_run(found, ids.run(later, world.context.rng), Origin.MANUAL, later, later)
    await world.store.trigger([asked])
    await update(world.context, "default", job, renamed)
    assert asked.id in await world.store.runs([asked.id])
    assert (await world.store.jobs([job]))[job].job.next_fire_at == START + DAY


async def test_what_is_asked_for_now_runs_the_newest_version(world: World) -> None:
    job = await world.create(Interval(expression="24h"))
    await update(world.context, "default", job, renamed)
    run_id, _ = await run_now(world.context, "default", job)
    assert (await world.store.runs([run_id]))[run_id].version == 2


async def test_a_run_that_was_let_to_wait_still_runs_when_overlap_becomes_skip(world: World) -> None:
    job = await world.create(Interval(expression="10s"))
    world.time += 25 * SECOND
    await world.plan()
    skip = Overlap.SKIP
    await update(world.context, "default", job, lambda spec: structs.replace(spec, overlap=skip))
    await world.plan()
    await world.work_off()
    assert await world.fired(job) == [START + 10 * SECOND, START + 20 * SECOND]
