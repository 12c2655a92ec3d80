"""Calendars define times at which jobs that refer to them do not fire: holidays, change freezes, weekends.

A calendar has a time zone and entries. An entry has one of three forms:

    {"dates": ["2026-12-25", "2027-01-01"]}                     closed on these whole days
    {"from": "2026-12-20T00:00", "to": "2027-01-03T00:00"}      closed from `from` (inclusive) to `to` (exclusive)
    {"cron": "0 22 * * FRI", "for": "58h"}                      closed for this duration after each fire of the cron

The closed time after one fire of a cron is a *window* of the entry; schedules of the type `window` are something else.
Times without an offset are wall-clock times of the calendar's zone. A time that a clock change skips means the first
instant after the gap. A time that the clocks show twice means the first occurrence in `from` and the second one in
`to`, so that the entry closes both. `for` is elapsed time.

An instant is closed if any entry of any calendar of the job covers it. Closed time without a break is one *closure*;
the end of a closure is the first open instant after it.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from timeball.domain import duration, instant
from timeball.domain.duration import Duration
from timeball.domain.errors import Invalid
from timeball.domain.instant import DAY, MINUTE, SECOND, Micros
from timeball.domain.schedule import cron, zone
from timeball.domain.schedule.zone import Zone

CalendarName = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:@-]*$")]
Excluded = Literal["skip", "next_open"]
"""The rule for fires during a closure: `skip` drops them, `next_open` replaces them by one fire when the closure ends.
"""

MAX_CALENDARS: Final = 10
"""Maximum number of calendars that one job may refer to."""
MAX_DATES: Final = 5_000
"""Maximum number of dates in one calendar, over all its entries."""
MAX_WINDOW_LENGTH: Final = 366 * DAY

_LOCAL = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_EPOCH = date(1970, 1, 1).toordinal()


class Entry(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One entry of a calendar: either `dates`, or `from` and `to`, or `cron` and `for`; with an optional reason."""

    dates: Annotated[list[Annotated[str, Meta(max_length=10)]], Meta(max_length=1_000)] = []
    since: Annotated[str, Meta(max_length=64)] | None = field(default=None, name="from")
    until: Annotated[str, Meta(max_length=64)] | None = field(default=None, name="to")
    cron: Annotated[str, Meta(max_length=cron.MAX_LENGTH)] | None = None
    length: Duration | None = field(default=None, name="for")
    reason: Annotated[str, Meta(max_length=200)] = ""

    def __post_init__(self) -> None:
        given = {
            name
            for name, value in (
                ("dates", self.dates or None),
                ("from", self.since),
                ("to", self.until),
                ("cron", self.cron),
                ("for", self.length),
            )
            if value is not None
        }
        if given not in ({"dates"}, {"from", "to"}, {"cron", "for"}):
            raise ValueError("an entry has either dates, or from and to, or cron and for")


