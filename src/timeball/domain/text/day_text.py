"""Writes the part of the sentence about a schedule that names the days, such as "every Monday". It follows the time of
day."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from timeball.domain.schedule.cron import Cron
from timeball.domain.text.english import listed, ordinal, runs, step_of, values

MONTHS: Final = (
    *("", "January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
REGULAR: Final = 5
"""Minimum number of values in equal steps that are described as steps instead of one by one."""

_LENGTHS: Final = ((0,), (31,), (28, 29), *((length,) for length in (31, 30, 31, 30, 31, 31, 30, 31, 30, 31)))
_ALL_WEEKDAYS: Final = (1 << 35) - 1
_THE_MONTH: Final = "of the month"


@dataclass(frozen=True, slots=True)
class _Term:
    """A part of the sentence that describes some days, such as `on the last day` + `of the month`."""

    text: str
    month: str | None = None
    """The text that follows if the schedule has several months. None if the name of a month cannot follow."""
    alone: str = ""
    """The text to use instead, with the leading blank or comma, if this is the only term."""

    def __str__(self) -> str:
        return f"{self.text} {self.month}" if self.month else self.text


def days(rule: Cron, *, every_day: bool, apart: bool) -> str:
    """Return the description of the days of a rule, with the leading blank or comma. With `every_day`, the text says
    "every day" if the rule matches every day. With `apart`, a comma separates the weekdays from the time."""
    months = [month for month in values(rule.months) if _has_days(rule, month)]
    longest = max(_LENGTHS[month][-1] for month in months)
    whole_month = (2 << longest) - 2
    any_date = rule.days & whole_month == whole_month
    any_weekday = rule.weekdays == _ALL_WEEKDAYS
    season = "" if rule.months.bit_count() == 12 else _season(months)
    if (any_date and any_weekday) or (rule.either and (any_date or any_weekday)):
        return (" every day" if every_day else "") + (f" {season}" if season else "")
    if any_date:
        terms = list(_weekdays(rule, apart=apart))
    elif any_weekday:
        terms = list(_dates(rule, whole_month, every_month=not season))
    elif rule.either:
        terms = [*_dates(rule, whole_month), *_weekdays(rule, apart=apart)]
    else:
        dates = listed([str(term) for term in _dates(rule, whole_month)])
        terms = [_Term(f"{dates}, if that is {_condition(rule)}")]
    return _said(terms, MONTHS[months[0]] if season and len(months) == 1 else "", season)


def _said(terms: list[_Term], only_month: str, season: str) -> str:
    if only_month and all(term.month is not None for term in terms):
        return f" {listed([f'{term.text} of {only_month}' for term in terms])}"
    text = terms[0].alone if len(terms) == 1 and terms[0].alone else f" {listed([str(term) for term in terms])}"
    return f"{text}, {season}" if season else text


def _has_days(rule: Cron, month: int) -> bool:
    return any(rule.days_of(first, length) for length in _LENGTHS[month] for first in range(7))


def _season(months: list[int]) -> str:
    if ends := _row(months, 12, first=1):
        return f"from {MONTHS[ends[0]]} to {MONTHS[ends[1]]}"
    return f"in {listed([MONTHS[month] for month in months])}"


def _row(chosen: list[int], size: int, first: int) -> tuple[int, int] | None:
    """Return the first and the last of three or more consecutive values, also across the end of the year or the week;
    None if the values are not consecutive."""
    starts = [value for value in chosen if (value - 1 - first) % size + first not in chosen]
    if len(chosen) < 3 or len(starts) != 1:
        return None
    return starts[0], (starts[0] + len(chosen) - 1 - first) % size + first


def _dates(rule: Cron, whole_month: int, *, every_month: bool = False) -> Iterator[_Term]:
    chosen = values(rule.days & whole_month)
    step = step_of(chosen)
    if step > 1 and len(chosen) >= REGULAR:
        yield _Term(
            f"on every {ordinal(step)} day from the {ordinal(chosen[0])} to the {ordinal(chosen[-1])}", _THE_MONTH
        )
    elif chosen:
        text = f"on the {_ordinals(chosen)}"
        if step == 1 and len(chosen) > 2:
            text = f"from the {ordinal(chosen[0])} to the {ordinal(chosen[-1])}"
        yield _Term(text, "", f" {text}{_of_every_month(chosen)}" if every_month else "")
    back = [count for count in values(rule.days_before_end) if whole_month >> count + 1]
    if back[:1] == [0]:
        yield _Term("on the last day", _THE_MONTH)
        back = back[1:]
    if back:
        which = "" if back == [1] else f"{_ordinals(back)} "
        yield _Term(f"on the {which}day before the last day", _THE_MONTH)
    near = values(rule.nearest_weekdays & (whole_month | 1))
    if near[:1] == [0]:
        yield _Term("on the last weekday (Mon-Fri)", _THE_MONTH)
        near = near[1:]
    for day in near:
        yield _Term(f"on the weekday (Mon-Fri) nearest to the {ordinal(day)}", "")


def _ordinals(numbers: list[int]) -> str:
    return listed([" to ".join(ordinal(int(end)) for end in run.split(" to ")) for run in runs(numbers)])


def _of_every_month(chosen: list[int]) -> str:
    """Return the text about months after a list of days; empty if only some of the days exist in every month."""
    if chosen[-1] <= 28:
        return " of every month"
    return " of every month that has one" if len(chosen) == 1 else ""


def _weekdays(rule: Cron, *, apart: bool) -> Iterator[_Term]:
    plain = _plain_weekdays(rule)
    if ends := _row(plain, 7, first=0):
        span = f"{WEEKDAYS[ends[0]]} to {WEEKDAYS[ends[1]]}"
        yield _Term(f"on every day from {span}", None, f", {span}")
    elif plain:
        names = f"every {listed([WEEKDAYS[day] for day in _from_monday(plain)])}"
        yield _Term(f"on {names}", None, f"{',' if apart else ''} {names}")
    for day, which in _numbered_weekdays(rule):
        yield _Term(f"on the {listed(which)} {WEEKDAYS[day]}", _THE_MONTH)


def _condition(rule: Cron) -> str:
    """Return the condition on the weekday, for a rule in which a day must match both day fields."""
    plain = _plain_weekdays(rule)
    if ends := _row(plain, 7, first=0):
        terms = [f"a day from {WEEKDAYS[ends[0]]} to {WEEKDAYS[ends[1]]}"]
    else:
        terms = [f"a {WEEKDAYS[day]}" for day in _from_monday(plain)]
    numbered = (f"the {listed(which, 'or')} {WEEKDAYS[day]} {_THE_MONTH}" for day, which in _numbered_weekdays(rule))
    return listed([*terms, *numbered], "or")


def _plain_weekdays(rule: Cron) -> list[int]:
    return [day for day in range(7) if len(_weeks(rule, day)) == 5]


def _numbered_weekdays(rule: Cron) -> Iterator[tuple[int, list[str]]]:
    """Yield the weekdays that match only in some weeks of a month, each with the names of these weeks."""
    for day in _from_monday(range(7)):
        weeks = _weeks(rule, day)
        which = [ordinal(week) for week in weeks]
        if rule.last_weekdays >> day & 1:
            which.append("last")
        if which and len(weeks) < 5:
            yield day, which


def _weeks(rule: Cron, day: int) -> list[int]:
    return [week for week in range(1, 6) if rule.weekdays >> 7 * (week - 1) + day & 1]


def _from_monday(days: Iterable[int]) -> list[int]:
    return sorted(days, key=lambda day: (day - 1) % 7)
