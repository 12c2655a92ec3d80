"""Hostile workers in worlds of their own, the theme `forgery`: each has its own key and session, and uses what it has
learned about another worker.

A forged message either names the session of another worker, with the wrong key, or repeats under its own session what
the other reported about its attempts. The first must be answered as if there were no such session; the second is stale.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from tests.simulation.records import Violation
from tests.simulation.weather import S
from timeball.domain.errors import TimeballError
from timeball.ports.worker_protocol import Beat, Poll, Report, SessionLost
from timeball.server.server import Server

if TYPE_CHECKING:
    from tests.simulation.world import World

THEME = "forgery"
SHARE = 0.3
"""The share of messages of other workers to which a hostile worker reacts with a forged one."""
Handler = Callable[[Server], Coroutine[Any, Any, Any]]


class Identity(Struct):
    """The last session of a worker."""

    key: str
    session: str


class Forgers:
    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[str, Identity] = {}

    def overhear(self, key: str, message: Poll | Beat | Report) -> None:
        """Let every hostile worker learn of a message."""
        if self._world.theme != THEME:
            return
        rng = self._world.rng
        self._known[key] = Identity(key, message.session)
        others = [known for known in self._known.values() if known.key != key]
        if others and rng.random() < SHARE:
            forger = rng.choice(others)
            handlers = [self._for_another(forger, message), self._goodbye(forger, message.session)]
            if isinstance(message, Report) and (message.ended or message.logs):
                handlers += [self._for_itself(forger, message)] * 3
            later = int(rng.random() ** 2 * 3 * S)
            house = rng.choice(self._world.servers)
            deliver = self._world.network.deliver
            self._world.after(
                later, deliver, forger.key, house, rng.choice(handlers), self._world.loop.create_future(), None
            )

    def _for_another(self, forger: Identity, message: Poll | Beat | Report) -> Handler:
        async def send(server: Server) -> None:
            if isinstance(message, Poll):
                forged = structs.replace(message, seq=message.seq + 1, held=[], wait=0)
                await self._refused(forger, server.gateway.poll(forged, forger.key))
            elif isinstance(message, Beat):
                await self._refused(forger, server.gateway.beat(message, forger.key))
            else:
                await self._refused(forger, server.gateway.report(message, forger.key))

        return send

    def _goodbye(self, forger: Identity, session: str) -> Handler:
        async def send(server: Server) -> None:
            await self._refused(forger, server.gateway.goodbye(session, forger.key))

        return send

    def _for_itself(self, forger: Identity, message: Report) -> Handler:
        async def send(server: Server) -> None:
            forged = structs.replace(message, session=forger.session, poll_seq=0, free=0)
            tokens = {ended.token for ended in message.ended} | {chunk.token for chunk in message.logs}
            try:
                receipt = await server.gateway.report(forged, forger.key)
            except (SessionLost, TimeballError):
                return
            if taken := tokens - set(receipt.stale):
                self._world.fail(Violation("I31", f"{forger} wrote about {sorted(taken)}, which it does not hold"))

        return send

    async def _refused(self, forger: Identity, sending: Coroutine[Any, Any, Any]) -> None:
        try:
            answer = await sending
        except (SessionLost, TimeballError):
            return
        self._world.fail(Violation("I31", f"{forger} spoke for another session and was answered {answer}"))
