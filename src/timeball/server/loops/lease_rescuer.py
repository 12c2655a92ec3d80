"""The loop that ends attempts that their workers do not end: the lease of the worker lapsed, or the worker never
reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from timeball.batch_isolation import in_halves
from timeball.domain.instant import HOUR, MILLISECOND, MINUTE, SECOND, Micros
from timeball.domain.planning.planning_failure import FIRST_RETRY_DELAY, reason_of
from timeball.operation.context import OperationContext
from timeball.operation.runs.settle import Settle
from timeball.ports.store.runs import Settlement
from timeball.server.loop import Loop
from timeball.server.wakeups import LocalWakeups

EVERY: Final = 500 * MILLISECOND
BATCH: Final = 500
UNREPORTED_INTERVAL: Final = 5 * SECOND
"""Microseconds between two searches for attempts whose end is overdue. A search reads every attempt that is older than
a lease.
"""
FIRST: Final = ("", "")

_log = structlog.get_logger()


class LeaseRescuer(Loop):
    name = "lease_rescuer"

    def __init__(self, context: OperationContext, wakeups: LocalWakeups, settle: Settle) -> None:
        super().__init__(context.clock, wakeups)
        self._store = context.store
        self._settle = settle
        self._metrics = context.metrics
        self._forgotten_at: Micros | None = None
        self._search_at: Micros = 0
        self._after = FIRST
        self._failed: dict[str, Micros] = {}
        """The instant at which a run that could not be settled is tried again, by run id."""

    async def turn(self) -> Micros:
        now = self._clock.monotonic()
        self._failed = {run_id: at for run_id, at in self._failed.items() if at > now}
        lost = await self._store.lapsed(BATCH + len(self._failed))
        lapsed = [each for each in lost if each.run_id not in self._failed]
        if lapsed:
            await in_halves(lapsed, self._end_lapsed, self._leave)
            return 0
        if await self._end_unreported():
            return 0
        await self._forget()
        return EVERY

    async def _end_lapsed(self, lapsed: Sequence[Settlement]) -> None:
        settled = await self._settle(lapsed)
        self._metrics.lost_leases += len(settled) - settled.count(None)

    async def _end_unreported(self) -> bool:
        """End attempts whose worker has a valid lease but never reported their end. The answer to the next beat of the
        worker orders it to drop them, because their fencing tokens are no longer valid. Return True if there are more
        attempts to check.
        """
        if self._clock.monotonic() < self._search_at:
            return False
        found = await self._store.unreported(self._after, BATCH)
        self._after = found.after or FIRST
        if found.after is None:
            self._search_at = self._clock.monotonic() + UNREPORTED_INTERVAL
        if found.runs:
            names = ", ".join(each.run_id for each in found.runs[:10])
            _log.warning("workers did not report the end of attempts", count=len(found.runs), runs=names)
            await in_halves(found.runs, self._settle, self._leave)
        return found.after is not None

    def _leave(self, settlement: Settlement, error: Exception) -> None:
        """Log that a run cannot be settled, and try it again after `FIRST_RETRY_DELAY`. The other runs of the batch are
        settled."""
        _log.error("a lost run cannot be settled", run=settlement.run_id, error=reason_of(error))
        self._failed[settlement.run_id] = self._clock.monotonic() + FIRST_RETRY_DELAY

    async def _forget(self) -> None:
        """Delete sessions that ended more than an hour ago."""
        now = self._clock.monotonic()
        if self._forgotten_at is None or now - self._forgotten_at > MINUTE:
            self._forgotten_at = now
            await self._store.forget_sessions(self._store.now() - HOUR)
