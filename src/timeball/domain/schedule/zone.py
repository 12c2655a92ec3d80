"""Time zones as cron needs them: stretches of time during which wall clocks keep one offset from UTC.

The data is the pinned `tzdata` package, never the machine's own database: two servers of a fleet must agree
on every fire. The files are read here rather than through `zoneinfo`, because `zoneinfo` answers "what is the
offset now" but not "when does it change next", and that question is the whole work of a cron engine around a
clock change. (The tests compare both, over all zones.)

Only the total offset matters. Whether a change is called daylight saving, standard time or a move across the
date line makes no difference to a clock on a wall, so Dublin's negative daylight saving, Troll's two hours
and Apia's lost day need no rule of their own; transitions that change only a name or a flag are dropped.
"""

from __future__ import annotations

import re
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache, lru_cache
from importlib import import_module, resources

from timeball.domain.errors import InvalidSchedule
from timeball.domain.spelling import Spelling

DAY = 86_400
CYCLE = 146_097 * DAY
"""Seconds in 400 Gregorian years. They are whole weeks, so all calendar rules repeat exactly after them."""

_EPOCH = date(1970, 1, 1).toordinal()
_FOREVER = 1 << 62


class Zone:
    """The clock changes of a zone: those on record, then 400 years of the rule in force, over and over."""

    __slots__ = ("_changes", "_offsets", "_repeats", "name", "settled")

    def __init__(
        self, name: str, changes: Iterable[tuple[int, int]], offset: int, *, settled: int | None = None
    ) -> None:
        """`changes` are (instant, offset from then on) in order; `offset` holds before the first of them.

        From `settled` on they repeat every 400 years, and must cover a little more than that;
        without it the last offset stays.
        """
        self.name = name
        self._changes = array("q")
        self._offsets = array("i", [offset])
        for instant, after in changes:
            if self._changes and self._changes[-1] == instant:
                self._changes.pop()
                self._offsets.pop()
            if after != self._offsets[-1]:
                self._changes.append(instant)
                self._offsets.append(after)
        self.settled = max(self._changes, default=0) if settled is None else settled
        self._repeats = _FOREVER if settled is None else settled + CYCLE

    def __repr__(self) -> str:
        return f"Zone({self.name!r})"

    def spans(self, at: int) -> Iterator[tuple[int, int, int]]:
        """The stretches (begin, end, offset), in seconds, from the one that contains `at`, without holes."""
        index, shift = self._find(at)
        begin = self._changes[index - 1] + shift if index else -_FOREVER
        while index < len(self._changes):
            end = self._changes[index] + shift
            yield begin, end, self._offsets[index]
            begin, index = end, index + 1
            if begin - shift >= self._repeats:
                index, shift = self._find(begin)
        yield begin, _FOREVER, self._offsets[index]

    def offset_at(self, instant: int) -> int:
        """Seconds to add to UTC at `instant` (microseconds) to read this zone's wall clocks."""
        return self._offsets[self._find(instant // 1_000_000)[0]]

    def _find(self, at: int) -> tuple[int, int]:
        """How many changes there were up to `at`, and how many seconds of whole cycles to add to their times."""
        shift = (at - self.settled) // CYCLE * CYCLE if at >= self._repeats else 0
        return bisect_right(self._changes, at - shift), shift


@cache
def get(name: str) -> Zone:
    """The zone of this IANA name. Only listed names reach the file system, so no name can point elsewhere."""
    return _read(checked(name), resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes())


def checked(name: str) -> str:
    """Refuse what is no name of a zone, without reading it: that takes milliseconds the first time."""
    if name not in names():
        raise InvalidSchedule(f"there is no time zone {name[:64]!r}{_suggestion(name)}")
    return name


@cache
def names() -> frozenset[str]:
    """Every name `get` knows."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text("ascii").split())


def version() -> str:
    """The release of the time zone database, such as `2025b`."""
    return str(import_module("tzdata").IANA_VERSION)


@lru_cache(maxsize=1_024)
def _suggestion(name: str) -> str:
    """People write `Berlin`, `europe/berlin` or `Europe/Berlni`: compare names and cities, in lower case."""
    meant = _spelling().closest(name[:64].lower().replace(" ", "_"))
    return "; use an IANA name such as 'Europe/Berlin' or 'UTC'" if meant is None else f"; did you mean {meant!r}?"


@cache
def _spelling() -> Spelling:
    known = {city.rpartition("/")[2].lower(): city for city in sorted(names())}
    return Spelling(known | {full.lower(): full for full in names()})


def _read(name: str, data: bytes) -> Zone:
    """Read a TZif file (RFC 9636) of version 2 or later: its second block, with 64-bit times, and footer."""
    second_block = 44 + _block_size(data, 0, time_size=4)
    footer = second_block + 44 + _block_size(data, second_block, time_size=8)
    *_, changes, kinds, _ = _counts(data, second_block)
    at = second_block + 44
    instants = struct.unpack_from(f">{changes}q", data, at)
    chosen = data[at + 8 * changes : at + 9 * changes]
    offsets = [struct.unpack_from(">l", data, at + 9 * changes + 6 * kind)[0] for kind in range(kinds)]
    recorded = [(instant, offsets[kind]) for instant, kind in zip(instants, chosen, strict=True)]

    rule = _Rule.parse(data[footer:].decode("ascii").strip("\n"))
    if rule is None:
        return Zone(name, recorded, offsets[0])
    # At least a year of the rule stands before and after the 400 that repeat, so that every span which
    # touches those begins and ends at a change of the rule, not at one on record.
    last = recorded[-1][0] if recorded else -_FOREVER
    first_year = date.fromordinal(last // DAY + _EPOCH).year if recorded else 1
    settled_year = first_year + 2
    future = [change for year in range(first_year, settled_year + 402) for change in rule.changes(year)]
    future = sorted((change for change in future if change[0] > last), key=lambda change: change[0])
    return Zone(name, recorded + future, offsets[0], settled=_day_number(date(settled_year, 1, 1)) * DAY)


def _counts(data: bytes, at: int) -> tuple[int, ...]:
    """The six counts of a header: UT indicators, standard indicators, leaps, changes, kinds, letters."""
    return struct.unpack_from(">6l", data, at + 20)


def _block_size(data: bytes, at: int, *, time_size: int) -> int:
    utc, standard, leaps, changes, kinds, letters = _counts(data, at)
    return changes * (time_size + 1) + kinds * 6 + letters + leaps * (time_size + 4) + standard + utc


def _day_number(day: date) -> int:
    """Days since 1970-01-01."""
    return day.toordinal() - _EPOCH


_NAME = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)"
_OFFSET = r"[+-]?\d{1,3}(?::\d\d){0,2}"
_DAY = rf"([MJ\d.]+)(?:/({_OFFSET}))?"
_FOOTER = re.compile(rf"{_NAME}({_OFFSET})(?:{_NAME}({_OFFSET})?,{_DAY},{_DAY})?")


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a footer such as `CET-1CEST,M3.5.0,M10.5.0/3` says of the years after the changes on record."""

    standard: int
    summer: int
    start: tuple[str, int]
    end: tuple[str, int]

    @classmethod
    def parse(cls, footer: str) -> _Rule | None:
        """The rule, or None when the offset stays as it is."""
        match = _FOOTER.fullmatch(footer)
        if match is None:
            raise ValueError(f"cannot read the footer {footer!r} of a time zone file")
        standard, summer, start, start_time, end, end_time = match.groups()
        if start is None:
            return None
        # POSIX counts offsets westwards; one hour ahead and 02:00 are its defaults.
        offset = -_seconds(standard)
        return cls(
            standard=offset,
            summer=offset + 3600 if summer is None else -_seconds(summer),
            start=(start, _seconds(start_time or "2")),
            end=(end, _seconds(end_time or "2")),
        )

    def changes(self, year: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """(instant, offset from then on) of both changes of a year; their order depends on the hemisphere."""
        start_day, start_time = self.start
        end_day, end_time = self.end
        return (
            (_rule_day(start_day, year) * DAY + start_time - self.standard, self.summer),
            (_rule_day(end_day, year) * DAY + end_time - self.summer, self.standard),
        )


def _rule_day(form: str, year: int) -> int:
    """The day of `M10.5.0` (last Sunday of October), `J60` (1 March) or `59` (days after 1 January)."""
    if form.startswith("M"):
        month, week, weekday = map(int, form[1:].split("."))
        first = _day_number(date(year, month, 1))
        day = first + (weekday - first - 4) % 7 + 7 * (week - 1)  # day 0 was a Thursday
        return day if date.fromordinal(day + _EPOCH).month == month else day - 7
    if form.startswith("J"):
        return _day_number(date.fromordinal(int(form[1:])).replace(year=year))  # year 1 has no 29 February
    return _day_number(date(year, 1, 1)) + int(form)


def _seconds(text: str) -> int:
    """Seconds of `[+-]h[:mm[:ss]]`."""
    parts = text.lstrip("+-").split(":")
    size = sum(int(part) * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
    return -size if text.startswith("-") else size
