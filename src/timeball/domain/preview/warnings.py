"""Warnings about a schedule: effects that its author may not have intended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, assert_never

from timeball.domain import duration, instant
from timeball.domain.instant import DAY, SECOND, Micros
from timeball.domain.preview.dst import ClockChange, clock_changes
from timeball.domain.schedule import cron, zone
from timeball.domain.schedule.cron import Cron
from timeball.domain.schedule.schedule import CronSchedule, Date, Follow, Immediate, Interval, Schedule, Window
from timeball.domain.text.day_text import WEEKDAYS
from timeball.domain.text.english import counted, ordinal, step_of, values
from timeball.domain.text.schedule_text import keeps_step, uses_hash

_YEAR: Final = 365 * DAY
_ALL_SECONDS: Final = (1 << 60) - 1
_ALL_DAYS: Final = (1 << 32) - 2
_ALL_WEEKDAYS: Final = (1 << 35) - 1
_FOUR_WEEKS: Final = (1 << 28) - 1
_SHORTEST: Final = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_OFTEN: Final = "once a second is the highest frequency at which a schedule can fire"


class _Round(NamedTuple):
    """A field of a cron expression, with the name of the next larger unit. The values of the field restart with each of
    these units: the minutes with each hour."""

    field: str
    name: str
    mask: int
    low: int
    high: int
    goes_on: bool
    """True if two consecutive larger units can both match, such as 09 and 10 in the hour for a rule of minutes. Then
    the last value in one unit is followed by the first value in the next."""


def warnings(plan: Schedule, now: Micros, count: int, fires: Sequence[Micros], spread: str) -> Iterator[str]:
    """Yield the warnings, as sentences for people. `fires` are the next `count` fires, or all if there are fewer."""
    match plan:
        case Immediate():
            return
        case Date():
            if fires[0] <= now:
                yield "this time is in the past: the job runs as soon as it is accepted"
        case Interval():
            yield from _of_fires(now, count, fires)
            if duration.parse(plan.expression) == SECOND:
                yield _OFTEN
        case CronSchedule():
            yield from _of_fires(now, count, fires)
            yield from _of_cron(plan, now, spread)
        case Window():
            yield from _of_cron(plan.at(spread), now, spread)
        case Follow():
            return
        case _:
            assert_never(plan)


def _of_fires(now: Micros, count: int, fires: Sequence[Micros]) -> Iterator[str]:
    if fires and fires[0] - now > _YEAR:
        yield f"the first fire is more than a year away, at {instant.render(fires[0])}"
    if not fires:
        yield f"the schedule never fires after {instant.render(now)}"
    elif len(fires) < count:
        yield f"the schedule fires only {counted(len(fires), 'time')} before the end of the year 9999"


def _of_cron(plan: CronSchedule, now: Micros, spread: str) -> Iterator[str]:
    rule = cron.parse(plan.expression, spread=spread)
    if uses_hash(plan.expression) and not spread:
        yield "H derives the slot of a job from its name; without a name the slot shown here is only an example"
    fields = _fields(plan.expression)
    yield from _of_mistakable_stars(rule)
    yield from _of_both_day_fields(rule, fields)
    yield from _of_rare_days(rule)
    yield from _of_uneven_steps(rule, fields)
    yield from _of_clock_changes(plan, rule, now)


def _fields(expression: str) -> list[str]:
    """Return the six fields of an expression as text; an empty list for a macro, which needs no warnings."""
    fields = expression.upper().split()
    if fields[0].startswith("@"):
        return []
    return fields if len(fields) == 6 else ["0", *fields]


def _of_mistakable_stars(rule: Cron) -> Iterator[str]:
    hours = rule.hours.bit_count()
    if rule.seconds == _ALL_SECONDS:
        if rule.minutes == _ALL_SECONDS and hours == 24:
            yield _OFTEN
        else:
            yield "the first of six fields is the second: the job fires 60 times per matching minute; use 0 for once"
    elif rule.minutes == _ALL_SECONDS and hours == rule.seconds.bit_count() == 1:
        yield "every minute of the hour matches: the job fires 60 times in it; use a number such as 0 for once"


def _of_both_day_fields(rule: Cron, fields: Sequence[str]) -> Iterator[str]:
    any_day, any_weekday = rule.days == _ALL_DAYS, rule.weekdays == _ALL_WEEKDAYS
    if not rule.either:
        if not any_day and not any_weekday:
            star, text = ("day of month", fields[3]) if fields[3].startswith("*") else ("day of week", fields[5])
            yield f"{star} {text!r} begins with *, so a day must match both day fields"
    elif any_day or any_weekday:
        wide, text = ("day of month", fields[3]) if any_day else ("day of week", fields[5])
        yield f"{wide} {text!r} matches every day, and one matching day field is enough: the other has no effect"
    else:
        yield "both day fields are restricted: a day fires if it matches either of them, not only if it matches both"


def _of_rare_days(rule: Cron) -> Iterator[str]:
    """Yield warnings about days that some months do not have."""
    if rule.either:
        return
    first = min([*values(rule.days), *values(rule.nearest_weekdays)], default=0)
    if first > 28 and not rule.days_before_end:
        months = values(rule.months)
        if months == [2]:
            yield "29 February exists in leap years only"
        elif any(first > _SHORTEST[month] for month in months):
            yield f"months without a {ordinal(first)} are skipped; L is the last day of every month"
    if not rule.weekdays & _FOUR_WEEKS and not rule.last_weekdays:
        day = values(rule.weekdays)[0] % 7
        yield f"not every month has a 5th {WEEKDAYS[day]}; {day}L is the last one of every month"


def _of_uneven_steps(rule: Cron, fields: Sequence[str]) -> Iterator[str]:
    """Yield warnings about steps that do not divide their field, because they restart with each larger unit."""
    rounds = (
        _Round("second", "minute", rule.seconds, 0, 59, _goes_on(rule.minutes, 60)),
        _Round("minute", "hour", rule.minutes, 0, 59, _goes_on(rule.hours, 24)),
        _Round("hour", "day", rule.hours, 0, 23, True),
        _Round("day of month", "month", rule.days, 1, 31, True),
        _Round("month", "year", rule.months, 1, 12, True),
        _Round("day of week", "week", rule.weekdays & 0b1111111, 0, 6, True),
    )
    for text, turn in zip(fields, rounds, strict=False):
        chosen = values(turn.mask)
        step = step_of(chosen)
        if "/" not in text or "," in text or step < 2 or not turn.goes_on or chosen[-1] + step <= turn.high:
            continue
        unit = turn.field.removesuffix(" of month").removesuffix(" of week")
        again = chosen[0] + turn.high - turn.low + 1 - chosen[-1]
        anew = f"{turn.field} {text!r} restarts every {turn.name}"
        if turn.field == "day of month":
            yield f"{anew}: its last step may be shorter than {step} days"
        elif again != step:
            yield f"{anew}: its last step is {counted(again, unit)}, not {step}"


def _goes_on(mask: int, size: int) -> bool:
    """True if the mask has two adjacent values, also across its end."""
    return bool(mask & (mask >> 1 | (mask & 1) << size - 1))


def _of_clock_changes(plan: CronSchedule, rule: Cron, now: Micros) -> Iterator[str]:
    """Yield warnings about the clock changes of the coming year that affect a fire."""
    start, end = now // SECOND, (now + _YEAR) // SECOND
    for change in clock_changes(zone.get(plan.timezone), start, end):
        if start < change.at <= end and not keeps_step(rule, [change.shift]):
            times, many = change.clocks(change.affected(rule))
            if times:
                effect = _effect(plan, rule, change, many)
                yield f"on {change.date} clocks in {plan.timezone} go {change}: {times} {effect}"


def _effect(plan: CronSchedule, rule: Cron, change: ClockChange, many: bool) -> str:
    if change.shift < 0:
        come, fire = ("come", "fire") if many else ("comes", "fires")
        when = "the first time only" if rule.fixed and plan.dst_overlap == "first" else "both times"
        return f"{come} twice and {fire} {when}"
    if rule.fixed and plan.dst_gap == "run":
        landing = change.clock(change.shows)
        return f"do not exist and fire once, at {landing}" if many else f"does not exist and fires at {landing} instead"
    return "do not exist and do not fire" if many else "does not exist and does not fire"
