"""The loop that adds the ends of runs that this server counted to the statistics in the store, every two seconds."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from timeball.domain import ids
from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.operation.context import OperationContext
from timeball.ports.metrics import DELAYS, Histogram
from timeball.server.loop import Loop
from timeball.server.wakeups import LocalWakeups

WRITE_INTERVAL: Final = 2 * SECOND
"""Microseconds between two writes of the statistics. A server that is killed loses the counts since its last write."""
LAST_WRITE_SECONDS: Final = 1.0
"""Maximum number of seconds that a server which stops waits for its last write."""


class StatisticsWriter(Loop):
    name = "statistics_writer"
    serves_requests = True
    is_required = False  # only the overview depends on the statistics

    def __init__(self, context: OperationContext, wakeups: LocalWakeups) -> None:
        super().__init__(context.clock, wakeups)
        self._store = context.store
        self._metrics = context.metrics
        self._writer = ids.make("s", 0, context.rng)
        self._seq = 1
        self._sleeps_until: Micros = 0

    async def turn(self) -> Micros:
        left = self._sleeps_until - self._clock.monotonic()
        if left > 0:
            return left
        await self._record()
        self._sleeps_until = self._clock.monotonic() + WRITE_INTERVAL
        return WRITE_INTERVAL

    async def _record(self) -> None:
        ends = await self._store.record_statistics(self._writer, self._seq)
        self._seq += 1
        for (tenant, _), tally in ends.tallies.items():
            for outcome, count in tally.ends.items():
                self._metrics.runs[tenant, outcome] += count
        for key, delays in ends.delays.items():
            self._metrics.delays.setdefault(key, Histogram(DELAYS)).add(delays)

    async def stop(self) -> None:
        is_running = self._task is not None
        await super().stop()
        if is_running:
            with contextlib.suppress(Unavailable, TimeoutError):
                async with asyncio.timeout(LAST_WRITE_SECONDS):
                    await self._record()
