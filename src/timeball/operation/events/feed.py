"""The events of one tenant: numbers them, sends them to the listeners, and keeps those of the last minute so that a
listener that was cut off can resume.

An event id is `EPOCH-NUMBER`. A feed has a new epoch when it is created. A feed without listeners is dropped after
`RESUME_TIME`; the ids of a dropped feed are unknown, and a client that sends one gets a `reset`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import UNSET, Struct

from timeball.domain.instant import SECOND, Micros
from timeball.operation.events.encoding import RETRY_FRAME, change_frame, id_frame, reset_frame, summary_frame
from timeball.operation.events.filters import EventFilter
from timeball.operation.events.job_facts import JobFacts
from timeball.operation.events.listener import EventListener
from timeball.operation.events.summary import RunsSummary
from timeball.ports.store.changes import Change, JobChange, RunChange

RING_TIME: Final = 60 * SECOND
"""How long events are kept for listeners that resume."""
RESUME_TIME: Final = 15 * SECOND
"""How long changes are still collected after the last listener left, so that it can resume."""
MAX_SINGLE_EVENTS: Final = 100
"""Maximum number of changes in a window that are sent one by one. More of them are sent as one summary."""
MAX_RESUMED_EVENTS: Final = 500
"""Maximum number of events that a listener gets when it resumes; beyond it, reading again is cheaper."""
MAX_RING_EVENTS: Final = 5_000

Item = tuple[Change, JobFacts | None]


class _Window(Struct, frozen=True):
    """What was published at one instant: the changes themselves, or, if they were many, their summary."""

    first: int
    """The number before that of the first change."""
    last: int
    at: Micros
    time: Micros
    items: Sequence[Item]
    summaries: Sequence[RunsSummary]

    @property
    def size(self) -> int:
        return len(self.items) + len(self.summaries)


class TenantFeed:
    def __init__(self, epoch: str, now: Micros) -> None:
        self._epoch: Final = epoch
        self._number = 0
        self._ring: deque[_Window] = deque()
        self._ring_size = 0
        self._forgotten = 0
        """The number of the last event that the ring has dropped."""
        self._listeners: dict[EventFilter, list[EventListener]] = {}
        self._idle_since = now

    @property
    def has_listeners(self) -> bool:
        return bool(self._listeners)

    def is_over(self, now: Micros) -> bool:
        return not self._listeners and now - self._idle_since >= RESUME_TIME

    def add(self, listener: EventListener, last_id: str) -> None:
        """Add a listener. With the id of the last event that its client received, it gets the events after it."""
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

    def publish(self, items: Sequence[Item], summaries: Sequence[RunsSummary], now: Micros, time: Micros) -> None:
        """Send the changes of a window to the listeners. `now` is an instant of the monotonic clock, `time` the time of
        the store."""
        window = _Window(self._number, self._number + len(items) + len(summaries), now, time, items, summaries)
        self._number = window.last
        found = _WindowIndex(items)
        cache: dict[int, bytes] = {}
        for where, listeners in self._listeners.items():
            frames = self._frames(window, found.select(where), where, 0, cache)
            if frames:
                chunk = b"".join(frames)
                for listener in listeners:
                    listener.push(chunk)
        self._keep(window)

    def keep_alive(self) -> None:
        """Send all listeners the id of the last event, also those that got no event because of their filters: with it
        they can resume."""
        frame = id_frame(self._id(self._number))
        for listener in self.listeners():
            listener.push(frame)

    def reset(self) -> None:
        """Tell all listeners that events were lost."""
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

    def _keep(self, window: _Window) -> None:
        if len(window.items) > MAX_SINGLE_EVENTS:
            summary = RunsSummary.of(window.items)
            summary.limited()
            window = _Window(window.first, window.last, window.at, window.time, (), (summary, *window.summaries))
        self._ring.append(window)
        self._ring_size += window.size
        while self._ring and (self._ring_size > MAX_RING_EVENTS or window.at - self._ring[0].at > RING_TIME):
            oldest = self._ring.popleft()
            self._ring_size -= oldest.size
            self._forgotten = oldest.last

    def _since(self, last_id: str, where: EventFilter) -> list[bytes] | None:
        """Return the frames after an event; None if the ring does not have all of them."""
        epoch, _, text = last_id.rpartition("-")
        if epoch != self._epoch or not (text.isascii() and text.isdigit() and len(text) < 16):
            return None
        number = int(text)
        if not self._forgotten <= number <= self._number:
            return None
        frames: list[bytes] = []
        for window in self._ring:
            if window.last > number:
                frames += self._frames(window, _WindowIndex(window.items).select(where), where, number, {})
                if len(frames) > MAX_RESUMED_EVENTS:
                    return None
        return frames

    def _frames(
        self,
        window: _Window,
        selected: Sequence[tuple[int, Item]],
        where: EventFilter,
        after: int,
        cache: dict[int, bytes],
    ) -> list[bytes]:
        """Return the frames of a window for a filter, after an event. `selected` has the changes that pass the filter,
        with their positions. `cache` has frames that were encoded for another filter, by position."""
        frames: list[bytes] = []
        summaries = [part for each in window.summaries if (part := each.narrowed(where)) is not None]
        if len(selected) > MAX_SINGLE_EVENTS:
            summary = RunsSummary.of(item for _, item in selected)
            summary.limited()
            summaries.insert(0, summary)
        else:
            for position, (change, facts) in selected:
                number = window.first + position + 1
                if number > after:
                    frame = cache.get(position)
                    if frame is None:
                        frame = cache[position] = change_frame(self._id(number), change, facts, window.time)
                    frames.append(frame)
        frames += [summary_frame(self._id(window.last), each, window.time) for each in summaries]
        return frames


class _WindowIndex:
    """The changes of a window by job, run, tag and status: a listener costs as much as it gets, not as much as there
    is."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._numbered: list[tuple[int, Item]] | None = None
        self._indexes: dict[str, dict[object, list[tuple[int, Item]]]] = {}

    def select(self, where: EventFilter) -> Sequence[tuple[int, Item]]:
        if self._numbered is None:
            self._numbered = list(enumerate(self._items))
        if where.is_empty:
            return self._numbered
        return [each for each in self._candidates(where) if where.passes(*each[1])]

    def _candidates(self, where: EventFilter) -> Iterable[tuple[int, Item]]:
        if where.run_id:
            return self._index("run", _run_of).get(where.run_id, ())
        if where.job_id:
            return self._index("job", _job_of).get(where.job_id, ())
        if where.tag:
            return self._index("tag", _tags_of).get(where.tag, ())
        if where.kind:
            return self._index("kind", _kind_of).get(where.kind, ())
        by_status = self._index("status", _status_of)
        found = [each for status in where.statuses for each in by_status.get(status, ())]
        return sorted(found, key=lambda each: each[0])

    def _index(self, name: str, keys: Callable[[Item], Iterable[object]]) -> dict[object, list[tuple[int, Item]]]:
        index = self._indexes.get(name)
        if index is None:
            index = self._indexes[name] = defaultdict(list)
            for each in self._numbered or ():
                for key in keys(each[1]):
                    index[key].append(each)
        return index


def _run_of(item: Item) -> Iterable[object]:
    return (item[0].run_id,) if isinstance(item[0], RunChange) else ()


def _job_of(item: Item) -> Iterable[object]:
    change, facts = item
    if facts is not None:
        return (facts.job_id,)
    return (change.job_id,) if isinstance(change, RunChange | JobChange) else ()


def _tags_of(item: Item) -> Iterable[object]:
    facts = item[1]
    return () if facts is None or facts.tags is UNSET else facts.tags


def _kind_of(item: Item) -> Iterable[object]:
    facts = item[1]
    return () if facts is None or facts.kind is UNSET else (facts.kind,)


def _status_of(item: Item) -> Iterable[object]:
    return (item[0].status,) if isinstance(item[0], RunChange) else ()
