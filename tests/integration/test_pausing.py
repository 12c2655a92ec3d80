"""A pause with an end: nothing fires in it, it ends at the given moment, and then the catch-up rule applies (I11,
I20)."""

import pytest

from tests.support.still import START, World
from timeball.domain.errors import Invalid
from timeball.domain.instant import HOUR, MINUTE, SECOND, Micros
from timeball.domain.job.job import JobState
from timeball.domain.schedule.schedule import CronSchedule, Interval
from timeball.operation.jobs.pause import end_pauses, pause, resume
from timeball.ports.wakeups import Topic
from timeball.server.loop import TICK
from timeball.server.loops.pause_resumer import BATCH, PauseResumer

MINUTELY = CronSchedule(expression="* * * * *")


@pytest.fixture
def waker(world: World) -> PauseResumer:
    return PauseResumer(world.context, world.wakeups)


def at(*minutes: int) -> list[Micros]:
    return [START + minute * MINUTE for minute in minutes]


async def test_a_pause_ends_at_its_moment_and_not_before(world: World, waker: PauseResumer) -> None:
    job = await world.create(MINUTELY, catch_up="none")
    assert await waker.turn() == TICK, "nothing is paused"
    await pause(world.context, "default", job, reason="lunch", until=START + HOUR)
    assert await waker.turn() == HOUR
    world.time = START + HOUR - 1
    assert await waker.turn() == 1
    assert await world.status(job) == "paused"
    world.time += 1
    assert await waker.turn() == 0
    found = await world.job(job)
    assert (found.state, found.pause_reason, found.paused_until) == (JobState.ACTIVE, "", None)
    await world.live(MINUTE)
    assert await world.fired(job) == at(60, 61), "the fire at the very end of the pause is not missed"
    assert await world.ledger(job) == {"missed": 59, "on_time": 2}


@pytest.mark.parametrize(
    ("rule", "fired", "missed"), [("all", range(121, 181), 120), ("last", [180], 179), ("none", [], 180)]
)
async def test_after_a_pause_the_catch_up_rule_is_that_of_an_outage(
    world: World, waker: PauseResumer, rule: str, fired: list[int], missed: int
) -> None:
    """The same hours, paused and switched off, come to the same runs."""
    paused = await world.create(MINUTELY, catch_up=rule)
    neglected = await world.create(MINUTELY, catch_up=rule)
    await pause(world.context, "default", paused, until=START + 3 * HOUR + 30 * SECOND)
    world.time = START + 3 * HOUR + 30 * SECOND
    await waker.turn()
    await world.work_off()
    for job in (paused, neglected):
        assert await world.fired(job) == at(*fired)
        assert (await world.ledger(job))["missed"] == missed


async def test_the_moment_must_be_ahead(world: World) -> None:
    job = await world.create(MINUTELY)
    for until in (START, START - HOUR):
        with pytest.raises(Invalid, match="has passed") as refused:
            await pause(world.context, "default", job, until=until)
        assert [problem.pointer for problem in refused.value.problems] == ["/until"]
    assert await world.status(job) == "scheduled"


async def test_pausing_again_moves_the_end_and_saying_the_same_changes_nothing(
    world: World, waker: PauseResumer
) -> None:
    job = await world.create(MINUTELY)
    first = await pause(world.context, "default", job, reason="a", until=START + HOUR)
    again = await pause(world.context, "default", job, reason="a", until=START + HOUR)
    assert again.job == first.job
    longer = await pause(world.context, "default", job, reason="b")
    assert (longer.job.pause_reason, longer.job.paused_until, longer.job.version) == ("b", None, 3)
    world.time += 2 * HOUR
    assert await waker.turn() == TICK
    assert await world.status(job) == "paused"


async def test_an_edit_leaves_the_pause_and_its_end(world: World, waker: PauseResumer) -> None:
    job = await world.create(MINUTELY)
    await pause(world.context, "default", job, reason="lunch", until=START + HOUR)
    for fields in ({"name": "renamed"}, {"schedule": Interval(expression="5m")}):
        found = await world.edit(job, **fields)
        assert (found.state, found.pause_reason, found.paused_until) == (JobState.PAUSED, "lunch", START + HOUR)
    world.time += HOUR
    assert await waker.turn() == 0
    assert await world.status(job) == "scheduled"


async def test_a_change_that_comes_first_wins(world: World) -> None:
    job = await world.create(MINUTELY)
    await pause(world.context, "default", job, until=START + HOUR)
    world.time += HOUR
    over = await world.store.pauses_over(10)
    await pause(world.context, "default", job, reason="longer", until=START + 2 * HOUR)
    await end_pauses(world.context, over)
    assert await world.status(job) == "paused"
    world.time += HOUR
    over = await world.store.pauses_over(10)
    await resume(world.context, "default", job)
    await end_pauses(world.context, over)
    assert (await world.job(job)).version == 4, "resumed once"


async def test_many_pauses_that_end_together_are_ended_in_batches(world: World, waker: PauseResumer) -> None:
    jobs = [await world.create(MINUTELY) for _ in range(BATCH + 5)]
    for job in jobs:
        await pause(world.context, "default", job, until=START + HOUR)
    world.time += HOUR
    turns = 0
    while await waker.turn() == 0:
        turns += 1
    assert turns == 2
    assert {await world.status(job) for job in jobs} == {"scheduled"}


async def test_the_waker_hears_of_a_pause_that_ends_sooner(world: World, waker: PauseResumer) -> None:
    job = await world.create(MINUTELY)
    assert Topic.PAUSE in waker.topics
    given: list[Topic] = []
    world.wakeups.wake = given.append  # type: ignore[method-assign]
    await pause(world.context, "default", job)
    assert Topic.PAUSE not in given
    await pause(world.context, "default", job, until=START + SECOND)
    assert Topic.PAUSE in given
