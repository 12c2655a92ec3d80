"""A world whose store has a wall clock that steps ahead.

A step of at most an hour is accepted: true time moves with it, and so does every lease. A longer step is taken back
within a minute, so that the store never accepts it, and true time does not change. In both cases no lease may lapse and
no attempt may be repeated because of the step.

True time is the time of a store that is always in use. A store that no server uses would see several steps as one, and
would take a long step that is repeated for one that lasts. So it accepts short steps before a long one at the latest,
and reads its clock after each long one.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from random import Random
from typing import TYPE_CHECKING, Final
from unittest import mock

from tests.simulation.records import Micros, Violation
from tests.simulation.storage import at_once
from tests.simulation.weather import ClockStep, S

if TYPE_CHECKING:
    from tests.simulation.checker import Checker
    from tests.simulation.world import World

THEME: Final = "clocks"
SHORT: Final = (20 * S, 120 * S, 800 * S)
MAX_SHORT_STEPS: Final = 4
"""Less than an hour in total, because a store that no server writes to sees them as one step."""
LONG: Final = (2 * 3_600 * S, 12 * 365 * 86_400 * S)


async def swing(world: World) -> None:
    """Change the wall clock until the calm phase begins."""
    rng, believed = Random(world.seed), 0
    while True:
        await world.sleep(rng.randrange(1, 15) * S)
        if world.now >= world.calm_at:
            return
        if believed < MAX_SHORT_STEPS and rng.random() < 0.5:
            believed += 1
            step = rng.choice(SHORT)
            world.trace("clock step", step)
            world.damage.spell("clock step", world.now, world.now + step)
            world.damage.steps.append(ClockStep(world.now, step))
            world.stepped += step
            world.auditor.leases_moved(step)
            world.calm_at += step
            world.dark_until += step
            continue
        use(world)
        step, length = rng.choice(LONG), min(rng.randrange(1, 55) * S, world.calm_at - world.now)
        world.trace("clock is wrong", step, length)
        world.damage.spell("wrong clock", world.now, world.now + length)
        world.wrong_by = step
        await world.sleep(length)
        world.wrong_by = 0
        world.store.now()


def use(world: World) -> None:
    """Let the store accept the short steps, if no server did."""
    if not world.wrong_by and any(step.accepted is None for step in world.damage.steps):
        at_once(world.store.accept_clock())


def observed(world: World) -> AbstractContextManager[object]:
    """Record when the store accepts the steps."""
    clock = world.store._clock
    jump = clock.jump

    def accept(size: Micros) -> None:
        accepted = clock()
        for step in world.damage.steps:
            if step.accepted is None:
                step.accepted = accepted
        jump(size)

    return mock.patch.object(clock, "jump", accept)


def hidden(world: World, due: Micros, started: Micros) -> Micros:
    """Return by how much a run that started at a true time seems later than it was by the store's time: the steps that
    the store had not accepted at the due instant."""
    return sum(
        step.size
        for step in world.damage.steps
        if step.at < started and (step.accepted is None or due <= step.accepted)
    )


def _followed(checker: Checker) -> None:
    """I4: the store accepts every short step, so that its time does not stay behind the wall clock."""
    late = [step for step in checker.world.damage.steps if step.accepted is None]
    if checker.world.bounded and late:
        raise Violation("I4", f"the store's time is still behind the wall clock: {late}")


PROMISES: Final = (_followed,)
