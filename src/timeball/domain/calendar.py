"""Calendars: when jobs that refer to them do not fire. Holidays, freezes, weekends.

A calendar has a time zone and entries, each in one of three forms:

    {"dates": ["2026-12-25", "2027-01-01"]}                     whole days
    {"from": "2026-12-20T00:00", "to": "2027-01-03T00:00"}      from a moment on until before another
    {"cron": "0 22 * * FRI", "for": "58h"}                      so long from each time of a cron expression on

Times without an offset are those of the zone's wall clocks. Where clocks skip such a time, the first instant after the
gap is meant; where they show it twice, `from` means the first time and `to` the second, so that what is closed stays
closed. `for` is elapsed time.

An instant is closed if any entry of any of a job's calendars says so. What is closed without a break is one *closure*;
its end is the first open instant.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections.abc import Sequence
from datetime import date, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from timeball.domain import cron, duration, instant, zone
from timeball.domain.cron import Cron
from timeball.domain.duration import Duration
from timeball.domain.errors import Invalid
from timeball.domain.instant import DAY, MINUTE, SECOND, Micros
from timeball.domain.zone import Zone

CalendarName = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:@-]*$")]
Excluded = Literal["skip", "next_open"]
"""What becomes of fires that fall into a closure: nothing, or one fire for all of them when it ends."""

MOST_CALENDARS: Final = 10
"""That one job may refer to."""
MOST_DATES: Final = 5_000
"""Of one calendar, over all its entries."""
LONGEST_WINDOW: Final = 366 * DAY
MOST_HOPS: Final = 2_000
"""Windows that may follow each other without a break until nobody looks on for an end: then that is where to look
again."""

_LOCAL = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_EPOCH = date(1970, 1, 1).toordinal()


class Entry(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One of: `dates`; `from` and `to`; `cron` and `for`. And why."""

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
        try:
            _rules(self, zone.get("UTC"))
        except Invalid as error:
            raise ValueError(error.detail) from None


