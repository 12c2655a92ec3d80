"""The loop that publishes the changes of this server's commits, in windows of time, to the clients that listen, and
sends them to the other servers."""

from __future__ import annotations

import asyncio

from timeball.domain.errors import Unavailable
from timeball.domain.instant import Micros
from timeball.operation.context import OperationContext
from timeball.operation.events.collector import NO_MISSING_FACTS, MissingFacts
from timeball.server.loop import TICK, Loop
from timeball.server.wakeups import LocalWakeups
from timeball.slices import in_slices


class EventPublisher(Loop):
    name = "event_publisher"
    serves_requests = True
    is_required = False  # events are hints: clients read the store as well

    def __init__(self, context: OperationContext, wakeups: LocalWakeups) -> None:
        super().__init__(context.clock, wakeups)
        self._store = context.store
        self._hub = context.events
        self._hub.on_work = self.wake
        self._hub.on_active = self._watch
        self._store.listen_to_servers(self._received)

    async def turn(self) -> Micros:
        hub, clock = self._hub, self._clock
        if not hub.is_active:
            return TICK
        hub.keep_up(clock.monotonic())
        if hub.due_in(clock.monotonic()) == 0:
            wanted = await in_slices(hub.take(self._store.now()), clock)
            if wanted is not NO_MISSING_FACTS:
                await self._look_up(wanted)
            for _ in hub.publish(clock.monotonic(), self._store.now()):
                await asyncio.sleep(0)
        now = clock.monotonic()
        if (message := hub.message(now)) is not None:
            self._store.send_to_servers(message)
        waits = [wait for wait in (hub.due_in(now), hub.message_due_in(now)) if wait is not None]
        return min(waits, default=TICK)

    async def _look_up(self, wanted: MissingFacts) -> None:
        """Read the runs and jobs that the events name and that this server does not know: runs that were claimed before
        the first listener came, or by another server."""
        try:
            if wanted.run_ids:
                wanted = self._hub.runs_found(await self._store.runs(wanted.run_ids))
            if wanted.job_ids:
                self._hub.jobs_found(wanted.job_ids, await self._store.jobs(wanted.job_ids))
        except Unavailable:
            self._hub.lookups_failed()

    def _received(self, message: str | None) -> None:
        self._hub.received(message, self._clock.monotonic(), self._store.now())

    def _watch(self, is_active: bool) -> None:
        self._store.watch_changes(self._hub.collect if is_active else None)
