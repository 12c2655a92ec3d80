"""Limits on the cost of evaluating a calendar: the number of its entries with a cron expression, and of their windows
(the closed times after the fires of the cron expression). They are checked before a calendar is accepted.

The check runs in steps, one for each entry, so that the event loop can do other work between them. A stored calendar
that exceeds a limit, because it was accepted before the limit existed, is still decoded and planned: its pages
(`calendar_timeline`) cover less time each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from timeball.domain.errors import Invalid
from timeball.domain.schedule import calendar
from timeball.domain.schedule.calendar import Calendar, Entry
from timeball.domain.schedule.calendar_timeline import windows
from timeball.domain.schedule.zone import Zone

MAX_WINDOW_ENTRIES: Final = 100
"""Maximum number of entries with a cron expression in one calendar."""
MAX_WINDOWS_PER_DAY: Final = 1_440
"""Maximum number of windows of one calendar on a day on which all its cron expressions match. Windows of one entry that
touch or overlap count as one."""


def check(wanted: Calendar) -> Iterator[None]:
    """Check a calendar, one step of the iterator per entry. Raise `Invalid` for an entry that cannot be parsed or that
    exceeds a limit."""
    place = wanted.place
    entries = per_day = 0
    for at, entry in enumerate(wanted.entries):
        pointer = f"/entries/{at}"
        try:
            added = _windows_of(entry, place)
        except Invalid as error:
            raise Invalid(error.detail, pointer) from None
        entries, per_day = entries + (added > 0), per_day + added
        if entries > MAX_WINDOW_ENTRIES:
            raise Invalid(
                f"a calendar has at most {MAX_WINDOW_ENTRIES} entries with a cron expression, and this one exceeds it;"
                " combine entries that differ only in their times, as in '0 8,12,18 * * *'",
                pointer,
            )
        if per_day > MAX_WINDOWS_PER_DAY:
            raise Invalid(
                f"with {entry.cron!r} for {entry.length} the calendar would close {per_day:,} times on one day;"
                f" at most {MAX_WINDOWS_PER_DAY:,} are allowed; use fewer or longer windows",
                pointer,
            )
        yield


def _windows_of(entry: Entry, place: Zone) -> int:
    """Return the number of windows that an entry has on a matching day; 0 without a cron expression. Raise `Invalid` if
    the entry cannot be parsed."""
    if entry.cron is not None:
        return windows(entry.cron, calendar.length_of(entry)).per_day
    if entry.dates:
        calendar.days_of(entry)
    else:
        calendar.span_of(entry, place)
    return 0
