"""The loop that orders running attempts to give their slots to waiting runs of a higher priority, if their jobs allow
it.
"""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import MILLISECOND, Micros
from timeball.operation.context import OperationContext
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalWakeups
from timeball.server.worker_gateway.gateway import WorkerGateway

OFTEN: Final = 250 * MILLISECOND
"""Microseconds between two turns while an attempt is preempted or could be."""


class Preemptor(Loop):
    name = "preemptor"

    def __init__(self, context: OperationContext, wakeups: LocalWakeups, gateway: WorkerGateway) -> None:
        super().__init__(context.clock, wakeups)
        self._store = context.store
        self._gateway = gateway

    async def turn(self) -> Micros:
        if not await self._store.preempt():
            return TICK
        self._gateway.order_pauses(await self._store.pause_orders())
        return OFTEN
