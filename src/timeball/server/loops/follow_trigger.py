"""The loop that turns upstream events (the stored ends of runs) into fires of the jobs that follow the jobs of these
runs. The planner plans these fires.
"""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import Micros
from timeball.operation.context import OperationContext
from timeball.ports.wakeups import Topic
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalWakeups

BATCH: Final = 500


class FollowTrigger(Loop):
    name = "follow_trigger"
    topics = (Topic.FOLLOW,)

    def __init__(self, context: OperationContext, wakeups: LocalWakeups) -> None:
        super().__init__(context.clock, wakeups)
        self._store = context.store

    async def turn(self) -> Micros:
        if not await self._store.apply_upstream_events(BATCH):
            return TICK
        self._wakeups.wake(Topic.PLAN)
        return 0
