"""Carries cancel orders to the workers that hold the attempts, at once."""

from __future__ import annotations

from timeball.domain.instant import Micros
from timeball.operation.context import Context
from timeball.ports.wakeups import Topic
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalHints
from timeball.server.worker_gateway.gateway import Desk


class Canceller(Loop):
    name = "canceller"
    topics = (Topic.CANCEL,)

    def __init__(self, context: Context, hints: LocalHints, desk: Desk) -> None:
        super().__init__(context.clock, hints)
        self._store = context.store
        self._desk = desk

    async def turn(self) -> Micros:
        self._desk.forget_silent()
        self._desk.order_cancels(await self._store.cancel_orders())
        return TICK
