"""Time zones as what cron needs of them: stretches of time during which local clocks keep one offset from UTC.

The data is the pinned `tzdata` package, never the machine's own database: two servers of a fleet must agree
on every fire. The files are read here rather than through `zoneinfo`, because `zoneinfo` answers "what is the
offset now" but not "when does it change next", and that question is the whole work of a cron engine around a
clock change. (The tests compare both, over all zones.)

Only the total offset matters. Whether a change is called daylight saving, standard time or a move across the
date line makes no difference to a clock on a wall, so Dublin's negative daylight saving, Troll's two hours and
Apia's lost day need no rule of their own; transitions that change only a name or a flag are dropped.
"""

from __future__ import annotations

import difflib
import re
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import date
from functools import cache
from importlib import import_module, resources

from timeball.domain.errors import InvalidSchedule

DAY = 86_400
CYCLE = 146_097 * DAY
"""Seconds in 400 Gregorian years. They are whole weeks, so all calendar rules repeat exactly after them."""

_EPOCH = date(1970, 1, 1).toordinal()
_FOREVER = 1 << 62


class Zone:
    """The clock changes of one zone: those on record, then 400 years of the rule in force, then the same again."""

    __slots__ = ("_changes", "_offsets", "_repeats", "name", "settled")

    def __init__(self, name: str, changes: Iterable[tuple[int, int]], offset: int, *, settled: int = -1) -> None:
        """`changes` are (instant, offset from then on) in order, `offset` holds before the first of them.

        With `settled`, they repeat from there on every 400 years and must cover a little more than that.
        Without it, the last offset stays.
        """
        self.name = name
        self._changes = array("q")
        self._offsets = array("l", [offset])
        for instant, after in changes:
            if self._changes and self._changes[-1] == instant:
                self._changes.pop()
                self._offsets.pop()
            if after != self._offsets[-1]:
                self._changes.append(instant)
                self._offsets.append(after)
        self.settled = settled if settled >= 0 else max(self._changes, default=0)
        self._repeats = settled + CYCLE if settled >= 0 else _FOREVER

    def __repr__(self) -> str:
        return f"Zone({self.name!r})"

    def spans(self, at: int) -> Iterator[tuple[int, int, int]]:
        """The stretches (begin, end, offset), in seconds, from the one that contains `at` on, without holes."""
        end = at
        while end < _FOREVER:
            begin, end, offset = self._span(end)
            yield begin, end, offset

    def offset_at(self, instant: int) -> int:
        """Seconds to add to UTC at `instant` (microseconds) to read this zone's wall clocks."""
        return self._span(instant // 1_000_000)[2]

    def _span(self, at: int) -> tuple[int, int, int]:
        shift = 0
        if at >= self._repeats:
            shift = (at - self.settled) // CYCLE * CYCLE
        index = bisect_right(self._changes, at - shift)
        begin = self._changes[index - 1] + shift if index else -_FOREVER
        end = self._changes[index] + shift if index < len(self._changes) else _FOREVER
        return begin, end, self._offsets[index]


@cache
def get(name: str) -> Zone:
    """The zone of this IANA name. Only listed names reach the file system, so no name can point elsewhere."""
    if name not in names():
        raise InvalidSchedule(f"there is no time zone {name[:64]!r}{_suggestion(name)}")
    return _read(name, resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes())


@cache
def names() -> frozenset[str]:
    """Every name `get` knows."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text("ascii").split())


def version() -> str:
    """The release of the time zone database, such as `2025b`."""
    return str(import_module("tzdata").IANA_VERSION)


def _suggestion(name: str) -> str:
    """People write `Berlin`, `europe/berlin` or `Europe/Berlni`: compare whole names and cities, in lower case."""
    meant = name[:64].lower().replace(" ", "_")
    known = {city.rpartition("/")[2].lower(): city for city in sorted(names())}
    known |= {full.lower(): full for full in names()}
    close = difflib.get_close_matches(meant, known, n=1)
    return f"; did you mean {known[close[0]]!r}?" if close else "; use an IANA name such as 'Europe/Berlin' or 'UTC'"


def _read(name: str, data: bytes) -> Zone:
    """Read a TZif file (RFC 9636), version 2 or later: its second block, with 64-bit times, and its footer."""
    second_block = 44 + _block_size(data, 0, time_size=4)
    footer = second_block + 44 + _block_size(data, second_block, time_size=8)
    *_, changes, kinds, _ = _counts(data, second_block)
    at = second_block + 44
    instants = struct.unpack_from(f">{changes}q", data, at)
    chosen = data[at + 8 * changes : at + 9 * changes]
    offsets = [struct.unpack_from(">l", data, at + 9 * changes + 6 * kind)[0] for kind in range(kinds)]
    recorded = [(instant, offsets[kind]) for instant, kind in zip(instants, chosen, strict=True)]

    rule = _Rule(data[footer:].decode("ascii").strip("\n"))
    if rule.changes is None:
        return Zone(name, recorded, offsets[0])
    # A full year of the rule stands before and after the 400 that repeat, so that every span within those
    # begins and ends at a change of the rule, not at one on record.
    last = recorded[-1][0] if recorded else -_FOREVER
    first_year = date.fromordinal(last // DAY + _EPOCH).year if recorded else 1
    settled_year = first_year + 2
    future = [change for year in range(first_year, settled_year + 402) for change in rule.in_year(year)]
    settled = (date(settled_year, 1, 1).toordinal() - _EPOCH) * DAY
    return Zone(name, recorded + sorted(change for change in future if change[0] > last), offsets[0], settled=settled)


def _counts(data: bytes, at: int) -> tuple[int, ...]:
    """The six counts of a header: UT indicators, standard indicators, leaps, changes, kinds, letters."""
    return struct.unpack_from(">6l", data, at + 20)


def _block_size(data: bytes, at: int, *, time_size: int) -> int:
    utc, standard, leaps, changes, kinds, letters = _counts(data, at)
    return changes * (time_size + 1) + kinds * 6 + letters + leaps * (time_size + 4) + standard + utc


_NAME = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)"
_OFFSET = r"[+-]?\d{1,3}(?::\d\d){0,2}"
_FOOTER = re.compile(rf"{_NAME}({_OFFSET})(?:{_NAME}({_OFFSET})?,([^,]+),([^,]+))?")
