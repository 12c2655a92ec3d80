"""The loop that publishes what the commits of this server changed, in windows, to the clients that listen."""

from __future__ import annotations

from timeball.domain.instant import Micros
from timeball.operation.context import Context
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalWakeups


class EventPublisher(Loop):
    name = "event_publisher"
    is_required = False  # events are hints: clients read the store as well

    def __init__(self, context: Context, wakeups: LocalWakeups) -> None:
        super().__init__(context.clock, wakeups)
        self._store = context.store
        self._hub = context.events
        self._hub.on_work = self.nudge
        self._hub.on_active = self._watch

    async def turn(self) -> Micros:
        hub = self._hub
        now = self._clock.monotonic()
        if not hub.is_active:
            return TICK
        hub.keep_up(now)
        left = hub.due_in(now)
        if left is None:
            return TICK
        if left > 0:
            return left
        items, unknown = hub.take(self._store.now())
        if unknown:
            hub.add_looked_up(items, await self._store.runs(unknown))
        hub.publish(items, now, self._store.now())
        left = hub.due_in(now)
        return TICK if left is None else left

    def _watch(self, is_active: bool) -> None:
        self._store.watch_changes(self._hub.collect if is_active else None)
