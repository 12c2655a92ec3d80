"""The loop that skips runs that did not start before their deadline."""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import Micros
from timeball.operation.context import OperationContext
from timeball.ports.wakeups import Topic
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalWakeups

BATCH: Final = 500


class DeadlineExpirer(Loop):
    name = "deadline_expirer"
    topics = (Topic.PLAN,)

    def __init__(self, context: OperationContext, wakeups: LocalWakeups) -> None:
        super().__init__(context.clock, wakeups)
        self._store = context.store

    async def turn(self) -> Micros:
        if await self._store.expire(BATCH):
            self._wakeups.wake(Topic.READY)
            self._wakeups.wake(Topic.ENDED)
            self._wakeups.wake(Topic.WORKFLOW)
            return 0
        upcoming = await self._store.next_expiry()
        return TICK if upcoming is None else max(1, upcoming + 1 - self._store.now())
