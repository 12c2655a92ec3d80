"""Computes the closed time of calendar windows that begin at each fire of a cron expression and have a fixed length.

An expression has the same times on each day that it matches. The closed stretches of such a day are therefore computed
once, as a *pattern* of times since midnight; windows that touch or overlap are one stretch of the pattern. While the
clocks do not change, the closed time of a matching day is this pattern, shifted to the day. The cost depends on the
number of days and closed stretches, never on the number of fires: `* * * * * *` for one minute costs as much as
`0 0 * * *` for a day.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Final

from msgspec import Struct

from timeball.domain.schedule import fires
from timeball.domain.schedule.fires import SECOND, Cron
from timeball.domain.schedule.zone import DAY, Zone

Micros = int
_EPOCH = date(1970, 1, 1).toordinal()
_FEW_TIMES: Final = 64
"""Maximum number of fires per day for which the pattern is computed fire by fire. With more fires it is computed on a
bit mask with one bit per second of the day."""


class Month(Struct, frozen=True, gc=False):
    """The days of one month that a stretch of wall time covers, in whole or in part."""

    number: int
    first_weekday: int
    length: int
    before: int
    """The day before the first day of the month, in days since the epoch."""
    days: int
    """A bit mask: bit n is set if the stretch covers day n of the month."""


class Stretch(Struct, frozen=True):
    """Wall times (in seconds) from `start` (inclusive) to `stop` (exclusive) with one offset from UTC. If `landing` is
    set, a clock change skips these wall times, and a fire at one of them takes place at the instant `landing`."""

    start: int
    stop: int
    offset: int
    landing: int | None
    months: tuple[Month, ...] = ()


Clocks = tuple[tuple[Stretch, ...], tuple[Stretch, ...]]
"""Two lists of the stretches of one range of time. The first is for expressions that follow elapsed time, the second
for fixed-time expressions, which follow the wall clock (see the module `fires`)."""


def clocks(place: Zone, since: Micros, until: Micros) -> Clocks:
    """Return the wall times of the instants from `since` (inclusive) to `until` (exclusive), both whole seconds."""
    return _clocks(False, place, since // SECOND, until // SECOND), _clocks(
        True, place, since // SECOND, until // SECOND
    )


def _clocks(fixed: bool, place: Zone, since: int, until: int) -> tuple[Stretch, ...]:
    found: list[Stretch] = []
    for start, stop, offset, landing in fires.stretches(fixed, place, since, until):
        if landing is not None:
            found.append(Stretch(start, stop, offset, landing))
        elif start < (end := min(stop, until + offset)):
            found.append(Stretch(start, end, offset, None, tuple(_months(start // DAY, (end - 1) // DAY))))
    return tuple(found)


def _months(first: int, last: int) -> Iterator[Month]:
    begin, end = date.fromordinal(first + _EPOCH), date.fromordinal(last + _EPOCH)
    for number in range(begin.year * 12 + begin.month - 1, end.year * 12 + end.month):
        year, month = divmod(number, 12)
        ordinal = date(year, month + 1, 1).toordinal()
        length = fires.MONTH_LENGTHS[month] + (month == 1 and fires.is_leap(year))
        before = ordinal - 1 - _EPOCH
        low, high = max(1, first - before), min(length, last - before)
        yield Month(month + 1, ordinal % 7, length, before, (2 << high) - (1 << low))


class CronWindows:
    """The windows of one calendar entry with a cron expression, independent of the time zone."""

    __slots__ = ("_begins", "_days", "_ends", "_rule", "length")

    def __init__(self, rule: Cron, length: Micros) -> None:
        self._rule = rule
        self.length = length
        pattern = _pattern(rule, length)
        self._begins = array("q", [begin for begin, _ in pattern])
        self._ends = array("q", [end for _, end in pattern])
        self._days: dict[tuple[int, int], int] = {}

    @property
    def per_day(self) -> int:
        """Number of closed stretches that begin on a matching day."""
        return len(self._begins)

    def closed(self, since: Micros, until: Micros, near: Clocks) -> Iterator[tuple[Micros, Micros]]:
        """Yield the closed stretches of windows that begin in the wall times of `near`, if they may touch the range
        from `since` to `until`."""
        rule = self._rule
        for stretch in near[rule.fixed]:
            if stretch.landing is not None:
                if fires.first_wall(rule, stretch.start, stretch.stop) < stretch.stop:
                    yield stretch.landing * SECOND, stretch.landing * SECOND + self.length
                continue
            for month in stretch.months:
                for day in fires.bits(self._matching(month)):
                    wall = (month.before + day) * DAY
                    midnight = (wall - stretch.offset) * SECOND
                    # A window of this day may begin at its last second, and so extend `length` beyond its end.
                    if midnight < until and midnight + DAY * SECOND + self.length > since:
                        yield from self._of_day(midnight, stretch.start - wall, stretch.stop - wall, since, until)

    def last_before(self, far: Clocks) -> Micros | None:
        """Return the instant of the last fire in the wall times of `far`; None if there is none."""
        rule = self._rule
        for stretch in reversed(far[rule.fixed]):
            if stretch.landing is not None:
                if fires.first_wall(rule, stretch.start, stretch.stop) < stretch.stop:
                    return stretch.landing * SECOND
                continue
            for month in reversed(stretch.months):
                days = self._matching(month)
                while days:
                    day = days.bit_length() - 1
                    wall = (month.before + day) * DAY
                    time = fires.last_time(rule, min(stretch.stop - wall, DAY) - 1)
                    if time is not None and wall + time >= stretch.start:
                        return (wall + time - stretch.offset) * SECOND
                    days ^= 1 << day
        return None

    def days_in(self, months: Sequence[Month]) -> int:
        """Return the number of days of these months that match the expression."""
        return sum(self._matching(month).bit_count() for month in months)

    def _matching(self, month: Month) -> int:
        if not self._rule.months >> month.number & 1:
            return 0
        kind = (month.first_weekday, month.length)
        days = self._days.get(kind)
        if days is None:
            days = self._days[kind] = self._rule.days_of(*kind)
        return days & month.days

    def _of_day(
        self, midnight: Micros, low: int, high: int, since: Micros, until: Micros
    ) -> Iterator[tuple[Micros, Micros]]:
        """Yield the closed stretches of the fires from second `low` of a day (inclusive) to second `high` (exclusive),
        if they may touch the range from `since` to `until`."""
        begins, ends = self._begins, self._ends
        first, last = 0, len(begins)
        earliest, latest = -1, -1
        if low > 0:
            time = fires.first_time(self._rule, low) if low < DAY else None
            if time is None or time >= high:
                return
            earliest = time * SECOND
            first = bisect_right(begins, earliest) - 1
        if high < DAY:
            time = fires.last_time(self._rule, high - 1)
            if time is None:
                return
            latest = time * SECOND + self.length
            last = bisect_right(begins, time * SECOND)
        since, until = since - midnight, until - midnight
        for at in range(max(first, bisect_right(ends, since)), min(last, bisect_left(begins, until))):
            begin, end = begins[at], ends[at]
            if at == first and earliest > begin:
                begin = earliest
            if at == last - 1 and 0 <= latest < end:
                end = latest
            yield midnight + begin, midnight + end


def _pattern(rule: Cron, length: Micros) -> list[tuple[Micros, Micros]]:
    """Return the closed stretches of the windows of one day, in microseconds since midnight, sorted and without
    overlap."""
    whole, rest = divmod(length, SECOND)
    first, last = fires.first_time(rule, 0), fires.last_time(rule, DAY - 1)
    if first is None or last is None:
        return []
    if whole >= DAY:
        return [(first * SECOND, last * SECOND + length)]
    if rule.hours.bit_count() * rule.minutes.bit_count() * rule.seconds.bit_count() <= _FEW_TIMES:
        return _merged(rule, length)
    hour = sum(rule.seconds << 60 * minute for minute in fires.bits(rule.minutes))
    closed = sum(hour << 3600 * each for each in fires.bits(rule.hours))
    width = 1
    while width < whole:
        step = min(width, whole - width)
        closed |= closed << step
        width += step
    # The mask has whole seconds. A fire in the second in which a stretch ends continues the stretch. A fire in the next
    # second leaves a gap, even if the length has a fraction. So the fraction is added to the end of each stretch.
    seconds = format(closed, "b")[::-1]
    found: list[tuple[Micros, Micros]] = []
    begin = seconds.find("1")
    while begin >= 0:
        end = seconds.find("0", begin)
        end = len(seconds) if end < 0 else end
        found.append((begin * SECOND, end * SECOND + rest))
        begin = seconds.find("1", end)
    return found


def _merged(rule: Cron, length: Micros) -> list[tuple[Micros, Micros]]:
    found: list[tuple[Micros, Micros]] = []
    for hour in fires.bits(rule.hours):
        for minute in fires.bits(rule.minutes):
            for second in fires.bits(rule.seconds):
                begin = (hour * 3600 + minute * 60 + second) * SECOND
                if found and begin <= found[-1][1]:
                    found[-1] = (found[-1][0], begin + length)
                else:
                    found.append((begin, begin + length))
    return found
