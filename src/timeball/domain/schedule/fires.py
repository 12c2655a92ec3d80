"""When a cron schedule fires: from a parsed expression and a zone to instants.

An expression speaks of wall clocks, a fire is an instant, and between the two stand the clock changes of the
zone. The time line is cut into stretches: runs of wall time with the way they map to instants. Within a
stretch only a calendar is left, and bitmasks answer that.

Clock changes follow Debian's cron. A *fixed-time* job (neither its minute nor its hour field begins with `*`)
is about the wall clock: each wall time it names is due once, when the clock first passes it.

- Clocks go forward: the times in the gap were passed at one instant, the first after the gap. The job runs
  then, once, however many of its times are in the gap, and also if that instant is one of its own times.
  With `dst_gap="skip"` the times in the gap do not count.
- Clocks go back: what they show again was passed already, so the job does not run again.
  With `dst_overlap="both"` it does.

Any other job is about elapsed time: it fires at every real instant at which the wall clock matches, so that
"every five minutes" has no hole and no pause in either case.

Nothing is assumed about the size, the hour or the cause of a change. Half an hour in Lord Howe and changes
at midnight (Santiago, Beirut, Cairo) are like any other. A day that an island skipped (Apia, 30 December
2011) is a gap of 24 hours: the job of that day runs when the next day begins, where Debian's own limit of
three hours would lose it. "First passes" means the clock's high-water mark, which stays well-defined even if
two changes lie so close together that their gaps and repeats meet. Old local mean times have odd seconds, and
so have their fires.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Literal

from timeball.domain.schedule.zone import CYCLE, DAY, Zone

SECOND = 1_000_000
"""Instants outside this module are microseconds since the epoch; inside, whole seconds will do."""

_EPOCH = date(1970, 1, 1).toordinal()
# Two days short of what `datetime` can hold, so that every fire can be shown in every zone.
_EARLIEST = (date.min.toordinal() + 2 - _EPOCH) * DAY
_HORIZON = (date.max.toordinal() - 1 - _EPOCH) * DAY
# Offsets are within 26 hours of UTC, so a span that ended three days ago cannot overlap what comes now.
_MEMORY = 3 * DAY

_FIVE_WEEKS = 0b0000001_0000001_0000001_0000001_0000001
MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

DstGap = Literal["run", "skip"]
DstOverlap = Literal["first", "both"]


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression. Bit n of a mask stands for the value n; a million of these fit in memory."""

    expression: str
    seconds: int
    minutes: int
    hours: int
    days: int
    """Bits 1 to 31."""
    days_before_end: int
    """Bit n: n days before the last of the month (`L`, `L-3`)."""
    nearest_weekdays: int
    """Bit n: the weekday nearest to the nth (`15W`); bit 0: the last weekday (`LW`)."""
    months: int
    """Bits 1 to 12."""
    weekdays: int
    """Bit 7 * (n - 1) + d: the nth weekday d of the month, Sunday = 0. A plain weekday has all five bits."""
    last_weekdays: int
    """Bit d: the last weekday d of the month (`5L`)."""
    either: bool
    """Both day fields are restricted: it is enough that one of them matches."""
    fixed: bool
    """Bound to the wall clock through clock changes, rather than to elapsed time."""

    def days_of(self, first_weekday: int, length: int) -> int:
        """The matching days, as bits 1 to 31, of a month of this length that begins on this weekday."""
        by_date = self.days
        if self.days_before_end:
            for back in bits(self.days_before_end):
                by_date |= 1 << max(length - back, 0)
        if self.nearest_weekdays:
            for day in bits(self.nearest_weekdays):
                by_date |= 1 << _nearest_weekday(day or length, first_weekday, length)

        by_weekday = _weekdays_to_days(self.weekdays, first_weekday)
        if self.last_weekdays:
            last_week = 0b1111111 << length - 6
            by_weekday |= _weekdays_to_days(self.last_weekdays * _FIVE_WEEKS, first_weekday) & last_week

        whole_month = (2 << length) - 2
        return (by_date | by_weekday if self.either else by_date & by_weekday) & whole_month


def next_fire(
    cron: Cron, zone: Zone, after: int, *, dst_gap: DstGap = "run", dst_overlap: DstOverlap = "first"
) -> int | None:
    """The first fire later than `after`, or None if there is none before 30 December 9999."""
    first = after // SECOND + 1
    # Calendar and clock changes both repeat after 400 years. What did not fire in that time (only times that
    # are always in the gap can, with `skip`) never will, and need not be sought until the year 9999.
    limit = max(first, zone.settled) + CYCLE + 2 * _MEMORY
    sought, wall = 1, 0  # no wall time from `sought` to before `wall` matches; nothing was sought yet
    for start, stop, offset, landing in stretches(cron.fixed, zone, first, limit, dst_gap, dst_overlap):
        if not sought <= start <= wall:
            sought, wall = start, first_wall(cron, start)
        if wall < stop:
            return (wall - offset if landing is None else landing) * SECOND
    return None


def fires(
    cron: Cron, zone: Zone, after: int, *, dst_gap: DstGap = "run", dst_overlap: DstOverlap = "first"
) -> Iterator[int]:
    """All fires later than `after`, in order: what `next_fire` would say again and again, but much faster."""
    first = after // SECOND + 1
    for start, stop, offset, landing in stretches(cron.fixed, zone, first, _HORIZON, dst_gap, dst_overlap):
        if landing is None:
            yield from _instants(cron, start, stop, offset)
        elif first_wall(cron, start, stop) < stop:
            yield landing * SECOND


