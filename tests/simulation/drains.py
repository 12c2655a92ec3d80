"""Workers that an operator orders to drain, in worlds of their own: the theme `drains`.

A worker that has drained leaves, and its house starts another one a little later.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.records import Violation
from tests.simulation.weather import S
from timeball.domain.errors import NotFound, Unavailable
from timeball.operation.workers.drain_worker import drain_worker
from timeball.server.server import Server

if TYPE_CHECKING:
    from tests.simulation.checker import Checker
    from tests.simulation.world import World

THEME: Final = "drains"
AWAY: Final = 2 * S
MAX_DRAIN_TIME: Final = 60 * S
"""No job here lasts longer, retries apart."""
CONNECTED: Final = "SELECT session FROM workers WHERE lapsed = 0 ORDER BY session"
STILL_HERE: Final = "SELECT session FROM workers WHERE draining_since IS NOT NULL AND lapsed = 0 AND lease_until > ?"


async def order(world: World) -> None:
    """Order some worker to drain, again and again until calm is due."""
    rng = Random(f"drains {world.seed}")
    while True:
        await world.sleep(rng.randrange(1, 12) * S)
        if world.now >= world.calm_at:
            return
        sessions = [session for (session,) in world.rows(CONNECTED)]
        if sessions:
            await _ask(world, rng.choice(sessions))


async def _ask(world: World, session: str) -> None:
    async def handler(server: Server) -> None:
        await drain_worker(server.context, session)

    world.damage.spell("order to drain", world.now, world.now + MAX_DRAIN_TIME)
    try:
        await world.network.call("client", world.rng.choice(world.servers), handler, 12 * S)
        outcome = "ok"
    except NotFound:
        outcome = "not there"
    except Unavailable:
        outcome = "unknown"
    world.trace("drain", session, outcome)


class DrainOrders:
    """The sessions whose workers were ordered to drain."""

    def __init__(self) -> None:
        self._sessions: set[str] = set()

    def ordered(self, args: tuple[Any, ...], done: bool) -> None:
        if done:
            self._sessions.add(args[0])

    def registered(self, session: str, draining: bool) -> None:
        """A worker that lost its session before the order reached it: the order holds for the new one."""
        if draining:
            self._sessions.add(session)

    def claimed(self, session: str, run_id: str) -> None:
        if session in self._sessions:
            raise Violation("drain", f"session {session} was ordered to drain, and got run {run_id}")


def left(checker: Checker) -> None:
    """A worker that was ordered to drain leaves once its runs have ended."""
    world = checker.world
    if world.theme == THEME and world.bounded and (still := world.rows(STILL_HERE, world.now)):
        raise Violation("drain", f"everything has ended, and these workers have not left: {still}")


PROMISES = (left,)
