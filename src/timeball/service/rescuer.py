"""Gives runs of workers that fell silent to others, once their lease lapsed."""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import HOUR, MILLISECOND, MINUTE, Micros
from timeball.operation.context import Context
from timeball.operation.settle import Settle
from timeball.service.hints import LocalHints
from timeball.service.loop import Loop

EVERY: Final = 500 * MILLISECOND
BATCH: Final = 500


class Rescuer(Loop):
    name = "rescuer"

    def __init__(self, context: Context, hints: LocalHints, settle: Settle) -> None:
        super().__init__(context.clock, hints)
        self._store = context.store
        self._settle = settle
        self._tidied_at: Micros | None = None

    async def turn(self) -> Micros:
        lapsed = await self._store.lapsed(BATCH)
        if lapsed:
            await self._settle(lapsed)
            return 0
        await self._tidy()
        return EVERY

    async def _tidy(self) -> None:
        """Forget sessions that ended long ago."""
        now = self._clock.monotonic()
        if self._tidied_at is None or now - self._tidied_at > MINUTE:
            self._tidied_at = now
            await self._store.forget_sessions(self._store.now() - HOUR)
