"""The expected fires of cron schedules, by brute force: written from SPEC §2 alone, slow, and without any code of the
engine.

A field becomes a set by trying every value; a day, hour, minute and second of the wall clock is walked and
looked up in those sets; `zoneinfo` (over the pinned tzdata package) says when, and how often, a wall time
happens: PEP 495's `fold` tells the two sides of a clock change apart.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib import resources
from io import BytesIO
from itertools import pairwise
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MONTHS = ["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@cache
def zone_names() -> tuple[str, ...]:
    return tuple(sorted(resources.files("tzdata").joinpath("zones").read_text().split()))


@cache
def zone_data(name: str) -> bytes:
    return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


@cache
def zone_info(name: str) -> ZoneInfo:
    return ZoneInfo.from_file(BytesIO(zone_data(name)), key=name)


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


def moment(micros: int) -> datetime:
    return EPOCH + micros * MICROSECOND


def to_number(text: str) -> int:
    for names in (MONTHS, WEEKDAYS):
        if text in names[-12:]:
            return names.index(text)
    return int(text)


@cache
def expand(text: str, low: int, high: int, field: str, spread: str) -> frozenset[int]:
    """The values of a field without L, W and #, Sunday still as 0 or 7."""
    values: set[int] = set()
    for item in text.split(","):
        body, _, step_text = item.partition("/")
        step = int(step_text or "1")
        if body in ("*", "?"):
            first, last = low, high
        elif body.startswith("h"):
            digest = hashlib.blake2b(f"{field}\0{spread}".encode(), digest_size=8).hexdigest()
            given = re.findall(r"\w+", body[1:])
            first, last = (to_number(given[0]), to_number(given[1])) if given else (low, high)
            if not given and field == "day of month":
                last = 28
            if given and given[1] == "sun" and first > 0:
                last = 7
            if step_text:
                first += int(digest, 16) % step
            else:
                first = last = first + int(digest, 16) % (last - first + 1)
        elif "-" in body:
            start, end = body.split("-")
            first, last = to_number(start), to_number(end)
            if end == "sun" and first > 0:
                last = 7
        elif step_text:
            first, last = to_number(body) % 7 if field == "day of week" else to_number(body), high
        else:
            first = last = to_number(body)
        values |= {value for value in range(first, last + 1) if (value - first) % step == 0}
    return frozenset(values)


def last_day(day: date) -> int:
    return ((day.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)).day


def is_workday(day: date) -> bool:
    return day.isoweekday() <= 5


def nearest_workday(day: date) -> date:
    same_month = [day + timedelta(days=distance) for distance in (0, -1, 1, -2, 2)]
    return next(near for near in same_month if near.month == day.month and is_workday(near))


def matches_day_of_month(text: str, day: date, spread: str) -> bool:
    for item in text.split(","):
        last = last_day(day)
        if item == "lw":
            target = nearest_workday(day.replace(day=last)).day
        elif item.endswith("w"):
            wanted = int(item[:-1])
            target = nearest_workday(day.replace(day=wanted)).day if wanted <= last else -1
        elif item.startswith("l"):
            target = last - int(item[2:] or "0")
        else:
            target = day.day if day.day in expand(item, 1, 31, "day of month", spread) else -1
        if target == day.day:
            return True
    return False


def matches_day_of_week(text: str, day: date, spread: str) -> bool:
    today = day.isoweekday() % 7
    for item in text.split(","):
        if "#" in item:
            name, nth = item.split("#")
            if today == to_number(name) % 7 and (day.day + 6) // 7 == int(nth):
                return True
        elif item.endswith("l"):
            if today == to_number(item[:-1]) % 7 and (day + timedelta(days=7)).month != day.month:
                return True
        elif today in {value % 7 for value in expand(item, 0, 6, "day of week", spread)}:
            return True
    return False


