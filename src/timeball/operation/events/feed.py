"""The events of one tenant: numbers them, sends them to the listeners, and keeps those of the last minute so that a
listener that was cut off can resume.

An event id is `EPOCH-NUMBER`. A feed has a new epoch when it is created. A feed without listeners is dropped after
`RESUME_TIME`; the ids of a dropped feed are unknown, and a client that sends one gets a `reset`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec import Struct

from timeball.domain.instant import SECOND, Micros
from timeball.operation.events.encoding import RETRY_FRAME, change_frame, id_frame, reset_frame, summary_frame
from timeball.operation.events.filters import EventFilter
from timeball.operation.events.listener import EventListener
from timeball.operation.events.window import TenantWindow
from timeball.slices import Steps

RING_TIME: Final = 60 * SECOND
"""Time for which events are kept for listeners that resume."""
RESUME_TIME: Final = 15 * SECOND
"""Microseconds for which changes are still collected after the last listener left, so that it can resume."""
LISTENERS_PER_TURN: Final = 32
"""Number of listeners to which a window is sent before other tasks of the event loop run."""
MAX_RESUMED_EVENTS: Final = 500
"""Maximum number of events that a listener gets when it resumes. If more events were missed, the listener gets a
`reset`, because reading the data again is cheaper."""
MAX_RING_EVENTS: Final = 5_000


class _Published(Struct, frozen=True):
    """A window that was published: its changes, or, if they were many, only their summary."""

    first: int
    """The number of the event before the first event of the window."""
    last: int
    at: Micros
    """The instant of the publication on the monotonic clock."""
    time: Micros
    """The instant of the publication by the time of the store."""
    window: TenantWindow


class TenantFeed:
    def __init__(self, epoch: str, now: Micros) -> None:
        self._epoch: Final = epoch
        self._number = 0
        self._ring: deque[_Published] = deque()
        self._ring_size = 0
        self._forgotten = 0
        """The number of the last event that the ring has dropped."""
        self._listeners: dict[EventFilter, list[EventListener]] = {}
        self._idle_since = now

    @property
    def has_listeners(self) -> bool:
        return bool(self._listeners)

    @property
    def filters(self) -> list[EventFilter]:
        return list(self._listeners)

    def is_over(self, now: Micros) -> bool:
        return not self._listeners and now - self._idle_since >= RESUME_TIME

    def add(self, listener: EventListener, last_id: str) -> None:
        """Add a listener. If its client sends the id of the last event that it received, the listener first gets the
        events after that one."""
        self._listeners.setdefault(listener.where, []).append(listener)
        frames = self._since(last_id, listener.where) if last_id else []
        if frames is None:
            frames = [reset_frame(self._id(self._number))]
        listener.push(b"".join([RETRY_FRAME, *frames, id_frame(self._id(self._number))]))

    def remove(self, listener: EventListener, now: Micros) -> None:
        same = self._listeners.get(listener.where, [])
        if listener in same:
            same.remove(listener)
            if not same:
                del self._listeners[listener.where]
            if not self._listeners:
                self._idle_since = now

    def publish(self, window: TenantWindow, now: Micros, time: Micros) -> Steps[None]:
        """Send the changes of a window to the listeners. The event loop gets a turn after each
        `LISTENERS_PER_TURN` listeners. `now` is an instant of the monotonic clock, `time` the time of the store."""
        published = _Published(self._number, self._number + window.size, now, time, window)
        self._number = published.last
        self._keep(published)
        cache: dict[int, bytes] = {}
        # A listener that is added while the window is being sent gets the events after this window.
        for where, listeners in [(where, list(same)) for where, same in self._listeners.items()]:
            if frames := self._frames(published, where, 0, cache):
                chunk = b"".join(frames)
                for at, listener in enumerate(listeners):
                    listener.push(chunk)
                    if at % LISTENERS_PER_TURN == LISTENERS_PER_TURN - 1:
                        yield
            yield

    def keep_alive(self) -> None:
        """Send the id of the last event to all listeners, also to those whose filters select no event, so that they can
        resume from it."""
        frame = id_frame(self._id(self._number))
        for listener in self.listeners():
            listener.push(frame)

    def reset(self) -> None:
        """Send a `reset` to all listeners: events were lost."""
        self._number += 1
        self._ring.clear()
        self._ring_size, self._forgotten = 0, self._number
        frame = reset_frame(self._id(self._number))
        for listener in self.listeners():
            listener.push(frame)

    def listeners(self) -> list[EventListener]:
        return [listener for listeners in self._listeners.values() for listener in listeners]

    # --- within ------------------------------------------------------------------------------------------------

    def _id(self, number: int) -> str:
        return f"{self._epoch}-{number}"

    def _keep(self, published: _Published) -> None:
        window = published.window
        if window.is_summarised:
            small = TenantWindow()
            small.remote_summaries = [window.summary, *window.remote_summaries]
            published = _Published(published.first, published.last, published.at, published.time, small)
        self._ring.append(published)
        self._ring_size += published.window.size
        while self._ring_size > MAX_RING_EVENTS or published.at - self._ring[0].at > RING_TIME:
            oldest = self._ring.popleft()
            self._ring_size -= oldest.window.size
            self._forgotten = oldest.last

    def _since(self, last_id: str, where: EventFilter) -> list[bytes] | None:
        """Return the frames after an event; None if the feed does not know its id, has dropped events after it, or
        would send more than `MAX_RESUMED_EVENTS`."""
        epoch, _, text = last_id.rpartition("-")
        if epoch != self._epoch or not (text.isascii() and text.isdigit() and len(text) < 16):
            return None
        number = int(text)
        if not self._forgotten <= number <= self._number:
            return None
        frames: list[bytes] = []
        for published in self._ring:
            if published.last > number:
                frames += self._frames(published, where, number, {})
                if len(frames) > MAX_RESUMED_EVENTS:
                    return None
        return frames

    def _frames(self, published: _Published, where: EventFilter, after: int, cache: dict[int, bytes]) -> list[bytes]:
        """Return the frames of a window that a filter selects, without single events up to number `after`. `cache` has
        frames that were encoded for another filter, by the position of the change."""
        selected, summaries = published.window.select(where)
        frames: list[bytes] = []
        for position, (change, facts) in selected:
            number = published.first + position + 1
            if number > after:
                frame = cache.get(position)
                if frame is None:
                    frame = cache[position] = change_frame(self._id(number), change, facts, published.time)
                frames.append(frame)
        last = self._id(published.last)
        return [*frames, *[summary_frame(last, each, published.time) for each in summaries]]
