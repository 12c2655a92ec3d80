"""What evaluating a calendar may cost: a budget of windows, checked before it is accepted.

The check is made in steps, one for each entry, so that other work gets its turn between them. A calendar that was
accepted before a limit came is read and planned with all the same: it only takes longer pages of less time.
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
"""Entries of one calendar that have a cron expression."""
MAX_WINDOWS_PER_DAY: Final = 1_440
"""Windows of one calendar on a day on which all its cron expressions match; windows that meet are one."""


def check(wanted: Calendar) -> Iterator[None]:
    """Steps, of which one refuses a calendar that cannot be understood or asks for too much."""
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
                f"a calendar has at most {MAX_WINDOW_ENTRIES} entries with a cron expression, and this is one more;"
                " join those that differ only in their times, as in '0 8,12,18 * * *'",
                pointer,
            )
        if per_day > MAX_WINDOWS_PER_DAY:
            raise Invalid(
                f"with {entry.cron!r} for {entry.length} a calendar would close {per_day:,} times on one day, and"
                f" {MAX_WINDOWS_PER_DAY:,} are allowed; use fewer or longer windows",
                pointer,
            )
        yield


def _windows_of(entry: Entry, place: Zone) -> int:
    """How many windows an entry has on a day, or `Invalid`."""
    if entry.cron is not None:
        return windows(entry.cron, calendar.length_of(entry)).per_day
    if entry.dates:
        calendar.days_of(entry)
    else:
        calendar.span_of(entry, place)
    return 0
