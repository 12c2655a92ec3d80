"""Calls from clients and workers to servers: delayed, lost on the way there or back, cut, or refused."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tests.simulation.loop import Micros
from tests.simulation.node import Node
from tests.simulation.records import Request, Violation
from tests.simulation.storage import _answer, _fail
from tests.simulation.weather import S
from timeball.domain.errors import TimeballError, Unavailable
from timeball.ports.worker_protocol import (
    Beat,
    Poll,
    PollResponse,
    RegisterWorker,
    Report,
    ReportAck,
    SessionLost,
    WorkerRegistered,
)
from timeball.server.server import Server

if TYPE_CHECKING:
    from tests.simulation.world import ServerHouse, World

T = TypeVar("T")
Handler = Callable[[Server], Coroutine[Any, Any, Any]]
STORE_REACH: Micros = 7 * S
"""Maximum time after the death of a server until its last requests to the store take effect."""


class Network:
    def __init__(self, world: World) -> None:
        self._world = world
        self._cuts: dict[tuple[str, str], tuple[Micros, bool, bool]] = {}

    def cut(self, source: str, target: str, until: Micros, there: bool, back: bool) -> None:
        """Lose all messages from `source` to `target`: the requests, the answers, or both."""
        self._cuts[source, target] = (until, there, back)

    def heal(self) -> None:
        self._cuts.clear()

    async def call(
        self,
        source: str,
        house: ServerHouse,
        handler: Callable[[Server], Coroutine[Any, Any, T]],
        patience: Micros,
        request: Request | None = None,
    ) -> T:
        """Return the answer of the handler, or raise the error of the connection."""
        world = self._world
        answer: asyncio.Future[T] = world.loop.create_future()
        alarm = world.loop.call_later(patience / 1e6, _fail, answer, Unavailable("no answer"))
        if self._lost(source, house.name, True):
            if request is not None:
                request.over = world.now
        else:
            world.after(self._delay(), self.deliver, source, house, handler, answer, request)
        try:
            return await answer
        finally:
            alarm.cancel()

    def repeat(self, source: str, house: ServerHouse, handler: Handler) -> None:
        """Send a message of a worker once more, later and possibly to another server, as a faulty proxy would."""
        world = self._world
        share = world.weather.repeated_request
        if share and world.rng.random() < share:
            world.damage.count("repeated request")
            target = world.rng.choice((house, world.rng.choice(world.servers)))
            later = int(world.rng.random() ** 2 * 20 * S)
            world.after(later, self.deliver, source, target, handler, world.loop.create_future(), None)

    def deliver(
        self,
        source: str,
        house: ServerHouse,
        handler: Handler,
        answer: asyncio.Future[Any],
        request: Request | None,
    ) -> None:
        world = self._world
        node, server = house.node, house.server
        if node is None or server is None or not node.alive:
            if request is not None:
                request.over = world.now
            world.after(self._delay(), _fail, answer, Unavailable("connection refused"))
            return
        if request is not None:
            request.delivered = True
        task = node.spawn(handler(server), "request")

        def done(ended: asyncio.Task[Any]) -> None:
            if request is not None and request.over is None:
                request.over = world.now
            if ended.cancelled():
                return
            error = ended.exception()
            if error is not None and not isinstance(error, TimeballError | SessionLost):
                frames = "".join(traceback.format_exception(error, limit=-4))
                world.fail(Violation("bug", f"a request failed unexpectedly: {frames}"))
            if self._lost(source, house.name, False):
                return
            if error is None:
                world.after(self._delay(), _answer, answer, ended.result())
            else:
                world.after(self._delay(), _fail, answer, error)

        task.add_done_callback(done, context=world.context)

        def died() -> None:
            if not task.done():
                if request is not None:
                    request.over = world.now + STORE_REACH
                if world.rng.random() < 0.7:
                    world.after(self._delay(), _fail, answer, Unavailable("connection reset"))

        node.on_death.append(died)
        if request is None and world.hangs_up:
            # The server notices that the caller disconnected, and cancels the request.
            answer.add_done_callback(lambda _: _drop(task), context=node_context(node))

    def _delay(self) -> Micros:
        world = self._world
        weather, rng = world.weather, world.rng
        delay = int(weather.message_delay * (0.2 + rng.random()))
        if weather.slow_message and rng.random() < weather.slow_message:
            world.damage.count("slow message")
            delay += int(rng.random() ** 3 * 40 * S)
        return delay

    def _lost(self, source: str, target: str, there: bool) -> bool:
        world = self._world
        cut = self._cuts.get((source, target))
        if cut is not None and world.loop.now < cut[0] and cut[1 if there else 2]:
            world.damage.count("message into a cut")
            return True
        share = world.weather.lost_request if there else world.weather.lost_answer
        if share and world.rng.random() < share:
            world.damage.count("lost request" if there else "lost answer")
            return True
        return False


def node_context(node: Node) -> Any:
    return node._context


def _drop(task: asyncio.Task[Any]) -> None:
    if not task.done():
        task.cancel()


class Link:
    """Implements `ports.worker_protocol.WorkerProtocol` for one worker: it uses one server until that fails, then
    another.
    """

    def __init__(self, world: World, name: str, tenants: Sequence[str] | None) -> None:
        self._world = world
        self._name = name
        self._tenants = tenants
        self._key = f"k_{name}"
        self._house = world.rng.choice(world.servers)

    async def _ask(self, handler: Callable[[Server], Coroutine[Any, Any, T]], patience: Micros) -> T:
        world = self._world
        house = self._house
        if world.rng.random() < world.wandering:
            house = world.rng.choice(world.servers)
        world.network.repeat(self._name, house, handler)
        try:
            return await world.network.call(self._name, house, handler, patience)
        except Unavailable:
            self._house = world.rng.choice(world.servers)
            raise

    async def hello(self, hello: RegisterWorker) -> WorkerRegistered:
        return await self._ask(lambda server: server.gateway.hello(hello, self._key, self._tenants), 5 * S)

    async def poll(self, poll: Poll) -> PollResponse:
        self._world.forgers.overhear(self._key, poll)
        return await self._ask(lambda server: server.gateway.poll(poll, self._key), poll.wait + 5 * S)

    async def beat(self, beat: Beat) -> PollResponse:
        self._world.forgers.overhear(self._key, beat)
        return await self._ask(lambda server: server.gateway.beat(beat, self._key), 4 * S)

    async def report(self, report: Report) -> ReportAck:
        self._world.forgers.overhear(self._key, report)
        return await self._ask(lambda server: server.gateway.report(report, self._key), 8 * S)

    async def goodbye(self, session: str) -> None:
        await self._ask(lambda server: server.gateway.goodbye(session, self._key), 5 * S)