class Calendar(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What a user wrote."""

    timezone: Annotated[str, Meta(max_length=64)] = "UTC"
    entries: Annotated[list[Entry], Meta(max_length=500)]
    description: Annotated[str, Meta(max_length=4_096)] = ""

    def __post_init__(self) -> None:
        try:
            place = zone.get(self.timezone)
        except Invalid as error:
            raise ValueError(f"timezone: {error.detail}") from None
        if sum(len(entry.dates) for entry in self.entries) > MOST_DATES:
            raise ValueError(f"entries: a calendar has at most {MOST_DATES:,} dates")
        for at, entry in enumerate(self.entries):
            try:
                _rules(entry, place)
            except Invalid as error:
                raise ValueError(f"entries[{at}]: {error.detail}") from None


encode: Final = msgspec.json.Encoder().encode
_decoded: Final = msgspec.json.Decoder(Calendar).decode


@lru_cache(maxsize=1024)
def decode(text: str) -> Calendar:
    """A calendar as the store holds it. Planners ask for the same ones again and again."""
    return _decoded(text)


class NamedCalendar(Struct, frozen=True, kw_only=True):
    """A calendar as the store holds it."""

    tenant: str
    name: str
    calendar: Calendar
    version: int
    updated_at: Micros


class Closure(Struct, frozen=True):
    """Why an instant is closed, and until when it stays so."""

    calendar: str
    entry: str
    end: Micros
    """The first open instant."""

    @property
    def reason(self) -> str:
        return f"excluded by calendar {self.calendar!r}: {self.entry}"


class Closures:
    """When the calendars of a job are closed."""

    __slots__ = ("_answer", "_block", "_rules", "changed_at", "versions")

    def __init__(self, calendars: Sequence[NamedCalendar] = ()) -> None:
        self._rules = [(each.name, rule) for each in calendars for rule in compiled(each.calendar)]
        self.changed_at = max((each.updated_at for each in calendars), default=0)
        """Since when they are as they are."""
        self.versions = tuple((each.tenant, each.name, each.version) for each in calendars)
        # The last answer, with the stretch of time for which it holds, and the last closure as a whole.
        self._answer: tuple[Micros, Micros, Closure | None] = (0, 0, None)
        self._block: tuple[Micros, Micros] = (0, 0)

    def at(self, moment: Micros) -> Closure | None:
        """The closure that an instant is in; None: it is open. Names the first entry that says so."""
        since, until, known = self._answer
        if since <= moment < until:
            return known
        found: Closure | None = None
        until = instant.MAX + 1
        for name, rule in self._rules:
            inside = rule.inside(moment)
            if inside is not None:
                entry, ends = inside
                found, until = Closure(name, entry, self._end(moment)), min(until, ends)
                break
            until = min(until, rule.begins_after(moment))
        self._answer = (moment, until, found)
        return found

    def opening(self, moment: Micros) -> Micros:
        """The first open instant at or after a moment."""
        closure = self.at(moment)
        return moment if closure is None else closure.end

    @property
    def never_open(self) -> bool:
        """Whether windows follow each other without a break for as long as anybody looks."""
        return self.at(self._end(self.changed_at)) is not None

    def _end(self, moment: Micros) -> Micros:
        since, until = self._block
        if since <= moment < until:
            return until
        end = moment
        for _ in range(MOST_HOPS):
            later = max((ends for _, rule in self._rules if (ends := rule.closed_until(end)) is not None), default=end)
            if later <= end:
                break
            end = later
        self._block = (moment, end)
        return end


OPEN: Final = Closures()
"""Without calendars everything is."""


# --- rules --------------------------------------------------------------------------------------------------------


class _Spans:
    """Stretches of time that are known one by one, cut so that none overlaps another: the first entry counts."""

    def __init__(self, spans: Sequence[tuple[Micros, Micros, str]]) -> None:
        self._pieces = _disjoint(spans)
        self._begins = [begin for begin, _, _ in self._pieces]

    def inside(self, moment: Micros) -> tuple[str, Micros] | None:
        """The entry that an instant is in, and until when that holds."""
        at = bisect_right(self._begins, moment) - 1
        if at < 0 or moment >= self._pieces[at][1]:
            return None
        _, end, label = self._pieces[at]
        return label, end

    def closed_until(self, moment: Micros) -> Micros | None:
        found = self.inside(moment)
        return None if found is None else found[1]

    def begins_after(self, moment: Micros) -> Micros:
        at = bisect_right(self._begins, moment)
        return self._begins[at] if at < len(self._begins) else instant.MAX + 1


class _Windows:
    """So long from each fire of a cron expression on."""

    def __init__(self, rule: Cron, place: Zone, length: Micros, label: str) -> None:
        self._rule, self._place, self._length, self._label = rule, place, length, label

    def inside(self, moment: Micros) -> tuple[str, Micros] | None:
        end = self.closed_until(moment)
        return None if end is None else (self._label, end)

    def closed_until(self, moment: Micros) -> Micros | None:
        """Until when the earliest window that an instant is in lasts."""
        fire = cron.next_fire(self._rule, self._place, moment - self._length)
        return None if fire is None or fire > moment else fire + self._length

    def begins_after(self, moment: Micros) -> Micros:
        fire = cron.next_fire(self._rule, self._place, moment)
        return instant.MAX + 1 if fire is None else fire


Rule = _Spans | _Windows


@lru_cache(maxsize=1024)
def _compiled(text: bytes) -> tuple[Rule, ...]:
    calendar = _decoded(text)
    place = zone.get(calendar.timezone)
    rules: list[Rule] = []
    spans: list[tuple[Micros, Micros, str]] = []
    for entry in calendar.entries:
        found = _rules(entry, place)
        if isinstance(found, _Windows):
            rules.append(found)
        else:
            spans += found
    return (*([_Spans(spans)] if spans else []), *rules)


def compiled(calendar: Calendar) -> tuple[Rule, ...]:
    return _compiled(encode(calendar))


def _rules(entry: Entry, place: Zone) -> list[tuple[Micros, Micros, str]] | _Windows:
    """What an entry comes to, or `Invalid`."""
    if entry.cron is not None and entry.length is not None:
        length = duration.parse(entry.length, shortest=MINUTE, longest=LONGEST_WINDOW)
        label = f"{duration.render(length)} from {entry.cron!r} on"
        return _Windows(cron.parse(entry.cron), place, length, _labelled(entry, label))
    if entry.since is not None and entry.until is not None:
        begin, end = _moment(entry.since, place, last=False), _moment(entry.until, place, last=True)
        if end <= begin:
            raise Invalid(f"'to' ({entry.until}) is not after 'from' ({entry.since})")
        return [(begin, end, _labelled(entry, f"{entry.since} to {entry.until}"))]
    days = [_day(text) for text in entry.dates]
    return [
        (_shown(place, day * 86_400), _shown(place, (day + 1) * 86_400), _labelled(entry, text))
        for day, text in zip(days, entry.dates, strict=True)
    ]


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
    """When the clocks of a zone show a wall time (seconds, as if it were UTC): the first or the last time. If they skip
    it, the first instant after."""
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


def _disjoint(spans: Sequence[tuple[Micros, Micros, str]]) -> list[tuple[Micros, Micros, str]]:
    """The same time, cut into pieces of which each belongs to the first span that covers it."""
    order = sorted(range(len(spans)), key=lambda at: spans[at][0])
    edges = sorted({edge for begin, end, _ in spans for edge in (begin, end)})
    active: list[int] = []
    coming = 0
    pieces: list[tuple[Micros, Micros, str]] = []
    for begin, end in pairwise(edges):
        while coming < len(order) and spans[order[coming]][0] <= begin:
            heapq.heappush(active, order[coming])
            coming += 1
        while active and spans[active[0]][1] <= begin:
            heapq.heappop(active)
        if not active:
            continue
        label = spans[active[0]][2]
        if pieces and pieces[-1][1] == begin and pieces[-1][2] == label:
            begin = pieces.pop()[0]
        pieces.append((begin, end, label))
    return pieces
