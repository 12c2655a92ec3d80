"""The hub of a server: collects what its commits changed while a client listens, here or at another server, and
publishes it in windows.

The event publisher (`timeball.server.loops.event_publisher`) calls it. Nothing here reads a clock or the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from timeball.domain.errors import TooManyRequests, Unavailable
from timeball.domain.events import EventType
from timeball.domain.ids import Bits
from timeball.domain.instant import MILLISECOND, SECOND, Micros
from timeball.domain.run.run import Run
from timeball.domain.run.status import TERMINAL
from timeball.operation.events.feed import Item, TenantFeed
from timeball.operation.events.filters import EventFilter
from timeball.operation.events.job_facts import FactsCache
from timeball.operation.events.listener import EventListener
from timeball.ports.store.changes import Change, ChangeBatch, JobChange, RunChange, WorkerChange

WINDOW: Final = 250 * MILLISECOND
"""Minimum time between two windows. The first change after a quiet time is published at once."""
KEEP_ALIVE_INTERVAL: Final = 15 * SECOND
"""Microseconds between two comments in a stream."""
MAX_LISTENERS: Final = 1_000
"""Maximum number of listeners on one server."""
MAX_LISTENERS_PER_KEY: Final = 500
RETRY_AFTER: Final = 5.0
"""Seconds after which a client that was refused may try again."""
MAX_COLLECTED: Final = 20_000
"""Maximum number of changes in a window. If there are more, all listeners get a `reset`."""
MAX_LOOKED_UP: Final = 200
"""Maximum number of runs of a window whose job is looked up in the store."""
_COMPLETED_BY: Final = TERMINAL


class EventHub:
    def __init__(self) -> None:
        self.is_active = False
        """True while changes are collected."""
        self.on_active: Callable[[bool], None] = lambda is_active: None
        """Called when collecting starts or ends."""
        self.on_work: Callable[[], None] = lambda: None
        """Called when the first change of a window arrives, or the first listener."""
        self._feeds: dict[str, TenantFeed] = {}
        self._keys: Counter[str] = Counter()
        self._facts = FactsCache()
        self._batches: list[ChangeBatch] = []
        self._collected = 0
        self._early: list[RunChange] = []
        """Runs that were claimed shortly before they are due."""
        self._unknown: list[RunChange] = []
        """Changes of runs whose job is being looked up."""
        self._published_at: Micros | None = None
        self._is_woken = False
        self._alive_at: Micros = 0

    # --- listeners ---------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of listeners."""
        return self._keys.total()

    def check_room(self, key_id: str) -> None:
        """Raise an error if there are too many listeners already."""
        if self._keys[key_id] >= MAX_LISTENERS_PER_KEY:
            raise TooManyRequests(
                f"this key has {MAX_LISTENERS_PER_KEY:,} event streams on this server, which is the maximum",
                RETRY_AFTER,
            )
        if self.count >= MAX_LISTENERS:
            raise Unavailable(f"this server has {MAX_LISTENERS:,} event streams, which is the maximum", RETRY_AFTER)

    def subscribe(
        self, tenant: str, where: EventFilter, key_id: str, last_id: str, now: Micros, bits: Bits
    ) -> EventListener:
        """Add a listener. `last_id` is the id of the last event that its client received; empty if there is none."""
        feed = self._feeds.get(tenant)
        if feed is None:
            feed = self._feeds[tenant] = TenantFeed(f"{bits.getrandbits(48):012x}", now)
            self._wake()
        self._activate()
        listener = EventListener(tenant, where, key_id)
        feed.add(listener, last_id)
        self._keys[key_id] += 1
        return listener

    def unsubscribe(self, listener: EventListener, now: Micros) -> None:
        self._keys[listener.key_id] -= 1
        if not self._keys[listener.key_id]:
            del self._keys[listener.key_id]
        listener.close()
        if (feed := self._feeds.get(listener.tenant)) is not None:
            feed.remove(listener, now)

    def close(self) -> None:
        """End all streams, because the server stops."""
        for feed in self._feeds.values():
            for listener in feed.listeners():
                listener.close()

    def reset(self) -> None:
        """Tell all listeners that events were lost."""
        for feed in self._feeds.values():
            feed.reset()

    # --- changes -----------------------------------------------------------------------------------------------

    def collect(self, batches: Sequence[ChangeBatch]) -> None:
        """Add what a commit changed to the window."""
        if batches and self.is_active:
            self._batches += batches
            self._collected += sum([batch.count for batch in batches])
            if self._collected > MAX_COLLECTED:
                self._drop_window()
            self._wake()

    def worker_lost(self, session: str, name: str) -> None:
        change = WorkerChange(EventType.WORKER_LOST, session, name)
        self.collect([ChangeBatch(1, lambda: (change,))])

    def due_in(self, now: Micros) -> Micros | None:
        """Return how long the window lasts; None if there is nothing to publish."""
        if not (self._batches or self._early or self._unknown):
            self._is_woken = False
            return None
        return 0 if self._published_at is None else max(0, self._published_at + WINDOW - now)

    def take(self, time: Micros) -> tuple[dict[str, list[Item]], list[str]]:
        """End the window. Return its changes by tenant, and the runs that have to be looked up. `time` is the time of
        the store."""
        batches, self._batches, self._collected = self._batches, [], 0
        changes: list[Change] = [*self._early]
        self._early = []
        for batch in batches:
            changes += batch.list_changes()
        self._is_woken = False
        items: dict[str, list[Item]] = {}
        for change in changes:
            if isinstance(change, RunChange):
                if change.at > time:
                    self._early.append(change)
                else:
                    self._add_run(items, change)
            elif isinstance(change, JobChange):
                self._add_job(items, change)
            else:
                for tenant in self._feeds:
                    items.setdefault(tenant, []).append((change, None))
        return items, [change.run_id for change in self._unknown]

    def add_looked_up(self, items: dict[str, list[Item]], found: Mapping[str, Run]) -> None:
        """Add the changes of runs that were looked up. Those of runs that were not found are dropped."""
        unknown, self._unknown = self._unknown, []
        for change in unknown:
            if (run := found.get(change.run_id)) is not None:
                self._facts.learn(run)
                self._add_run(items, change)
        self._unknown = []

    def publish(self, items: Mapping[str, Sequence[Item]], now: Micros, time: Micros) -> None:
        self._published_at = now
        for tenant, changes in items.items():
            if (feed := self._feeds.get(tenant)) is not None:
                feed.publish(changes, (), now, time)

    def keep_up(self, now: Micros) -> None:
        """Send comments to quiet streams. Drop feeds that had no listener for a while, and end collecting if none is
        left."""
        if now - self._alive_at >= KEEP_ALIVE_INTERVAL:
            self._alive_at = now
            for feed in self._feeds.values():
                feed.keep_alive()
        for tenant in [tenant for tenant, feed in self._feeds.items() if feed.is_over(now)]:
            del self._feeds[tenant]
        if self.is_active and not self._feeds:
            self.is_active = False
            self._batches, self._collected = [], 0
            self._early, self._unknown = [], []
            self._facts.clear()
            self.on_active(False)

    # --- within ------------------------------------------------------------------------------------------------

    def _activate(self) -> None:
        if not self.is_active:
            self.is_active = True
            self.on_active(True)

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self.on_work()

    def _drop_window(self) -> None:
        self._batches, self._collected = [], 0
        self.reset()

    def _add_run(self, items: dict[str, list[Item]], change: RunChange) -> None:
        facts = self._facts.of_run(change)
        if facts is None:
            if len(self._unknown) < MAX_LOOKED_UP:
                self._unknown.append(change)
            return
        if facts.tenant not in self._feeds:
            return
        found = items.setdefault(facts.tenant, [])
        found.append((change, facts))
        if facts.fires_once and change.status in _COMPLETED_BY:
            found.append((JobChange(EventType.JOB_COMPLETED, facts.job_id, change.at), facts))

    def _add_job(self, items: dict[str, list[Item]], change: JobChange) -> None:
        if change.job is not None:
            facts = self._facts.of_job(change.job)
            if facts.tenant in self._feeds:
                items.setdefault(facts.tenant, []).append((change, facts))
