"""Decides which faults occur, and when. Each seed has its own mixture of faults and its own rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.weather import S

if TYPE_CHECKING:
    from tests.simulation.world import World

KINDS = (
    "kill server",
    "kill worker",
    "pause server",
    "pause worker",
    "cut worker off",
    "cut store off",
    "clock jump",
    "drain worker",
    "stop worker",
    "stop server",
    "outage",
)


class Chaos:
    def __init__(self, world: World, severity: float) -> None:
        self._world = world
        rng = world.rng
        self._pause = int((2 + 10 * rng.random()) * S / max(severity, 0.1))
        self._kinds = [kind for kind in KINDS if rng.random() < 0.5] or list(KINDS[:2])
        if world.theme == "zombies":
            self._kinds = ["kill worker", "pause worker", "cut worker off", "cut worker off", "kill server"]
            self._pause = 6 * S
        elif world.theme == "deploys":
            self._kinds = ["drain worker", "drain worker", "stop worker", "stop worker", "kill worker", "stop server"]
            self._pause = 4 * S
        self._outages = 0

    async def rage(self) -> None:
        """Cause faults until the calm phase begins."""
        world, rng = self._world, self._world.rng
        while True:
            await world.sleep(int(rng.expovariate(1 / self._pause)))
            await world.sleep(max(0, world.dark_until - world.now))
            if world.now >= world.calm_at:
                return
            self._strike(rng.choice(self._kinds))

    def _length(self) -> int:
        """Return how long a fault lasts: mostly short, sometimes far longer than a lease."""
        rng = self._world.rng
        if self._world.theme == "zombies":
            return rng.randrange(12, 45) * S
        return int(rng.choice((0.2, 2, 8, 20, 40)) * (0.2 + rng.random()) * S)

    def _strike(self, kind: str) -> None:
        world, rng = self._world, self._world.rng
        server, worker = rng.choice(world.servers), rng.choice(world.workers)
        length = self._length()
        world.trace("fault", kind, server.name, worker.name, length)
        match kind:
            case "kill server":
                server.kill(length)
            case "kill worker":
                worker.kill(length)
            case "pause server" if server.node is not None:
                world.pause(server.node, length, kind)
            case "pause worker" if worker.node is not None:
                world.pause(worker.node, length, kind)
            case "cut worker off":
                target = rng.choice((rng.choice(world.servers), None))
                there, back = rng.choice(((True, True), (True, False), (False, True)))
                for house in world.servers if target is None else [target]:
                    world.network.cut(worker.name, house.name, world.loop.now + length, there, back)
                world.damage.spell(kind, world.now, world.now + length)
            case "cut store off" if server.connection is not None:
                server.connection.cut_until = world.loop.now + length
                world.damage.spell(kind, world.now, world.now + length)
            case "clock jump":
                server.skew = rng.randrange(-3600 * S, 3600 * S)
                worker.skew = rng.randrange(-3600 * S, 3600 * S)
                world.damage.count(kind)
            case "drain worker":
                worker.leave(length, patience=rng.randrange(8 * S))
            case "stop worker":
                worker.leave(length, patience=None)
            case "stop server":
                server.stop(length)
            case "outage" if self._outages < 2:
                self._outages += 1
                world.outage(int(rng.choice((20, 90, 600, 7200)) * (0.2 + rng.random()) * S))
            case _:
                pass
