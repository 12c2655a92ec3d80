"""The loop that lets waiting runs pass a gate that time has opened: a rate limit has a token again, or the pause of a
circuit breaker is over."""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import MILLISECOND, MINUTE, Micros
from timeball.operation.context import OperationContext
from timeball.ports.wakeups import Topic
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalWakeups

BATCH: Final = 100
GATE_RETRY_DELAY: Final = 5 * MILLISECOND
"""Microseconds before gates are opened again: this turn may have skipped gates that another server has locked."""
MAX_FORGOTTEN: Final = 1_000


class GateOpener(Loop):
    name = "gate_opener"
    topics = (Topic.GATE,)

    def __init__(self, context: OperationContext, wakeups: LocalWakeups) -> None:
        super().__init__(context.clock, wakeups)
        self._store = context.store
        self._forgotten_at: Micros | None = None

    async def turn(self) -> Micros:
        upcoming = await self._store.next_look_at()
        if upcoming is not None and upcoming <= self._store.now():
            await self._store.open_gates(BATCH)
            self._wakeups.wake(Topic.READY)
            return GATE_RETRY_DELAY
        await self._forget()
        return TICK if upcoming is None else max(1, upcoming - self._store.now())

    async def _forget(self) -> None:
        """Delete rows that no run uses any more, such as gates, ordering keys and placement profiles, once a minute."""
        now = self._clock.monotonic()
        if self._forgotten_at is None or now - self._forgotten_at > MINUTE:
            self._forgotten_at = now
            await self._store.forget_unused(MAX_FORGOTTEN)
