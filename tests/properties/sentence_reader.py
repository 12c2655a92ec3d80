"""Reads the sentence of a cron schedule, and returns the times of day and the days that it promises.

Written from the English alone, without one line of what makes the sentences. What it cannot read whole is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
UNITS = {"second": 1, "minute": 60, "hour": 3600}


def series(item: str) -> str:
    """A list such as `a, b and c`; the last comma may be an `and` or an `or`."""
    return rf"(?:{item})(?:(?:, | and | or )(?:{item}))*"


MONTH, WEEKDAY = "|".join(MONTHS), "|".join(WEEKDAYS)
CLOCK = r"\d\d:\d\d(?::\d\d)?"
NTH = r"\d+(?:st|nd|rd|th)"
SPAN = r"\d+(?: to \d+)?"
NTHS = series(f"{NTH}(?: to {NTH})?")
OF_MONTH = rf"(?: of (?P<month>the month|every month that has one|every month|{MONTH}))?"

Days = Callable[[date], bool]


@dataclass
class Sentence:
    text: str
    times: set[int]
    """Seconds of a day."""
    days: Days


class Reader:
    def __init__(self, text: str) -> None:
        self.text = text

    def take(self, pattern: str) -> re.Match[str] | None:
        found = re.match(pattern, self.text)
        if found:
            self.text = self.text[found.end() :]
        return found

    def need(self, pattern: str) -> re.Match[str]:
        found = self.take(pattern)
        assert found, f"cannot read {self.text!r}: expected {pattern}"
        return found


def read(text: str) -> Sentence:
    reader = Reader(re.sub(r" \((?!Mon-Fri)[^()]*\)$", "", text))
    times = read_times(reader)
    months = take_season(reader)
    days = read_days(reader)
    assert not reader.text, f"{text!r} goes on with {reader.text!r}"
    return Sentence(text, times, lambda day: day.month in months and days(day))


def read_times(reader: Reader) -> set[int]:
    if reader.take("Every hour, on the hour"):
        return set(range(0, 86_400, 3600))
    if found := reader.take(rf"Every (?:(\d+) )?(\w+?)s? from ({CLOCK}) to ({CLOCK})"):
        step = int(found[1] or 1) * UNITS[found[2]]
        first, last = clock(found[3]), clock(found[4])
        assert (last - first) % step == 0, f"{found[0]!r} does not end on a step"
        return set(range(first, last + 1, step))
    if found := reader.take(rf"At ({series(CLOCK)})"):
        return {clock(time) for time in re.findall(CLOCK, found[1])}
    if found := reader.take(r"Every (?:(\d+) )?(second|minute)s?(?!s| from (?:second|minute)| of)"):
        return set(range(0, 86_400, int(found[1] or 1) * UNITS[found[2]]))
    return read_nested(reader)


def read_nested(reader: Reader) -> set[int]:
    fields = {"second": {0}, "minute": set(range(60)), "hour": set(range(24))}
    if found := reader.take(r"Every (?:(\d+) )?(second|minute)s? from \2 (\d+) to (\d+)"):
        fields[found[2]] = steps(found[3], found[4], found[1] or "1")
    elif found := reader.take(r"Every (second|minute)"):
        fields[found[1]] = set(range(60))
    else:
        found = reader.need(rf"At (second|minute)s? ({series(SPAN)})")
        fields[found[1]] = numbers(found[2])
    while reader.take(" of "):
        if found := reader.take(r"every (\d+)\w\w (minute|hour) from (\d+) to (\d+)"):
            fields[found[2]] = steps(found[3], found[4], found[1])
        elif not reader.take("every (?:minute|hour)"):
            found = reader.need(rf"(minute|hour)s? ({series(SPAN)})")
            fields[found[1]] = numbers(found[2])
    return {
        hour * 3600 + minute * 60 + second
        for hour in fields["hour"]
        for minute in fields["minute"]
        for second in fields["second"]
    }


def take_season(reader: Reader) -> set[int]:
    """The months at the end."""
    if found := re.search(rf",? from ({MONTH}) to ({MONTH})$", reader.text):
        first, last = MONTHS.index(found[1]), MONTHS.index(found[2])
        months = {(first + number) % 12 + 1 for number in range((last - first) % 12 + 1)}
    elif found := re.search(rf",? in ({series(MONTH)})$", reader.text):
        months = {MONTHS.index(name) + 1 for name in re.findall(MONTH, found[1])}
    else:
        return set(range(1, 13))
    reader.text = reader.text[: found.start()]
    return months


def read_days(reader: Reader) -> Days:
    if not reader.text or reader.take(" every day$"):
        return lambda day: True
    if found := reader.take(rf", ({WEEKDAY}) to ({WEEKDAY})"):
        return weekday_span(found[1], found[2])
    if found := reader.take(rf",? every ({series(WEEKDAY)})"):
        return weekday_list(found[1])
    reader.need(",? ")
    terms = [read_term(reader)]
    while reader.take(", (?!if)| and "):
        terms.append(read_term(reader))
    if not reader.take(", if that is "):
        return lambda day: any(term(day) for term in terms)
    conditions = [read_condition(reader)]
    while reader.take(", | or "):
        conditions.append(read_condition(reader))
    return lambda day: any(term(day) for term in terms) and any(condition(day) for condition in conditions)


def read_term(reader: Reader) -> Days:
    if found := reader.take(rf"on every (\d+)\w\w day from the (\d+)\w\w to the (\d+)\w\w{OF_MONTH}"):
        dates = steps(found[2], found[3], found[1])
        return in_month(found, lambda day: day.day in dates)
    if found := reader.take(rf"from the (\d+)\w\w to the (\d+)\w\w{OF_MONTH}"):
        first, last = int(found[1]), int(found[2])
        return in_month(found, lambda day: first <= day.day <= last)
    if found := reader.take(rf"on the (?:({NTHS}) )?day before the last day{OF_MONTH}"):
        back = plain_numbers(found[1] or "1st")
        return in_month(found, lambda day: last_day(day) - day.day in back)
    if found := reader.take(rf"on the last day{OF_MONTH}"):
        return in_month(found, lambda day: day.day == last_day(day))
    if found := reader.take(rf"on the last weekday \(Mon-Fri\){OF_MONTH}"):
        return in_month(found, lambda day: day == nearest_weekday(day, last_day(day)))
    if found := reader.take(rf"on the weekday \(Mon-Fri\) nearest to the (\d+)\w\w{OF_MONTH}"):
        wanted = int(found[1])
        return in_month(found, lambda day: day == nearest_weekday(day, wanted))
    if found := reader.take(rf"on every day from ({WEEKDAY}) to ({WEEKDAY})"):
        return weekday_span(found[1], found[2])
    if found := reader.take(rf"on every ({series(WEEKDAY)})"):
        return weekday_list(found[1])
    if found := reader.take(rf"on the ({series(f'{NTH}|last')}) ({WEEKDAY}){OF_MONTH}"):
        return in_month(found, numbered_weekday(found[1], found[2]))
    found = reader.need(rf"on the ({NTHS}){OF_MONTH}")
    chosen = plain_numbers(found[1])
    if found["month"] == "every month":
        assert max(chosen) <= 28, f"not every month has one: {found[0]!r}"
    return in_month(found, lambda day: day.day in chosen)


def read_condition(reader: Reader) -> Days:
    if found := reader.take(rf"a day from ({WEEKDAY}) to ({WEEKDAY})"):
        return weekday_span(found[1], found[2])
    if found := reader.take(rf"a ({WEEKDAY})"):
        return weekday_list(found[1])
    found = reader.need(rf"the ({series(f'{NTH}|last')}) ({WEEKDAY}) of the month")
    return numbered_weekday(found[1], found[2])


def in_month(found: re.Match[str], days: Days) -> Days:
    name = found["month"]
    if name not in MONTHS:
        return days
    return lambda day: day.month == MONTHS.index(name) + 1 and days(day)


def weekday_span(first: str, last: str) -> Days:
    start, length = WEEKDAYS.index(first), (WEEKDAYS.index(last) - WEEKDAYS.index(first)) % 7
    return lambda day: (day.weekday() - start) % 7 <= length


def weekday_list(names: str) -> Days:
    return lambda day: WEEKDAYS[day.weekday()] in names


def numbered_weekday(which: str, name: str) -> Days:
    weeks = {int(number) for number in re.findall(r"\d+", which)}

    def matches(day: date) -> bool:
        is_last = "last" in which and last_day(day) - day.day < 7
        return WEEKDAYS[day.weekday()] == name and ((day.day + 6) // 7 in weeks or is_last)

    return matches


def nearest_weekday(day: date, wanted: int) -> date | None:
    if wanted > last_day(day):
        return None
    target = day.replace(day=wanted)
    near = [target + timedelta(days=distance) for distance in (0, -1, 1, -2, 2)]
    return next(other for other in near if other.month == day.month and other.weekday() < 5)


def last_day(day: date) -> int:
    return ((day.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)).day


def clock(text: str) -> int:
    hour, minute, second = (*map(int, text.split(":")), 0)[:3]
    return hour * 3600 + minute * 60 + second


def steps(first: str, last: str, step: str) -> set[int]:
    assert (int(last) - int(first)) % int(step) == 0
    return set(range(int(first), int(last) + 1, int(step)))


def numbers(text: str) -> set[int]:
    found = re.findall(r"(\d+)(?: to (\d+))?", text)
    return {number for first, last in found for number in range(int(first), int(last or first) + 1)}


def plain_numbers(ordinals: str) -> set[int]:
    return numbers(re.sub(r"(?<=\d)(?:st|nd|rd|th)", "", ordinals))
