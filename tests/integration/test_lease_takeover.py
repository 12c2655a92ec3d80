"""A run that replaces another one wakes the loop that sends cancel orders: the order does not wait for a tick (I10)."""

import asyncio

import pytest

from tests.support.still import World
from timeball.domain.instant import HOUR, SECOND
from timeball.domain.schedule.schedule import Interval
from timeball.operation.runs.run_now import run_now
from timeball.ports.wakeups import Topic

EVERY_SECOND = Interval(expression="1s")


async def hinted(world: World, job_id: str, *, by: str) -> bool:
    """Whether somebody who waits for cancel orders is woken when a run of the job is planned or asked for."""
    waiting = asyncio.create_task(world.wakeups.wait(Topic.CANCEL, HOUR))
    await asyncio.sleep(0)
    if by == "plan":
        world.time += 2 * SECOND
        await world.plan()
    else:
        await run_now(world.context, "default", job_id)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    woken = waiting.done()
    waiting.cancel()
    return woken


@pytest.mark.parametrize("by", ["plan", "run_now"])
@pytest.mark.parametrize(
    ("policy", "is_hinted"), [("cancel_previous", True), ("terminate_previous", True), ("queue", False)]
)
async def test_whoever_carries_cancel_orders_is_woken(world: World, by: str, policy: str, is_hinted: bool) -> None:
    job_id = await world.create(EVERY_SECOND, overlap=policy)
    assert await hinted(world, job_id, by=by) is is_hinted
