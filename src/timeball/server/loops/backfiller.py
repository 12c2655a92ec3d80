"""The loop that creates the next runs of backfills when earlier runs of them have ended."""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import Micros
from timeball.operation.context import OperationContext
from timeball.operation.schedules.backfill import advance
from timeball.ports.wakeups import Topic
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalWakeups

BATCH: Final = 25
"""Maximum number of backfills that one transaction advances. Each creates up to 100 runs; 100 backfills blocked the
event loop for 50 ms.
"""


class Backfiller(Loop):
    name = "backfiller"
    topics = (Topic.BACKFILL,)

    def __init__(self, context: OperationContext, wakeups: LocalWakeups) -> None:
        super().__init__(context.clock, wakeups)
        self._context = context
        self._store = context.store

    async def turn(self) -> Micros:
        after = ""
        while True:
            found = await self._store.backfills_to_advance(BATCH, after)
            made = await advance(self._context, found)
            if made:
                self._wakeups.wake(Topic.READY)
            if len(found) < BATCH:
                return TICK
            if made:
                return 0
            after = found[-1]  # none of these backfills can create runs now
