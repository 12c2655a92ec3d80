"""The loop that sends orders to workers as soon as they are stored, without waiting for the next beat of the worker:
cancels of attempts, and orders to drain."""

from __future__ import annotations

from timeball.domain.instant import Micros
from timeball.operation.context import OperationContext
from timeball.ports.wakeups import Topic
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalWakeups
from timeball.server.worker_gateway.gateway import WorkerGateway


class CancelSender(Loop):
    name = "cancel_sender"
    serves_requests = True
    topics = (Topic.CANCEL,)

    def __init__(self, context: OperationContext, wakeups: LocalWakeups, gateway: WorkerGateway) -> None:
        super().__init__(context.clock, wakeups)
        self._store = context.store
        self._gateway = gateway

    async def turn(self) -> Micros:
        self._gateway.forget_silent()
        orders = await self._store.worker_orders()
        self._gateway.order_cancels(orders.cancels)
        self._gateway.order_drains(orders.drains)
        return TICK