class Calendar(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A calendar as a user wrote it. `calendar_limits.check` validates the entries separately, because that takes more
    CPU time than decoding."""

    timezone: Annotated[str, Meta(max_length=64)] = "UTC"
    entries: Annotated[list[Entry], Meta(max_length=500)]
    description: Annotated[str, Meta(max_length=4_096)] = ""

    def __post_init__(self) -> None:
        try:
            zone.get(self.timezone)
        except Invalid as error:
            raise ValueError(f"timezone: {error.detail}") from None
        if sum(len(entry.dates) for entry in self.entries) > MAX_DATES:
            raise ValueError(f"entries: a calendar has at most {MAX_DATES:,} dates")

    @property
    def place(self) -> Zone:
        return zone.get(self.timezone)


encode: Final = msgspec.json.Encoder().encode
_decoded: Final = msgspec.json.Decoder(Calendar).decode


@lru_cache(maxsize=1024)
def decode(text: str) -> Calendar:
    """Decode a calendar from the JSON text in the store. Results are cached, because the planner decodes the same
    calendars repeatedly."""
    return _decoded(text)


class NamedCalendar(Struct, frozen=True, kw_only=True):
    """A stored calendar with its tenant, name and version."""

    tenant: str
    name: str
    calendar: Calendar
    version: int
    updated_at: Micros


# --- evaluation of entries ----------------------------------------------------------------------------------------


def length_of(entry: Entry) -> Micros:
    """Return the length of the windows of an entry with a cron expression. Raise `Invalid` if it cannot be parsed."""
    return duration.parse(entry.length or "", shortest=MINUTE, longest=MAX_WINDOW_LENGTH)


def span_of(entry: Entry, place: Zone) -> tuple[Micros, Micros]:
    """Return the begin and the end of an entry with `from` and `to`. Raise `Invalid` if they cannot be parsed or the
    end is not after the begin."""
    begin, end = _moment(entry.since or "", place, last=False), _moment(entry.until or "", place, last=True)
    if end <= begin:
        raise Invalid(f"'to' ({entry.until}) is not after 'from' ({entry.since})")
    return begin, end


def days_of(entry: Entry) -> list[int]:
    """Return the dates of an entry, in days since the epoch. Raise `Invalid` if a date cannot be parsed."""
    return [_day(text) for text in entry.dates]


def day_span(place: Zone, day: int) -> tuple[Micros, Micros]:
    """Return the instants at which a day (in days since the epoch) begins and ends in a zone."""
    return _shown(place, day * 86_400), _shown(place, (day + 1) * 86_400)


def label_of(entry: Entry, day: int = 0) -> str:
    """Return a label for an entry, for messages. `day` (in days since the epoch) selects the date to show of an entry
    with dates."""
    if entry.cron is not None:
        words = f"{duration.render(length_of(entry))} from {entry.cron!r} on"
    elif entry.dates:
        words = date.fromordinal(day + _EPOCH).isoformat()
    else:
        words = f"{entry.since} to {entry.until}"
    return _labelled(entry, words)


def _labelled(entry: Entry, words: str) -> str:
    return f"{entry.reason} ({words})" if entry.reason else words


def _moment(text: str, place: Zone, *, last: bool) -> Micros:
    if not _LOCAL.fullmatch(text):
        try:
            return instant.parse(text)
        except Invalid:
            raise Invalid(
                f"{text!r} is not a time; write it like 2026-12-20T00:00, or with an offset: 2026-12-20T00:00+01:00"
            ) from None
    try:
        wall = datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise Invalid(f"{text!r} is not a time: {error}") from None
    seconds = (wall.toordinal() - _EPOCH) * 86_400 + wall.hour * 3_600 + wall.minute * 60 + wall.second
    return _bounded(text, _shown(place, seconds, last=last))


def _day(text: str) -> int:
    try:
        if not _DATE.fullmatch(text):
            raise ValueError("write it like 2026-12-25")
        day = date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError as error:
        raise Invalid(f"{text!r} is not a date: {error}") from None
    _bounded(text, day * DAY)
    return day


def _bounded(text: str, moment: Micros) -> Micros:
    if not 0 <= moment <= instant.MAX - 2 * DAY:
        raise Invalid(f"{text!r} is outside the years 1970 to 9999")
    return moment


def _shown(place: Zone, wall: int, *, last: bool = False) -> Micros:
    """Return the instant at which the clocks of a zone show a wall time, given in seconds as if it were UTC. If they
    show it twice, return the first instant, or the last one with `last`. If they skip it, return the first instant
    after the gap."""
    found: int | None = None
    for begin, end, offset in place.spans(wall - 3 * 86_400):
        if begin + offset > wall and found is not None:
            break
        if wall < end + offset and (found is None or begin + offset <= wall):
            found = max(begin, wall - offset)
            if not last:
                break
        if begin > wall + 3 * 86_400:
            break
    return (wall if found is None else found) * SECOND
