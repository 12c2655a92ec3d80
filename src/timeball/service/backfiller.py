"""Makes the next runs of backfills when earlier ones have ended."""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import Micros
from timeball.operation.context import Context
from timeball.ports.hints import Topic
from timeball.service.hints import LocalHints
from timeball.service.loop import TICK, Loop

BATCH: Final = 100


class Backfiller(Loop):
    name = "backfiller"
    topics = (Topic.BACKFILL,)

    def __init__(self, context: Context, hints: LocalHints) -> None:
        super().__init__(context.clock, hints)
        self._store = context.store

    async def turn(self) -> Micros:
        found = await self._store.backfills_to_advance(BATCH)
        if not found:
            return TICK
        if not await self._store.advance_backfills(found):
            return TICK
        self._hints.give(Topic.READY)
        return 0 if len(found) == BATCH else TICK
