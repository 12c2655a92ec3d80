"""Lets jobs that follow others hear of the ends of runs that they wait for: each becomes an instant to be planned."""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import Micros
from timeball.operation.context import Context
from timeball.ports.wakeups import Topic
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalHints

BATCH: Final = 500


class Listener(Loop):
    name = "listener"
    topics = (Topic.FOLLOW,)

    def __init__(self, context: Context, hints: LocalHints) -> None:
        super().__init__(context.clock, hints)
        self._store = context.store

    async def turn(self) -> Micros:
        if not await self._store.hear_echoes(BATCH):
            return TICK
        self._hints.give(Topic.PLAN)
        return 0
