"""I20, I2: after any downtime each catch-up rule runs exactly what it promises, in bounded steps, and no schedule
stops.

The clock is virtual, the store is real. What is expected is counted out second by second, without the code under test.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.still import START, World
from tests.support.thorough import THOROUGH
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND, Micros
from timeball.domain.planning.planning import MAX_INSTANTS, MAX_RUNS, JobPlan
from timeball.domain.run.ledger import Verdict
from timeball.domain.run.status import Status
from timeball.domain.schedule.schedule import CronSchedule, Interval
from timeball.operation.jobs.pause import pause, resume

RULES = ("all", "last", "none")
STEPS = {"* * * * *": MINUTE, "* * * * * *": SECOND}
WINDOW = HOUR
TOLERANCE = 2 * SECOND
HORIZON = 15 * SECOND


def expected(instants: Sequence[Micros], rule: str, now: Micros) -> list[Micros]:
    """The instants of an absence that run when it ends at `now`."""
    late = [at for at in instants if at < now - TOLERANCE]
    on_time = [at for at in instants if at >= now - TOLERANCE]
    caught_up = {"all": [at for at in late if at >= now - WINDOW], "last": late[-1:], "none": []}[rule]
    if rule == "all" and not caught_up:
        caught_up = late[-1:]
    return caught_up + on_time


class Bounds:
    """Watches what every transaction of the planner holds."""

    def __init__(self, world: World) -> None:
        self.calls = 0
        self._commit = world.store.commit_plans
        world.store.commit_plans = self  # type: ignore[method-assign, assignment]

    async def __call__(self, plans: Sequence[JobPlan], run_ids: Any) -> list[str]:
        self.calls += 1
        assert sum(plan.runs for plan in plans) <= MAX_RUNS
        assert sum(plan.instants for plan in plans) <= MAX_INSTANTS
        return await self._commit(plans, run_ids)


@pytest.mark.parametrize(
    "absence", [3 * HOUR, 30 * DAY] if THOROUGH else [3 * HOUR], ids=lambda each: f"{each // HOUR} h"
)
async def test_a_server_comes_back_after_a_long_time(world: World, absence: Micros) -> None:
    """With a job of each minute and one of each second under each rule. A fire that was a run already when the server
    went away, seconds ahead, is late and not missed."""
    jobs = {
        (expression, rule): await world.create(CronSchedule(expression=expression), catch_up=rule, overlap="allow")
        for expression in STEPS
        for rule in RULES
    }
    await world.live(MINUTE + 500_000, 500_000)
    gone_at, back_at = world.time, START + MINUTE + absence + 500_000
    bounds = Bounds(world)
    world.time = back_at
    await world.work_off()
    turns = bounds.calls
    await world.live(MINUTE, 500_000)
    assert turns > (absence // SECOND * 3) // MAX_INSTANTS, "many small steps, not one big one"
    for (expression, rule), job in jobs.items():
        step = STEPS[expression]
        before = list(range(START + step, gone_at + 1, step))
        planned = [at for at in (before[-1] + step,) if at <= gone_at + HORIZON]
        meanwhile = list(range([*before, *planned][-1] + step, back_at + 1, step))
        caught_up = expected(meanwhile, rule, back_at)
        after = list(range(back_at // step * step + step, world.time + 1, step))
        assert await world.fired(job) == before + planned + caught_up + after, (expression, rule)
        late = [at for at in caught_up if at < back_at - TOLERANCE]
        verdicts = {
            Verdict.ON_TIME: len(before) + len(caught_up) - len(late) + len(after),
            Verdict.LATE: len(planned),
            Verdict.CAUGHT_UP: len(late),
            Verdict.MISSED: len(meanwhile) - len(caught_up),
        }
        assert await world.ledger(job) == {str(verdict): count for verdict, count in verdicts.items() if count}
        found = await world.job(job)
        assert found.next_fire_at is not None
        assert found.next_fire_at > world.time, "the schedule goes on"
        ahead = sum(run.status is Status.SCHEDULED for run in await world.runs(job))
        assert ahead == (step == SECOND), "what comes within seconds is a run already"
        assert found.fired == len(before + planned + caught_up + after) + ahead


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("window", ["30s", "1h", "30d"])
async def test_outage_pause_and_reenabling_come_to_the_same(world: World, rule: str, window: str) -> None:
    absent, paused, edited = [
        await world.create(Interval(expression="10m"), catch_up=rule, catch_up_window=window) for _ in range(3)
    ]
    await pause(world.context, "default", paused)
    await pause(world.context, "default", edited, until=START + 12 * HOUR)
    world.time += 5 * HOUR
    await world.edit(edited, name="renamed")
    world.time += 5 * HOUR + 30 * SECOND
    for job in (paused, edited):
        await resume(world.context, "default", job)
    await world.work_off()
    fired = await world.fired(absent)
    assert len(fired) == {"all": {"30s": 1, "1h": 6, "30d": 60}[window], "last": 1, "none": 0}[rule]
    for job in (paused, edited):
        assert await world.fired(job) == fired
        assert await world.ledger(job) == await world.ledger(absent)


async def test_a_long_absence_of_one_job_does_not_hold_up_the_others(world: World) -> None:
    """Whoever has much to work off goes to the end of the queue after each step."""
    slow = await world.create(Interval(expression="1s"), catch_up="none")
    world.time += 30 * DAY
    quick = await world.create(Interval(expression="20s"))
    world.time += 6 * SECOND
    for _ in range(3):
        await world.planner.turn()
    assert [run.fire_time for run in await world.runs(quick)] == [world.time + 14 * SECOND]
    behind = (await world.job(slow)).next_fire_at
    assert behind is not None
    assert behind < world.time - DAY
