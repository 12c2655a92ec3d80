"""Computes the fires of a cron schedule from a parsed expression and a time zone.

An expression names wall-clock times, and a fire is an instant; the clock changes of the zone relate the two. The time
line is cut into stretches: ranges of wall time that map to instants in one way. Within a stretch only the calendar of
months, days and times matters, and bit masks compute that.

The rules for clock changes are those of Debian's cron. A *fixed-time* job (neither its minute nor its hour field begins
with `*`) follows the wall clock: each wall time that its expression names is due once, when the clock first passes it.

- Clocks go forward: all times in the gap are passed at one instant, the first one after the gap. The job fires at that
  instant, once, even if several of its times are in the gap or the instant itself is one of its times. With
  `dst_gap="skip"` the times in the gap do not count.
- Clocks go back: the times that the clocks show again were passed already, so the job does not fire again. With
  `dst_overlap="both"` it does.

Any other job follows elapsed time: it fires at every instant at which the wall clock matches, so that "every five
minutes" stays every five minutes across both kinds of change.

The rules assume nothing about the size, the hour or the cause of a change. Half an hour in Lord Howe and changes at
midnight (Santiago, Beirut, Cairo) need no special case. A day that a zone skipped (Apia, 30 December 2011) is a gap of
24 hours: the job of that day fires when the next day begins. Debian's own limit of three hours would lose that fire.
"First passes" means the clock's high-water mark, which is well-defined even if two changes are so close together that
their gaps and repeated times overlap. Old local mean times have odd seconds, and so have their fires.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Literal

from timeball.domain.schedule.zone import CYCLE, DAY, Zone

SECOND = 1_000_000
"""Microseconds in a second. `fires` and `next_fire` take and return microseconds since the epoch; inside, the module
computes in whole seconds."""

_EPOCH = date(1970, 1, 1).toordinal()
# The first and the last second that are searched: two days inside the range of `datetime`, so that every fire can be
# shown in every zone.
_EARLIEST = (date.min.toordinal() + 2 - _EPOCH) * DAY
_HORIZON = (date.max.toordinal() - 1 - _EPOCH) * DAY
# Offsets are within 26 hours of UTC, so a stretch that ended three days ago cannot overlap the current wall times.
_MEMORY = 3 * DAY

_FIVE_WEEKS = 0b0000001_0000001_0000001_0000001_0000001
MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

DstGap = Literal["run", "skip"]
DstOverlap = Literal["first", "both"]


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed cron expression. Bit n of a mask stands for the value n. The form is compact: a million of these objects
    fit in memory."""

    expression: str
    seconds: int
    minutes: int
    hours: int
    days: int
    """The matching days of the month, as bits 1 to 31."""
    days_before_end: int
    """Matching days counted from the end of the month. Bit n: the day n days before the last day of the month (`L`,
    `L-3`)."""
    nearest_weekdays: int
    """Bit n: the Monday to Friday nearest to day n (`15W`). Bit 0: the last Monday to Friday of the month (`LW`)."""
    months: int
    """The matching months, as bits 1 to 12."""
    weekdays: int
    """Bit 7 * (n - 1) + d: the nth weekday d of the month, Sunday = 0. A plain weekday has all five bits."""
    last_weekdays: int
    """The last weekdays of the month that match. Bit d: the last weekday d (`5L`), Sunday = 0."""
    either: bool
    """True if both day fields are restricted: a day matches if one of them matches. Otherwise both must match."""
    fixed: bool
    """True if the job follows the wall clock across clock changes; False if it follows elapsed time."""

    def days_of(self, first_weekday: int, length: int) -> int:
        """Return the matching days, as bits 1 to 31, of a month of this length that begins on this weekday."""
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
    """Return the first fire later than `after`; None if there is none before 30 December 9999."""
    first = after // SECOND + 1
    # The calendar and the clock changes both repeat after 400 years. An expression that does not fire in that time
    # never fires, and the search need not continue until the year 9999. With `skip`, times that are always in a gap
    # are the only such expressions.
    limit = max(first, zone.settled) + CYCLE + 2 * _MEMORY
    sought, wall = 1, 0  # no wall time from `sought` to before `wall` matches; initially an empty range
    for start, stop, offset, landing in stretches(cron.fixed, zone, first, limit, dst_gap, dst_overlap):
        if not sought <= start <= wall:
            sought, wall = start, first_wall(cron, start)
        if wall < stop:
            return (wall - offset if landing is None else landing) * SECOND
    return None


def fires(
    cron: Cron, zone: Zone, after: int, *, dst_gap: DstGap = "run", dst_overlap: DstOverlap = "first"
) -> Iterator[int]:
    """Yield all fires later than `after`, in order. The result equals repeated calls of `next_fire`, but is computed
    much faster."""
    first = after // SECOND + 1
    for start, stop, offset, landing in stretches(cron.fixed, zone, first, _HORIZON, dst_gap, dst_overlap):
        if landing is None:
            yield from _instants(cron, start, stop, offset)
        elif first_wall(cron, start, stop) < stop:
            yield landing * SECOND


def stretches(
    fixed: bool, zone: Zone, first: int, limit: int, dst_gap: DstGap = "run", dst_overlap: DstOverlap = "first"
) -> Iterator[tuple[int, int, int, int | None]]:
    """Yield stretches of wall time: `start` (inclusive), `stop` (exclusive), the offset, and the landing, which is the
    instant at which wall times in a gap are due, and None outside a gap.

    The stretches are in the order of their instants. All instants are at or after `first`, and none occurs twice.
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
                # The first wall time after the gap belongs to the landing, so that it does not fire a second time.
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
    """Return the first matching wall time from `start` (inclusive) to `stop` (exclusive); `stop` if there is none."""
    start_day, start_time = divmod(start, DAY)
    for day in _matching_days(cron, start_day, (stop - 1) // DAY):
        time = first_time(cron, start_time if day == start_day else 0)
        if time is not None:
            return min(day * DAY + time, stop)
    return stop


def first_time(cron: Cron, earliest: int) -> int | None:
    """Return the first matching second of a day at or after `earliest`; None if there is none."""
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
    """Return the last matching second of a day at or before `latest`; None if there is none."""
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
    """Yield the instants (microseconds) of all matching wall times from `start` (inclusive) to `stop` (exclusive), hour
    by hour."""
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
    """Yield the matching days from `first` to `last` (both inclusive), month by month."""
    begin = date.fromordinal(first + _EPOCH)
    end = date.fromordinal(last + _EPOCH)
    over = begin.day  # days before this one are ignored; applies to the first month only
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
    """Return the Monday to Friday nearest to a day, within its month; 0 if the month does not have this day."""
    if day > length:
        return 0
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def _weekdays_to_days(weekdays: int, first_weekday: int) -> int:
    """Convert the nth weekdays of a month, as in `Cron.weekdays`, to bits by day, for a month that begins on this
    weekday."""
    before_first = ((1 << first_weekday) - 1) * _FIVE_WEEKS
    return (weekdays & ~before_first) >> first_weekday << 1 | (weekdays & before_first) << 8 - first_weekday


def bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _first_bit(mask: int, start: int = 0) -> int:
    """Return the number of the first bit that is set at or after `start`. The caller makes sure that there is one."""
    rest = mask >> start
    return start + (rest & -rest).bit_length() - 1
