"""Time zones for cron. A zone is a list of stretches of time during which wall clocks have one offset from UTC.

The data comes from the pinned `tzdata` package, never from the database of the machine: all servers of a fleet must
agree on every fire. The module reads the files itself instead of using `zoneinfo`, because `zoneinfo` returns the
offset at an instant but not the next change of the offset, and a cron engine needs the changes. (The tests compare the
offsets of this module with those of `zoneinfo`, over all zones.)

Only the total offset matters. The wall clock does not show whether a change is daylight saving time, standard time or a
move across the date line. Dublin's negative daylight saving time, Troll's two hours and Apia's lost day therefore need
no special rule. Transitions that change only a name or a flag are dropped.
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
"""Seconds in 400 Gregorian years. That is a whole number of weeks, so all calendar rules repeat exactly after it."""

_EPOCH = date(1970, 1, 1).toordinal()
_FOREVER = 1 << 62


class Zone:
    """The clock changes of a zone: the recorded ones, then 400 years of the current rule, repeated without end."""

    __slots__ = ("_changes", "_offsets", "_repeats", "name", "settled")

    def __init__(
        self, name: str, changes: Iterable[tuple[int, int]], offset: int, *, settled: int | None = None
    ) -> None:
        """`changes` are pairs of an instant and the offset from that instant on, in order. `offset` is valid before the
        first of them.

        From `settled` on, the changes repeat every 400 years, and must cover slightly more than 400 years. Without
        `settled`, the last offset stays valid.
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
        """Yield the stretches (begin, end, offset), in seconds, without gaps, from the one that contains `at` on."""
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
        """Return the seconds to add to UTC at `instant` (microseconds) to get the wall-clock time of this zone."""
        return self._offsets[self._find(instant // 1_000_000)[0]]

    def _find(self, at: int) -> tuple[int, int]:
        """Return the number of changes up to `at`, and the seconds of whole 400-year cycles to add to their times."""
        shift = (at - self.settled) // CYCLE * CYCLE if at >= self._repeats else 0
        return bisect_right(self._changes, at - shift), shift


@cache
def get(name: str) -> Zone:
    """Return the zone with this IANA name. Raise `InvalidSchedule` if there is none. Only listed names reach the file
    system, so that a name cannot point to another file."""
    return _read(checked(name), resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes())


def checked(name: str) -> str:
    """Return the name if a zone has it; raise `InvalidSchedule` otherwise. The zone file is not read, because the first
    read takes milliseconds."""
    if name not in names():
        raise InvalidSchedule(f"there is no time zone {name[:64]!r}{_suggestion(name)}")
    return name


@cache
def names() -> frozenset[str]:
    """Return all names that `get` accepts."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text("ascii").split())


def version() -> str:
    """Return the release of the time zone database, such as `2025b`."""
    return str(import_module("tzdata").IANA_VERSION)


@lru_cache(maxsize=1_024)
def _suggestion(name: str) -> str:
    """Return the end of the error message for an unknown name, with the closest known name. Names and cities are
    compared in lower case, to recognize `Berlin`, `europe/berlin` and `Europe/Berlni`."""
    meant = _spelling().closest(name[:64].lower().replace(" ", "_"))
    return "; use an IANA name such as 'Europe/Berlin' or 'UTC'" if meant is None else f"; did you mean {meant!r}?"


@cache
def _spelling() -> Spelling:
    known = {city.rpartition("/")[2].lower(): city for city in sorted(names())}
    return Spelling(known | {full.lower(): full for full in names()})


def _read(name: str, data: bytes) -> Zone:
    """Parse a TZif file (RFC 9636) of version 2 or later: its second block, which has 64-bit times, and its footer."""
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
    # The rule covers at least one more year before and after the 400 years that repeat. Every span that touches the 400
    # years therefore begins and ends at a change of the rule, not at a recorded change.
    last = recorded[-1][0] if recorded else -_FOREVER
    first_year = date.fromordinal(last // DAY + _EPOCH).year if recorded else 1
    settled_year = first_year + 2
    future = [change for year in range(first_year, settled_year + 402) for change in rule.changes(year)]
    future = sorted((change for change in future if change[0] > last), key=lambda change: change[0])
    return Zone(name, recorded + future, offsets[0], settled=_day_number(date(settled_year, 1, 1)) * DAY)


def _counts(data: bytes, at: int) -> tuple[int, ...]:
    """Return the six counts of a header: UT indicators, standard indicators, leaps, changes, kinds, letters."""
    return struct.unpack_from(">6l", data, at + 20)


def _block_size(data: bytes, at: int, *, time_size: int) -> int:
    utc, standard, leaps, changes, kinds, letters = _counts(data, at)
    return changes * (time_size + 1) + kinds * 6 + letters + leaps * (time_size + 4) + standard + utc


def _day_number(day: date) -> int:
    """Return the number of days since 1970-01-01."""
    return day.toordinal() - _EPOCH


_NAME = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)"
_OFFSET = r"[+-]?\d{1,3}(?::\d\d){0,2}"
_DAY = rf"([MJ\d.]+)(?:/({_OFFSET}))?"
_FOOTER = re.compile(rf"{_NAME}({_OFFSET})(?:{_NAME}({_OFFSET})?,{_DAY},{_DAY})?")


@dataclass(frozen=True, slots=True)
class _Rule:
    """The rule for the years after the recorded changes, from a footer such as `CET-1CEST,M3.5.0,M10.5.0/3`."""

    standard: int
    summer: int
    start: tuple[str, int]
    end: tuple[str, int]

    @classmethod
    def parse(cls, footer: str) -> _Rule | None:
        """Parse a footer. Return None if it has no daylight saving time, so that the offset does not change."""
        match = _FOOTER.fullmatch(footer)
        if match is None:
            raise ValueError(f"cannot parse the footer {footer!r} of a time zone file")
        standard, summer, start, start_time, end, end_time = match.groups()
        if start is None:
            return None
        # POSIX counts offsets to the west. Its defaults are one hour of daylight saving time, and changes at 02:00.
        offset = -_seconds(standard)
        return cls(
            standard=offset,
            summer=offset + 3600 if summer is None else -_seconds(summer),
            start=(start, _seconds(start_time or "2")),
            end=(end, _seconds(end_time or "2")),
        )

    def changes(self, year: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the start and the end of summer time in a year, each as an instant and the offset from that instant
        on. In the southern hemisphere, the end is the earlier instant."""
        start_day, start_time = self.start
        end_day, end_time = self.end
        return (
            (_rule_day(start_day, year) * DAY + start_time - self.standard, self.summer),
            (_rule_day(end_day, year) * DAY + end_time - self.summer, self.standard),
        )


def _rule_day(form: str, year: int) -> int:
    """Return the day that `M10.5.0` (last Sunday of October), `J60` (1 March) or `59` (days after 1 January) means in a
    year, in days since 1970-01-01."""
    if form.startswith("M"):
        month, week, weekday = map(int, form[1:].split("."))
        first = _day_number(date(year, month, 1))
        day = first + (weekday - first - 4) % 7 + 7 * (week - 1)  # day 0 was a Thursday
        return day if date.fromordinal(day + _EPOCH).month == month else day - 7
    if form.startswith("J"):
        return _day_number(date.fromordinal(int(form[1:])).replace(year=year))  # year 1 has no 29 February
    return _day_number(date(year, 1, 1)) + int(form)


def _seconds(text: str) -> int:
    """Return the seconds of `[+-]h[:mm[:ss]]`."""
    parts = text.lstrip("+-").split(":")
    size = sum(int(part) * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
    return -size if text.startswith("-") else size
