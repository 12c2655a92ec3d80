"""The hub of a server: collects the changes of its commits while a client listens, at this server or at another one,
and publishes them in windows of time.

The event publisher (`timeball.server.loops.event_publisher`) calls the hub. The hub itself reads neither a clock nor
the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from timeball.domain.errors import TooManyRequests, Unavailable
from timeball.domain.ids import Bits
from timeball.domain.instant import MILLISECOND, SECOND, Micros
from timeball.domain.run.run import Run
from timeball.operation.events.collector import ChangeCollector, EventInterest, MissingFacts
from timeball.operation.events.exchange import (
    ALL_TENANTS,
    MAX_NAMED_TENANTS,
    Outbox,
    items_of,
    read_message,
    workers_of,
)
from timeball.operation.events.feed import TenantFeed
from timeball.operation.events.filters import EventFilter
from timeball.operation.events.listener import EventListener
from timeball.operation.events.summary import RunsSummary
from timeball.operation.events.window import Item, TenantWindow
from timeball.ports.store.changes import ChangeBatch, WorkerChange
from timeball.ports.store.jobs import JobStatus
from timeball.slices import Steps

WINDOW: Final = 250 * MILLISECOND
"""Minimum time between the publications of two windows, in microseconds. The first change after a time without changes
is published at once."""
KEEP_ALIVE_INTERVAL: Final = 15 * SECOND
"""Microseconds between two comments that keep the stream of a listener alive."""
ANNOUNCE_INTERVAL: Final = 5 * SECOND
"""Microseconds between two messages by which a server tells the others that it has listeners."""
ANNOUNCED_FOR: Final = 12 * SECOND
"""Microseconds for which the changes of a tenant are sent to the other servers after one of them announced
listeners."""
MAX_LISTENERS: Final = 1_000
"""Maximum number of listeners on one server."""
MAX_LISTENERS_PER_KEY: Final = 500
RETRY_AFTER: Final = 5.0
"""Seconds after which a client that was refused may try again."""


class EventHub:
    def __init__(self) -> None:
        self.is_active = False
        """True while changes are collected."""
        self.on_active: Callable[[bool], None] = lambda is_active: None
        """Called when collecting starts or ends."""
        self.on_work: Callable[[], None] = lambda: None
        """Called when there is something to publish or to send."""
        self._feeds: dict[str, TenantFeed] = {}
        self._keys: Counter[str] = Counter()
        self._collector = ChangeCollector(self._is_wanted)
        self._workers: list[WorkerChange] = []
        """Changes of workers that other servers sent."""
        self._remote_items: dict[str, list[Item]] = {}
        """Changes that other servers listed one by one, by tenant."""
        self._remote_summaries: dict[str, list[RunsSummary]] = {}
        self._outbox = Outbox()
        self._listening_elsewhere: dict[str, Micros] = {}
        """The instant until which the changes of a tenant are sent to the other servers, by tenant; the key `*` means
        all tenants."""
        self._has_lost_messages = False
        self._was_connected = False
        """True after the first connection between this server and the others."""
        self._published_at: Micros | None = None
        self._alive_at: Micros = 0
        self._announce_at: Micros = 0
        self._sent_at: Micros | None = None
        self._is_woken = False

    # --- listeners ---------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of listeners."""
        return self._keys.total()

    def check_room(self, key_id: str) -> None:
        """Raise `TooManyRequests` if the key has its maximum of listeners on this server, and `Unavailable` if the
        server has its maximum."""
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
            self._announce_at = now
            self._activate()
            self._wake()
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
        """Send a `reset` to all listeners: events were lost."""
        for feed in self._feeds.values():
            feed.reset()

    # --- changes -----------------------------------------------------------------------------------------------

    def collect(self, batches: Sequence[ChangeBatch]) -> None:
        """Add the changes of a commit to the window."""
        if batches and self.is_active:
            self._collector.add(batches)
            self._wake()

    def due_in(self, now: Micros) -> Micros | None:
        """Return the microseconds until the window is published; None if there is nothing to publish."""
        if self._collector.is_empty and not (self._remote_items or self._remote_summaries or self._workers):
            self._is_woken = False
            return None
        return 0 if self._published_at is None else max(0, self._published_at + WINDOW - now)

    def take(self, time: Micros) -> Steps[MissingFacts]:
        """End the window. Return the runs and jobs that have to be looked up before the window is published."""
        self._is_woken = False
        return self._collector.take(time, self._wanted())

    def _wanted(self) -> EventInterest:
        filters = [where for feed in self._feeds.values() for where in feed.filters]
        return EventInterest(
            frozenset(ident for where in filters for ident in (where.job_id, where.run_id) if ident),
            any(where.tag or where.kind for where in filters),
        )

    def runs_found(self, found: Mapping[str, Run]) -> MissingFacts:
        return self._collector.runs_found(found)

    def jobs_found(self, wanted: Sequence[str], found: Mapping[str, JobStatus]) -> None:
        self._collector.jobs_found(wanted, found)

    def lookups_failed(self) -> None:
        self._collector.lookups_failed()

    def publish(self, now: Micros, time: Micros) -> Steps[None]:
        """Send the window to the listeners. `now` is an instant of the monotonic clock, `time` the store's time."""
        self._published_at = now
        windows, workers = self._collector.windows()
        for tenant, window in windows.items():
            if self._is_wanted_elsewhere(tenant):
                self._outbox.add(tenant, window.items, window.bulk)
        if self._listening_elsewhere:
            self._outbox.add_workers(workers)
        remote_summaries, self._remote_items = self._remote_items, {}
        summaries, self._remote_summaries = self._remote_summaries, {}
        workers, self._workers = [*workers, *self._workers], []
        yield
        for tenant, feed in list(self._feeds.items()):
            own = windows.get(tenant)
            if own is None:
                if not (workers or tenant in remote_summaries or tenant in summaries):
                    continue
                own = TenantWindow()
            own.items += remote_summaries.get(tenant, ())
            own.items += [(each, None) for each in workers if each.concerns(tenant)]
            own.remote_summaries = summaries.get(tenant, [])
            yield from feed.publish(own, now, time)
        if self._collector.has_lost:
            self._collector.has_lost = False
            self._has_lost_messages = True
            self.reset()

    def keep_up(self, now: Micros) -> None:
        """Send due comments to all streams. Drop feeds without a listener for `RESUME_TIME`, and end collecting if no
        server has listeners any more."""
        if now - self._alive_at >= KEEP_ALIVE_INTERVAL:
            self._alive_at = now
            for feed in self._feeds.values():
                feed.keep_alive()
        for tenant in [tenant for tenant, feed in self._feeds.items() if feed.is_over(now)]:
            del self._feeds[tenant]
        for tenant in [tenant for tenant, until in self._listening_elsewhere.items() if until <= now]:
            del self._listening_elsewhere[tenant]
        if self.is_active and not self._feeds and not self._listening_elsewhere:
            self._deactivate()

    # --- other servers -----------------------------------------------------------------------------------------

    def message(self, now: Micros) -> str | None:
        """Return the message to send to the other servers now, or None. There is at most one per window."""
        if self.message_due_in(now) != 0:
            return None
        listening = sorted(tenant for tenant, feed in self._feeds.items() if feed.has_listeners)
        lost, self._has_lost_messages = self._has_lost_messages, False
        self._sent_at = now
        self._announce_at = now + ANNOUNCE_INTERVAL
        return self._outbox.message([ALL_TENANTS] if len(listening) > MAX_NAMED_TENANTS else listening, lost=lost)

    def message_due_in(self, now: Micros) -> Micros | None:
        """Return the microseconds until there is a message to send; None if there is none."""
        waits: list[Micros] = []
        if not self._outbox.is_empty or (self._has_lost_messages and self._listening_elsewhere):
            waits.append(now)
        if any(feed.has_listeners for feed in self._feeds.values()):
            waits.append(self._announce_at)
        earliest = now if self._sent_at is None else self._sent_at + WINDOW
        return max(0, max(earliest, min(waits)) - now) if waits else None

    def received(self, text: str | None, now: Micros, time: Micros) -> None:
        """Apply a message of another server: note which tenants have listeners there, and collect the changes that it
        lists for the next publication. `text` is None if messages may have been lost; then all listeners get a
        `reset`."""
        if text is None:
            # Without a connection, announcements were lost too, so this server may have stopped collecting changes.
            self._has_lost_messages = self.is_active or self._was_connected
            self._was_connected = True
            self.reset()
            return
        message = read_message(text)
        if message is None:
            return
        for tenant in message.listening:
            self._listening_elsewhere[tenant] = now + ANNOUNCED_FOR
            self._activate()
        if message.lost:
            self.reset()
        if self._feeds:
            self._workers += workers_of(message)
        for tenant, news in message.news.items():
            if tenant in self._feeds:
                self._remote_items.setdefault(tenant, []).extend(items_of(tenant, news, time))
                if news.summary is not None:
                    self._remote_summaries.setdefault(tenant, []).append(news.summary)
        if self._remote_items or self._remote_summaries or self._workers:
            self._wake()

    # --- within ------------------------------------------------------------------------------------------------

    def _activate(self) -> None:
        if not self.is_active:
            self.is_active = True
            self.on_active(True)

    def _deactivate(self) -> None:
        self.is_active = False
        self._collector.clear()
        self._remote_items, self._remote_summaries, self._workers = {}, {}, []
        self._outbox.clear()
        self.on_active(False)

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self.on_work()

    def _is_wanted_elsewhere(self, tenant: str) -> bool:
        elsewhere = self._listening_elsewhere
        return bool(elsewhere) and (tenant in elsewhere or ALL_TENANTS in elsewhere)

    def _is_wanted(self, tenant: str) -> bool:
        return tenant in self._feeds or self._is_wanted_elsewhere(tenant)
