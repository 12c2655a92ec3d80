"""Ends attempts that their workers do not end: of workers whose lease lapsed, and of workers that never report."""

from __future__ import annotations

from typing import Final

import structlog

from timeball.domain.instant import HOUR, MILLISECOND, MINUTE, SECOND, Micros
from timeball.operation.context import Context
from timeball.operation.settle import Settle
from timeball.service.hints import LocalHints
from timeball.service.loop import Loop

EVERY: Final = 500 * MILLISECOND
BATCH: Final = 500
UNREPORTED_INTERVAL: Final = 5 * SECOND
"""Between two searches for attempts whose end is overdue: a search reads every attempt older than a lease."""
FIRST: Final = ("", "")

_log = structlog.get_logger()


class Rescuer(Loop):
    name = "rescuer"

    def __init__(self, context: Context, hints: LocalHints, settle: Settle) -> None:
        super().__init__(context.clock, hints)
        self._store = context.store
        self._settle = settle
        self._tidied_at: Micros | None = None
        self._search_at: Micros = 0
        self._after = FIRST

    async def turn(self) -> Micros:
        lapsed = await self._store.lapsed(BATCH)
        if lapsed:
            await self._settle(lapsed)
            return 0
        if await self._end_unreported():
            return 0
        await self._tidy()
        return EVERY

    async def _end_unreported(self) -> bool:
        """End attempts whose worker is alive and never reports. The worker learns it with its next beat: the token is
        not its own any more. True: there is more to look at."""
        if self._clock.monotonic() < self._search_at:
            return False
        found = await self._store.unreported(self._after, BATCH)
        self._after = found.after or FIRST
        if found.after is None:
            self._search_at = self._clock.monotonic() + UNREPORTED_INTERVAL
        if found.runs:
            names = ", ".join(each.run_id for each in found.runs[:10])
            _log.warning("workers did not report the end of attempts", count=len(found.runs), runs=names)
            await self._settle(found.runs)
        return found.after is not None

    async def _tidy(self) -> None:
        """Forget sessions that ended long ago."""
        now = self._clock.monotonic()
        if self._tidied_at is None or now - self._tidied_at > MINUTE:
            self._tidied_at = now
            await self._store.forget_sessions(self._store.now() - HOUR)
