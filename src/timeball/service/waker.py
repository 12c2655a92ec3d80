"""Resumes jobs whose pause is over, at the moment it is."""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import Micros
from timeball.operation.context import Context
from timeball.operation.pause import end_pauses
from timeball.ports.hints import Topic
from timeball.service.hints import LocalHints
from timeball.service.loop import TICK, Loop

BATCH: Final = 100


class Waker(Loop):
    name = "waker"
    topics = (Topic.PAUSE,)

    def __init__(self, context: Context, hints: LocalHints) -> None:
        super().__init__(context.clock, hints)
        self._context = context
        self._store = context.store

    async def turn(self) -> Micros:
        upcoming = await self._store.next_resume_at()
        if upcoming is None:
            return TICK
        if (left := upcoming - self._store.now()) > 0:
            return left
        over = await self._store.pauses_over(BATCH)
        if not over:
            return TICK
        await end_pauses(self._context, over)
        return 0