@dataclass
class Oracle:
    """One expression. `fires` is the truth about it."""

    expression: str
    spread: str = ""

    def __post_init__(self) -> None:
        text = self.expression.strip().lower()
        fields = MACROS.get(text, text).split()
        if len(fields) == 5:
            fields = ["0", *fields]
        second, minute, hour, self.day_of_month, month, self.day_of_week = fields
        self.seconds = expand(second, 0, 59, "second", self.spread)
        self.minutes = expand(minute, 0, 59, "minute", self.spread)
        self.hours = expand(hour, 0, 23, "hour", self.spread)
        self.months = expand(month, 1, 12, "month", self.spread)
        self.is_fixed = not (minute.startswith("*") or hour.startswith("*"))
        self.either = not (self.day_of_month[0] in "*?" or self.day_of_week[0] in "*?")

    def per_day(self) -> int:
        return len(self.seconds) * len(self.minutes) * len(self.hours)

    def matches_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_month_day = matches_day_of_month(self.day_of_month, day, self.spread)
        by_weekday = matches_day_of_week(self.day_of_week, day, self.spread)
        return by_month_day or by_weekday if self.either else by_month_day and by_weekday

    def walls(self, first: datetime, last: datetime) -> Iterator[datetime]:
        """Every matching time of the wall clock, as a naive datetime, in the hours from `first` to `last`."""
        hour = first.replace(minute=0, second=0, microsecond=0)
        while hour <= last:
            tomorrow = hour.replace(hour=0) + timedelta(days=1)
            if not self.matches_day(hour.date()):
                hour = tomorrow
            while hour < tomorrow and hour <= last:
                for minute in range(60) if hour.hour in self.hours else ():
                    for second in range(60) if minute in self.minutes else ():
                        if second in self.seconds:
                            yield hour.replace(minute=minute, second=second)
                hour += timedelta(hours=1)

    def fires(self, zone: ZoneInfo, after: int, until: int, dst_gap: str, dst_overlap: str) -> list[int]:
        """Every fire later than `after` and not later than `until`."""
        found = set()
        begin, end = (moment(limit).astimezone(zone).replace(tzinfo=None) for limit in (after, until))
        # Wall times before and after those limits can happen between them: as far as the clocks moved.
        margin = abs((end - begin) - timedelta(microseconds=until - after)) + timedelta(hours=3)
        for wall in self.walls(begin - margin, end + margin):
            happens = instants_of(wall, zone)
            if not self.is_fixed:
                found |= set(happens)
            elif happens:
                found |= set(happens if dst_overlap == "both" else happens[:1])
            elif dst_gap == "run":
                found.add(end_of_gap(wall, zone))
        return sorted(fire for fire in found if after < fire <= until)


def instants_of(wall: datetime, zone: ZoneInfo) -> list[int]:
    """The instants at which a wall clock shows this time: none in a gap, two in a repeat, else one."""
    found = set()
    for fold in (0, 1):
        instant = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if instant.astimezone(zone).replace(tzinfo=None, fold=0) == wall:
            found.add(micros(instant))
    return sorted(found)


def end_of_gap(wall: datetime, zone: ZoneInfo) -> int:
    """The first instant after the gap that swallowed this wall time."""
    # Read with the offset before the gap it is after the change, with the offset after the gap before it.
    late = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    early = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return first_difference(zone, early, late)


def first_difference(zone: ZoneInfo, early: datetime, late: datetime) -> int:
    """The first whole second whose offset is not that of `early`, by halving."""
    before = early.astimezone(zone).utcoffset()
    while late - early > timedelta(seconds=1):
        middle = early + (late - early) // 2
        middle -= timedelta(microseconds=middle.microsecond)
        if middle.astimezone(zone).utcoffset() == before:
            early = middle
        else:
            late = middle
    return micros(late)


@cache
def walls_to_look_at() -> list[datetime]:
    """Every six days (no zone has ever changed its clocks twice within them), and some years far ahead."""
    step = timedelta(days=6)
    years = ((1840, 2045), (2099, 2101), (2399, 2402), (9000, 9001))
    spans = [(datetime(first, 1, 1), datetime(last, 1, 1)) for first, last in years]
    return [begin + step * number for begin, end in spans for number in range((end - begin) // step)]


def clock_changes(name: str) -> tuple[int, ...]:
    """The instants at which a zone's clocks change."""
    return changes_in(zone_data(name))


@cache
def changes_in(data: bytes) -> tuple[int, ...]:
    """Many zones are others by another name: what a file says is looked for once."""
    zone = ZoneInfo.from_file(BytesIO(data))
    walls = walls_to_look_at()
    offsets = [zone.utcoffset(wall) for wall in walls]
    return tuple(
        # A look into a gap is told the offset before it, although the change has been: at most a day ago.
        first_difference(
            zone, (earlier - before - timedelta(days=1)).replace(tzinfo=UTC), (later - after).replace(tzinfo=UTC)
        )
        for (earlier, later), (before, after) in zip(pairwise(walls), pairwise(offsets), strict=True)
        if before != after and later - earlier < timedelta(days=7)
    )