def stretches(
    fixed: bool, zone: Zone, first: int, limit: int, dst_gap: DstGap = "run", dst_overlap: DstOverlap = "first"
) -> Iterator[tuple[int, int, int, int | None]]:
    """Wall times from `start` to before `stop`, their offset, and where they land if they are in a gap.

    In the order of their instants, all of which are at or after `first`; none of them twice.
    """
    first = max(first, _EARLIEST)
    mark = None
    for begin, end, offset in zone.spans(first - _MEMORY):
        if begin >= min(limit, _HORIZON):
            return
        start = begin + offset
        stop = min(end, _HORIZON) + offset
        if fixed and mark is not None:
            if start > mark and dst_gap == "run":
                # The first valid wall time is part of the landing: there it cannot fire a second time.
                if begin >= first:
                    yield mark, start + 1, offset, begin
                start += 1
            elif start < mark and dst_overlap == "first":
                start = mark
        mark = stop if mark is None else max(mark, stop)
        start = max(start, first + offset)
        if start < stop:
            yield start, stop, offset, None


def first_wall(cron: Cron, start: int, stop: int = _HORIZON + DAY) -> int:
    """The first matching wall time from `start` to before `stop`, or `stop`."""
    start_day, start_time = divmod(start, DAY)
    for day in _matching_days(cron, start_day, (stop - 1) // DAY):
        time = first_time(cron, start_time if day == start_day else 0)
        if time is not None:
            return min(day * DAY + time, stop)
    return stop


def first_time(cron: Cron, earliest: int) -> int | None:
    """The first matching second of a day that is not before `earliest`."""
    hour, rest = divmod(earliest, 3600)
    minute, second = divmod(rest, 60)
    if cron.hours >> hour & 1:
        if cron.minutes >> minute & 1 and cron.seconds >> second:
            return hour * 3600 + minute * 60 + _first_bit(cron.seconds, second)
        if cron.minutes >> minute + 1:
            return hour * 3600 + _first_bit(cron.minutes, minute + 1) * 60 + _first_bit(cron.seconds)
    if cron.hours >> hour + 1:
        hour = _first_bit(cron.hours, hour + 1)
        return hour * 3600 + _first_bit(cron.minutes) * 60 + _first_bit(cron.seconds)
    return None


def last_time(cron: Cron, latest: int) -> int | None:
    """The last matching second of a day that is not after `latest`."""
    hour, rest = divmod(latest, 3600)
    minute, second = divmod(rest, 60)
    if cron.hours >> hour & 1:
        if cron.minutes >> minute & 1 and (seconds := cron.seconds & (2 << second) - 1):
            return hour * 3600 + minute * 60 + seconds.bit_length() - 1
        if minutes := cron.minutes & (1 << minute) - 1:
            return hour * 3600 + (minutes.bit_length() - 1) * 60 + cron.seconds.bit_length() - 1
    if hours := cron.hours & (1 << hour) - 1:
        return (hours.bit_length() - 1) * 3600 + (cron.minutes.bit_length() - 1) * 60 + cron.seconds.bit_length() - 1
    return None


def _instants(cron: Cron, start: int, stop: int, offset: int) -> Iterator[int]:
    """The instants (microseconds) of all matching wall times from `start` to before `stop`, hour by hour."""
    hours = [hour * 3600 for hour in bits(cron.hours)]
    seconds = list(bits(cron.seconds))
    within = [minute * 60 + second for minute in bits(cron.minutes) for second in seconds]
    within_us = [second * SECOND for second in within]
    for day in _matching_days(cron, start // DAY, (stop - 1) // DAY):
        for hour in hours:
            wall = day * DAY + hour
            instant = (wall - offset) * SECOND
            if start <= wall and wall + 3600 <= stop:
                for second in within_us:
                    yield instant + second
            elif start < wall + 3600 and wall < stop:
                for second in within:
                    if start <= wall + second < stop:
                        yield instant + second * SECOND


def _matching_days(cron: Cron, first: int, last: int) -> Iterator[int]:
    """The matching days from `first` to `last`, month by month."""
    begin = date.fromordinal(first + _EPOCH)
    end = date.fromordinal(last + _EPOCH)
    over = begin.day  # days before this one are over; only the first month has such
    months = cron.months >> 1
    for number in range(begin.year * 12 + begin.month - 1, end.year * 12 + end.month):
        if months >> number % 12 & 1:
            year, month = divmod(number, 12)
            ordinal = date(year, month + 1, 1).toordinal()
            length = MONTH_LENGTHS[month] + (month == 1 and is_leap(year))
            for day in bits(cron.days_of(ordinal % 7, length) >> over << over):
                found = ordinal - 1 + day - _EPOCH
                if found > last:
                    return
                yield found
        over = 0


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _nearest_weekday(day: int, first_weekday: int, length: int) -> int:
    """The Monday to Friday nearest to a day, within its month; 0 if the month has no such day."""
    if day > length:
        return 0
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def _weekdays_to_days(weekdays: int, first_weekday: int) -> int:
    """Bits by week and weekday → bits by day of a month that begins on this weekday."""
    before_first = ((1 << first_weekday) - 1) * _FIVE_WEEKS
    return (weekdays & ~before_first) >> first_weekday << 1 | (weekdays & before_first) << 8 - first_weekday


def bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _first_bit(mask: int, start: int = 0) -> int:
    """The first bit that is set at or after `start`; there must be one."""
    rest = mask >> start
    return start + (rest & -rest).bit_length() - 1
