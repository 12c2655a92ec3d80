"""Computes the closed times of one calendar, page by page, when a page is first needed.

A page is a range of time. It lists the closed time in that range as pieces that do not overlap; a piece belongs to the
first entry that covers it. Entries with dates or `from` and `to` come before entries with a cron expression. Computing
a page costs a fixed amount for each entry and for each closed stretch in it. Pages of a calendar with many windows
(closed times after the fires of a cron expression) therefore cover less time, so that every page costs about a
millisecond, wherever it lies. Recently used pages are cached; a lookup of an instant in a cached page is a binary
search.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from timeball.domain import duration
from timeball.domain.instant import DAY, MINUTE, SECOND, Micros
from timeball.domain.schedule import calendar, cron
from timeball.domain.schedule.calendar import Calendar, Entry
from timeball.domain.schedule.cron_windows import Clocks, CronWindows, clocks
from timeball.domain.schedule.zone import Zone

PAGE_STRETCHES: Final = 256
"""Target number of closed stretches in one page. The length of a page follows from it."""
MAX_PAGE_SPAN: Final = 366 * DAY
SHORTEST_PAGE: Final = MINUTE
MAX_PAGES: Final = 2_048
"""Maximum number of cached pages, over all calendars: 30 MB if all pages are full, far less in practice."""
MAX_TIMELINES: Final = 1_024
MAX_WINDOWS: Final = 8_192
"""Maximum number of cached `CronWindows`, one per entry with a cron expression."""
ENTRY_COST: Final = 3
"""Units of work that an entry costs on a page. A closed stretch costs one unit, which is about 3 microseconds."""


@lru_cache(maxsize=MAX_WINDOWS)
def windows(expression: str, length: Micros) -> CronWindows:
    """Return the windows of an entry with a cron expression. Raise `Invalid` if the expression cannot be parsed."""
    return CronWindows(cron.parse(expression), length)


class ClosedPage:
    """The closed time of one calendar from `since` (inclusive) to `until` (exclusive), as sorted stretches (pieces)
    that do not overlap."""

    __slots__ = ("_cost", "begins", "ends", "owners", "since", "solid", "until")

    def __init__(
        self, since: Micros, until: Micros, reach: Micros, pieces: Sequence[tuple[Micros, Micros, int]], cost: int
    ) -> None:
        """`reach` is the latest known end of the closed time that continues beyond the end of the page."""
        self.since, self.until, self._cost = since, until, cost
        self.begins = array("q", [begin for begin, _, _ in pieces])
        self.ends = array("q", [end for _, end, _ in pieces])
        self.owners = array("i", [owner for _, _, owner in pieces])
        """The index of the calendar entry that each piece belongs to, in the order of the timeline."""
        self.solid = array("q", self.ends)
        """The instant until which the calendar stays closed without a break after each piece, as far as this page has
        computed it."""
        if pieces and self.solid[-1] == until:
            self.solid[-1] = reach
        for at in range(len(pieces) - 2, -1, -1):
            if self.begins[at + 1] == self.ends[at]:
                self.solid[at] = self.solid[at + 1]

    def charge(self) -> int:
        """Return the cost of computing the page on the first call, and 1 unit on later calls, because the page is
        cached then."""
        cost, self._cost = self._cost, 1
        return cost

    def piece(self, moment: Micros) -> int:
        """Return the index of the last closed stretch (piece) of this page that begins at or before `moment`; -1 if
        there is none. The stretch may have ended before `moment`: compare with `ends`."""
        return bisect_right(self.begins, moment) - 1

    def solid_until(self, moment: Micros) -> Micros:
        """Return the instant until which the calendar is closed without a break from a moment on, as far as this page
        has computed it. Return the moment itself if it is open."""
        at = bisect_right(self.begins, moment) - 1
        return self.solid[at] if at >= 0 and moment < self.ends[at] else moment


class Timeline:
    """A compiled calendar. It computes the `ClosedPage` for the range of time around any instant."""

    __slots__ = (
        "_days",
        "_entries",
        "_first_window",
        "_length",
        "_numbers",
        "_owners_of_days",
        "_place",
        "_reach",
        "_spans",
        "_windows",
    )

    def __init__(self, source: Calendar) -> None:
        self._place: Zone = source.place
        listed = [entry for entry in source.entries if entry.cron is None]
        repeated = [entry for entry in source.entries if entry.cron is not None]
        self._entries: tuple[Entry, ...] = (*listed, *repeated)
        numbers = range(len(source.entries))
        self._numbers = sorted(numbers, key=lambda number: source.entries[number].cron is not None)
        self._first_window = len(listed)
        self._windows = [windows(str(entry.cron), calendar.length_of(entry)) for entry in repeated]
        self._spans = [
            (*calendar.span_of(entry, self._place), owner) for owner, entry in enumerate(listed) if not entry.dates
        ]
        owners: dict[int, int] = {}
        for owner, entry in enumerate(listed):
            for day in calendar.days_of(entry):
                owners.setdefault(day, owner)
        self._days = sorted(owners)
        self._owners_of_days = [owners[day] for day in self._days]
        per_day = sum(each.per_day for each in self._windows) + (1 if self._days else 0)
        length = PAGE_STRETCHES * DAY // per_day if per_day else MAX_PAGE_SPAN
        self._length = max(SHORTEST_PAGE, min(MAX_PAGE_SPAN, length)) // SECOND * SECOND
        self._reach = max((each.length for each in self._windows), default=0)
        """Length of the longest window, in microseconds; 0 without windows."""

    def page(self, moment: Micros) -> ClosedPage:
        """Return the page that contains a moment."""
        return _page(self, moment // self._length)

    def number(self, owner: int) -> int:
        """Return the position, in the calendar as it was written, of an entry (by its index in the timeline)."""
        return self._numbers[owner]

    def label(self, owner: int, moment: Micros) -> str:
        """Return the label of the entry (by its index) that closes a moment."""
        entry = self._entries[owner]
        if not entry.dates:
            return calendar.label_of(entry)
        # If clocks go back over midnight, they show the previous day again after the next day has begun. So the days
        # before and after the shown one are checked as well.
        shown = (moment + self._place.offset_at(moment) * SECOND) // DAY
        for day in (shown, shown + 1, shown - 1):
            begin, end = calendar.day_span(self._place, day)
            at = bisect_left(self._days, day)
            if begin <= moment < end and at < len(self._days) and self._days[at] == day:
                return calendar.label_of(entry, day)
        return calendar.label_of(entry, shown)

    def compute(self, number: int) -> ClosedPage:
        since, until = number * self._length, (number + 1) * self._length
        closed = [span for span in self._closed(since, until) if span[0] < until and span[1] > since]
        pieces = self._cut([(max(begin, since), min(end, until), owner) for begin, end, owner in closed])
        reach = max((end for _, end, _ in closed), default=until)
        return ClosedPage(since, until, reach, pieces, ENTRY_COST * len(self._entries) + len(closed))

    def _closed(self, since: Micros, until: Micros) -> list[tuple[Micros, Micros, int]]:
        """Return the stretches (begin, end, entry index) that may touch the range from `since` to `until`."""
        found = [span for span in self._spans if span[0] < until and span[1] > since]
        nearby = range(bisect_left(self._days, since // DAY - 2), bisect_right(self._days, until // DAY + 2))
        found += [(*calendar.day_span(self._place, self._days[at]), self._owners_of_days[at]) for at in nearby]
        if not self._windows:
            return found
        near = clocks(self._place, since - DAY, until)
        far: Clocks | None = None
        for owner, each in enumerate(self._windows, self._first_window):
            found += [(begin, end, owner) for begin, end in each.closed(since, until, near)]
            if each.length > DAY:
                # Of the windows that began more than a day before, only the last one matters: it ends last.
                far = far or clocks(self._place, since - self._reach - SECOND, since - DAY)
                last = each.last_before(far)
                if last is not None and last + each.length > since:
                    found.append((last, last + each.length, owner))
        return found

    def _cut(self, spans: Sequence[tuple[Micros, Micros, int]]) -> list[tuple[Micros, Micros, int]]:
        """Cut overlapping stretches into pieces that do not overlap. Each piece belongs to the owner with the lowest
        index that covers it."""
        waiting = sorted(spans)
        edges = sorted({edge for begin, end, _ in spans for edge in (begin, end)})
        active: list[tuple[int, Micros]] = []
        coming = 0
        pieces: list[tuple[Micros, Micros, int]] = []
        for begin, end in pairwise(edges):
            while coming < len(waiting) and waiting[coming][0] <= begin:
                heapq.heappush(active, (waiting[coming][2], waiting[coming][1]))
                coming += 1
            while active and active[0][1] <= begin:
                heapq.heappop(active)
            if not active:
                continue
            owner = active[0][0]
            # Adjacent dates of one entry stay separate pieces, because each date has its own label.
            if pieces and pieces[-1][1] == begin and pieces[-1][2] == owner and not self._entries[owner].dates:
                begin = pieces.pop()[0]
            pieces.append((begin, end, owner))
        return pieces


@lru_cache(maxsize=MAX_PAGES)
def _page(timeline: Timeline, number: int) -> ClosedPage:
    return timeline.compute(number)


@lru_cache(maxsize=MAX_TIMELINES)
def _timeline(text: bytes) -> Timeline:
    return Timeline(calendar.decode(text.decode()))


def timeline(source: Calendar) -> Timeline:
    return _timeline(calendar.encode(source))


def compile_entry(entry: Entry) -> None:
    """Do the expensive part of compiling an entry and cache it, so that a calendar can be compiled in slices."""
    if entry.cron is not None and entry.length is not None:
        windows(entry.cron, duration.parse(entry.length))
