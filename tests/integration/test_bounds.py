"""`startAt`, `endAt` and `maxRuns`: a schedule fires within its bounds, and counts every fire once (I2, I5, I20)."""

from typing import Any

import pytest

from tests.support.still import START, World
from timeball.domain.errors import InvalidSchedule
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND, Micros, render
from timeball.domain.run.status import Status
from timeball.domain.schedule.schedule import CronSchedule, Date, Interval
from timeball.operation.jobs.pause import pause, resume
from timeball.operation.runs.cancel import cancel_run

MINUTELY = CronSchedule(expression="* * * * *")


def at(*minutes: int) -> list[Micros]:
    return [START + minute * MINUTE for minute in minutes]


async def test_cron_fires_from_start_at_to_end_at_both_included(world: World) -> None:
    job = await world.create(MINUTELY, start_at=render(START + 3 * MINUTE), end_at=render(START + 5 * MINUTE))
    await world.live(10 * MINUTE)
    assert await world.fired(job) == at(3, 4, 5)
    assert await world.ledger(job) == {"on_time": 3}
    assert await world.status(job) == "completed"


async def test_a_moment_between_two_fires_is_no_fire(world: World) -> None:
    start, end = render(START + 2 * MINUTE + 1), render(START + 5 * MINUTE - 1)
    job = await world.create(MINUTELY, start_at=start, end_at=end)
    await world.live(10 * MINUTE)
    assert await world.fired(job) == at(3, 4)


async def test_the_grid_of_an_interval_starts_at_start_at(world: World) -> None:
    ahead = await world.create(Interval(expression="2m"), start_at=render(START + 3 * MINUTE))
    behind = await world.create(Interval(expression="2m"), start_at=render(START - DAY + 30 * SECOND))
    await world.live(9 * MINUTE)
    assert await world.fired(ahead) == at(5, 7, 9)
    assert await world.fired(behind) == [START + 30 * SECOND + 2 * n * MINUTE for n in range(5)]


@pytest.mark.parametrize("overlap", ["allow", "queue", "skip"])
@pytest.mark.parametrize("schedule", [MINUTELY, Interval(expression="1m"), CronSchedule(expression="* * * * * *")])
async def test_a_schedule_ends_after_max_runs(world: World, schedule: Any, overlap: str) -> None:
    job = await world.create(schedule, max_runs=3, overlap=overlap)
    await world.live(6 * MINUTE, 500_000)
    step = SECOND if schedule == CronSchedule(expression="* * * * * *") else MINUTE
    assert await world.fired(job) == [START + n * step for n in (1, 2, 3)]
    assert await world.status(job) == "completed"
    found = await world.job(job)
    assert (found.fired, found.next_fire_at) == (3, None)


async def test_one_run_at_most_is_all_that_max_runs_one_allows(world: World) -> None:
    job = await world.create(Interval(expression="5s"), max_runs=1)
    assert (await world.job(job)).fired == 1, "the first fire is a run already"
    await world.live(MINUTE)
    assert await world.fired(job) == [START + 5 * SECOND]


async def test_missed_fires_do_not_count(world: World) -> None:
    job = await world.create(MINUTELY, max_runs=3, catch_up="last")
    world.time += HOUR + 10 * SECOND
    await world.live(5 * MINUTE)
    assert await world.fired(job) == at(60, 61, 62)
    assert await world.ledger(job) == {"missed": 59, "caught_up": 1, "on_time": 2}


async def test_what_is_caught_up_counts_oldest_first(world: World) -> None:
    job = await world.create(MINUTELY, max_runs=3, overlap="allow")
    world.time += 10 * MINUTE + 10 * SECOND
    await world.work_off()
    assert await world.fired(job) == at(1, 2, 3)
    assert await world.ledger(job) == {"caught_up": 3}
    assert await world.status(job) == "completed"


