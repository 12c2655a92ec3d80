"""Skips runs that could not start before their deadline."""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import Micros
from timeball.operation.context import Context
from timeball.ports.wakeups import Topic
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalHints

BATCH: Final = 500


class Expirer(Loop):
    name = "expirer"
    topics = (Topic.PLAN,)

    def __init__(self, context: Context, hints: LocalHints) -> None:
        super().__init__(context.clock, hints)
        self._store = context.store

    async def turn(self) -> Micros:
        if await self._store.expire(BATCH):
            self._hints.give(Topic.READY)
            self._hints.give(Topic.ENDED)
            self._hints.give(Topic.WORKFLOW)
            return 0
        upcoming = await self._store.next_expiry()
        return TICK if upcoming is None else max(1, upcoming + 1 - self._store.now())