async def test_an_edit_gives_the_run_that_it_drops_back(world: World) -> None:
    job = await world.create(CronSchedule(expression="* * * * * *"), max_runs=5)
    for turn in range(4):
        await world.live(900_000, 300_000)
        await world.edit(job, name=f"renamed {turn}")
    await world.live(10 * SECOND, 500_000)
    assert await world.fired(job) == [START + n * SECOND for n in range(1, 6)]
    assert (await world.job(job)).fired == 5


async def test_a_fire_that_a_user_cancelled_counts(world: World) -> None:
    job = await world.create(CronSchedule(expression="* * * * * *"), max_runs=2)
    [pending] = await world.runs(job)
    await cancel_run(world.context, "default", pending.id)
    await world.live(5 * SECOND)
    assert await world.fired(job) == [START + 2 * SECOND]
    assert await world.ledger(job) == {"cancelled": 1, "on_time": 1}


async def test_more_max_runs_let_a_finished_schedule_go_on_from_now(world: World) -> None:
    job = await world.create(MINUTELY, max_runs=2)
    await world.live(5 * MINUTE)
    found = await world.edit(job, max_runs=4)
    assert found.next_fire_at == START + 6 * MINUTE
    await world.live(5 * MINUTE)
    assert await world.fired(job) == at(1, 2, 6, 7)
    await world.edit(job, max_runs=None)
    await world.live(2 * MINUTE)
    assert await world.fired(job) == at(1, 2, 6, 7, 11, 12)


async def test_more_max_runs_while_the_last_run_is_still_ahead(world: World) -> None:
    job = await world.create(MINUTELY, max_runs=1)
    await world.live(50 * SECOND, 10 * SECOND)
    assert (await world.job(job)).next_fire_at is None
    await world.edit(job, max_runs=2)
    await world.live(3 * MINUTE)
    assert await world.fired(job) == at(1, 2)


async def test_fewer_max_runs_end_the_schedule(world: World) -> None:
    job = await world.create(MINUTELY, max_runs=9)
    await world.live(3 * MINUTE)
    assert (await world.edit(job, max_runs=2)).next_fire_at is None
    await world.live(3 * MINUTE)
    assert await world.fired(job) == at(1, 2, 3)
    assert await world.status(job) == "completed"


async def test_fewer_max_runs_leave_the_run_that_is_the_last_now(world: World) -> None:
    job = await world.create(MINUTELY, max_runs=9)
    await world.live(2 * MINUTE + 50 * SECOND, 10 * SECOND)
    assert (await world.job(job)).fired == 3
    await world.edit(job, max_runs=3)
    await world.live(3 * MINUTE)
    assert await world.fired(job) == at(1, 2, 3)


async def test_max_runs_set_later_counts_all_fires_of_the_job(world: World) -> None:
    job = await world.create(MINUTELY)
    await world.live(3 * MINUTE)
    await world.edit(job, max_runs=5)
    await world.live(5 * MINUTE)
    assert await world.fired(job) == at(1, 2, 3, 4, 5)


async def test_what_fell_due_in_a_pause_is_accounted_for_when_the_schedule_ends_in_it(world: World) -> None:
    job = await world.create(MINUTELY, max_runs=9)
    await world.live(2 * MINUTE)
    await pause(world.context, "default", job)
    world.time += 10 * MINUTE
    await world.edit(job, max_runs=2)
    await resume(world.context, "default", job)
    await world.live(3 * MINUTE)
    assert await world.ledger(job) == {"on_time": 2, "missed": 10}
    assert await world.status(job) == "completed"


async def test_a_later_end_lets_a_finished_schedule_go_on_from_now(world: World) -> None:
    job = await world.create(Interval(expression="1m"), end_at=render(START + 2 * MINUTE))
    await world.live(5 * MINUTE + SECOND)
    assert await world.status(job) == "completed"
    await world.edit(job, end_at=render(START + 7 * MINUTE))
    await world.live(5 * MINUTE)
    assert await world.fired(job) == at(1, 2, 6, 7), "on the same grid, and nothing of the past"


async def test_an_earlier_end_drops_what_would_come_after_it(world: World) -> None:
    job = await world.create(MINUTELY)
    await world.live(110 * SECOND, 10 * SECOND)
    found = await world.edit(job, end_at=render(START + 115 * SECOND))
    assert found.next_fire_at is None
    await world.live(5 * MINUTE)
    assert await world.fired(job) == at(1)
    assert await world.status(job) == "completed"


async def test_a_new_start_moves_the_schedule_and_loses_nothing(world: World) -> None:
    job = await world.create(MINUTELY)
    await world.live(2 * MINUTE + 30 * SECOND)
    assert (await world.edit(job, start_at=render(START + 5 * MINUTE))).next_fire_at == START + 5 * MINUTE
    await world.live(3 * MINUTE)
    await world.edit(job, start_at=None)
    await world.live(MINUTE)
    assert await world.fired(job) == at(1, 2, 5, 6)
    assert await world.ledger(job) == {"on_time": 4}


async def test_a_start_that_has_passed_may_be_taken_back_without_moving_the_grid(world: World) -> None:
    job = await world.create(Interval(expression="2m"), start_at=render(START - MINUTE))
    await world.live(90 * SECOND)
    assert (await world.edit(job, start_at=None)).next_fire_at == START + 3 * MINUTE


async def test_the_same_bounds_written_otherwise_change_nothing(world: World) -> None:
    start = "2027-01-15T08:10:00Z"
    job = await world.create(Interval(expression="1m"), start_at=start)
    world.time += 5 * MINUTE
    same = await world.edit(job, start_at="2027-01-15T09:10:00+01:00")
    assert same.next_fire_at == START + 11 * MINUTE


@pytest.mark.parametrize(
    ("schedule", "fields", "pointer"),
    [
        (MINUTELY, {"end_at": render(START + 59 * SECOND)}, "/endAt"),
        (MINUTELY, {"end_at": render(START - DAY)}, "/endAt"),
        (Interval(expression="1h"), {"start_at": render(START + DAY), "end_at": render(START + DAY)}, "/endAt"),
        (Interval(expression="1h"), {"start_at": "9999-12-30T23:30:00Z"}, "/startAt"),
        (Date(expression=render(START - HOUR)), {"start_deadline": "59m"}, "/startDeadline"),
    ],
)
async def test_a_schedule_that_never_fires_is_refused(
    world: World, schedule: Any, fields: dict[str, Any], pointer: str
) -> None:
    error = await world.submit(schedule, **fields)
    assert isinstance(error, InvalidSchedule)
    assert [problem.pointer for problem in error.problems] == [pointer]
    assert error.detail.startswith("this schedule never fires")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"schedule": Date(expression=render(START)), "start_at": render(START)}, "startAt: "),
        ({"schedule": Date(expression=render(START)), "max_runs": 1}, "maxRuns: "),
        ({"schedule": MINUTELY, "end_at": "tomorrow"}, "endAt: 'tomorrow' is not a time"),
        ({"schedule": MINUTELY, "start_at": render(START), "end_at": render(START - 1)}, "endAt: "),
        ({"schedule": MINUTELY, "jitter": "2d"}, "jitter: '2d' is too long"),
    ],
)
async def test_bounds_that_mean_nothing_are_refused_by_name(
    world: World, fields: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        await world.submit(**fields)


async def test_a_cancelled_fire_beyond_a_new_end_does_not_come_back(world: World) -> None:
    job = await world.create(CronSchedule(expression="* * * * * *"))
    [pending] = await world.runs(job)
    await cancel_run(world.context, "default", pending.id)
    found = await world.edit(job, end_at=render(START + SECOND))
    assert found.next_fire_at is None
    assert [run.status for run in await world.runs(job)] == [Status.CANCELLED]
