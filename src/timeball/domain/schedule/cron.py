"""Parses cron expressions. The result is a `Cron`, or an `InvalidSchedule` whose message says what to correct.

    ┌ second (only in the form with six fields; 0 otherwise)
    │ ┌ minute 0-59
    │ │ ┌ hour 0-23
    │ │ │ ┌ day of month 1-31   L  L-3  LW  15W  ?
    │ │ │ │ ┌ month 1-12 JAN-DEC
    │ │ │ │ │ ┌ day of week 0-7 SUN-SAT (0 and 7 are Sunday)   5L  MON#2  ?
    0 0 2 * * *

Every field accepts `*`, values, `1,2`, `1-5`, `*/5`, `1-30/5`, `5/15` (from 5 to the end) and `H`. Lower and upper
case are equal. `FRI-SUN` ends on the following Sunday; any other range must be ascending.

- If both day fields are restricted, a day matches if either field matches. A field that begins with `*` (also `*/2`)
  or is `?` does not count as restricted; then both fields must match. This is exactly the rule of Vixie cron.
- `15W` is the weekday nearest to the 15th in the same month. `31W`, like a plain `31`, skips months with 30 days.
- `H` is one value for each job, so that jobs are spread over the field. The value is 64 bits of blake2b over the name
  of the field, a NUL and the spread text, modulo the range. `H/15` is every 15th value from such a start. `H(0-29)`
  stays within a range. Plain `H` in the day of month is at most 28, so that it exists in every month.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

from timeball.domain.errors import InvalidSchedule
from timeball.domain.schedule.fires import Cron, fires, next_fire

__all__ = ["MAX_LENGTH", "Cron", "fires", "next_fire", "parse"]

MAX_LENGTH = 256

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_FIVE_WEEKS = range(0, 35, 7)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: Mapping[str, int] = field(default_factory=dict)
    highest: int = 0
    """The largest accepted number, if it is not `high`: day of week accepts 7 for Sunday. 0 means `high`."""
    hash_high: int = 0
    """The largest value of plain `H`, if it is not `high`. 0 means `high`."""

    @property
    def size(self) -> int:
        return self.high - self.low + 1


def _numbered(names: str, start: int) -> dict[str, int]:
    return {name: number for number, name in enumerate(names.split(), start)}


_SECOND = _Field("second", 0, 59)
_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day of month", 1, 31, hash_high=28)
_MONTH = _Field("month", 1, 12, _numbered("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC", 1))
_WEEKDAY = _Field("day of week", 0, 6, _numbered("SUN MON TUE WED THU FRI SAT", 0), highest=7)

_ITEM = re.compile(
    r"""(?: (?P<any>\*)
          | (?P<hash>H) (?: \( (?P<hash_low>\w+) - (?P<hash_high>\w+) \) )?
          | (?P<low>\w+) (?: - (?P<high>\w+) )?
        )
        (?: / (?P<step>\w+) )?""",
    re.VERBOSE | re.ASCII,
)
_BEFORE_END = re.compile(r"L-(\d+)", re.ASCII)
_NEAREST_WEEKDAY = re.compile(r"(\w+)W", re.ASCII)
_NTH_WEEKDAY = re.compile(r"(\w+)#(\w+)", re.ASCII)
_LAST_WEEKDAY = re.compile(r"(\w+)L", re.ASCII)


def parse(expression: str, *, spread: str = "") -> Cron:
    """Parse an expression. `spread` is the text that `H` hashes: the tenant and the name of the job."""
    # Only `H` depends on the spread. Without `H`, all jobs with the same expression share one cached object.
    return _parse(expression, spread if "H" in expression.upper() else "")


@lru_cache(maxsize=4096)
def _parse(expression: str, spread: str) -> Cron:
    second, minute, hour, day, month, weekday = _split(expression)
    days, days_before_end, nearest_weekdays = _parse_days(day, spread)
    weekdays, last_weekdays = _parse_weekdays(weekday, spread)
    cron = Cron(
        expression=expression,
        seconds=_parse_plain(_SECOND, second, spread),
        minutes=_parse_plain(_MINUTE, minute, spread),
        hours=_parse_plain(_HOUR, hour, spread),
        days=days,
        days_before_end=days_before_end,
        nearest_weekdays=nearest_weekdays,
        months=_parse_plain(_MONTH, month, spread),
        weekdays=weekdays,
        last_weekdays=last_weekdays,
        either=not day.startswith(("*", "?")) and not weekday.startswith(("*", "?")),
        fixed=not minute.startswith("*") and not hour.startswith("*"),
    )
    if not _can_match(cron):
        also = "" if weekday in ("*", "?") else f" that is day of week {weekday!r}"
        raise InvalidSchedule(f"{expression!r} never fires: month {month!r} has no day {day!r}{also}, in any year")
    return cron


def _split(expression: str) -> list[str]:
    """Split an expression into six fields, in upper case. The second is 0 if the expression has five fields."""
    if len(expression) > MAX_LENGTH:
        raise InvalidSchedule(f"a cron expression has at most {MAX_LENGTH} characters, not {len(expression)}")
    for character in expression:
        if not (" " <= character <= "~" or character == "\t"):
            raise InvalidSchedule(f"a cron expression is plain ASCII text; {character!r} is not")
    text = expression.strip().upper()
    if text.startswith("@"):
        text = _expand(text.lower())
    fields = text.split()
    if len(fields) == 5:
        return ["0", *fields]
    if len(fields) == 6:
        return fields
    if not fields:
        raise InvalidSchedule("the cron expression is empty")
    hint = "; there is no year field" if len(fields) == 7 else ""
    count = f"{len(fields)} field{'s' if len(fields) > 1 else ''}"
    raise InvalidSchedule(f"{expression!r} has {count}; cron has 5, or 6 with seconds first{hint}")


def _expand(macro: str) -> str:
    if macro in _MACROS:
        return _MACROS[macro]
    if macro == "@reboot":
        raise InvalidSchedule("'@reboot' names no time; use a schedule of type 'immediate' to run once, now")
    if macro.startswith("@every"):
        raise InvalidSchedule(f"{macro!r} is not cron; use a schedule of type 'interval'")
    raise InvalidSchedule(f"there is no {macro!r}; there are {', '.join(_MACROS)}")


def _parse_days(text: str, spread: str) -> tuple[int, int, int]:
    days = before_end = nearest = 0
    for item in _items(_DAY, text):
        if item == "L":
            before_end |= 1
        elif item == "LW":
            nearest |= 1
        elif match := _BEFORE_END.fullmatch(item):
            back = int(match[1])
            if back > 30:
                raise _wrong(_DAY, item, "the largest offset within a month is L-30")
            before_end |= 1 << back
        elif match := _NEAREST_WEEKDAY.fullmatch(item):
            nearest |= 1 << _number(_DAY, match[1], item)
        else:
            days |= _parse_item(_DAY, item, spread)
    return days, before_end, nearest


def _parse_weekdays(text: str, spread: str) -> tuple[int, int]:
    weekdays = last = 0
    for item in _items(_WEEKDAY, text):
        if item == "L":
            raise _wrong(_WEEKDAY, item, "L needs a day of week before it, as in 5L for the last Friday")
        if match := _NTH_WEEKDAY.fullmatch(item):
            if match[2] not in {"1", "2", "3", "4", "5"}:
                raise _wrong(_WEEKDAY, item, "# must be followed by 1 to 5, as in MON#2 for the second Monday")
            weekdays |= 1 << (int(match[2]) - 1) * 7 + _number(_WEEKDAY, match[1], item) % 7
        elif match := _LAST_WEEKDAY.fullmatch(item):
            last |= 1 << _number(_WEEKDAY, match[1], item) % 7
        else:
            plain = _parse_item(_WEEKDAY, item, spread)
            plain = (plain | plain >> 7) & 0b1111111
            weekdays |= sum(plain << week for week in _FIVE_WEEKS)
    return weekdays, last


def _parse_plain(field: _Field, text: str, spread: str) -> int:
    mask = 0
    for item in _items(field, text):
        mask |= _parse_item(field, item, spread)
    return mask


def _items(field: _Field, text: str) -> list[str]:
    if field in (_DAY, _WEEKDAY) and text == "?":
        return ["*"]
    if "?" in text:
        raise _wrong(field, text, "? is allowed only alone, as the day of month or the day of week")
    return text.split(",")


def _parse_item(field: _Field, item: str, spread: str) -> int:
    """Return the bits of one item of a comma-separated list."""
    match = _ITEM.fullmatch(item)
    if match is None:
        raise _wrong(field, item, "expected a value, a range, * or H, with an optional /step" if item else "empty")
    step = _step(field, item, match["step"])
    if match["any"]:
        return _range(field.low, field.high, step)
    if match["hash"]:
        low, high = field.low, field.hash_high or field.high
        if match["hash_low"]:
            low, high = _bounds(field, item, match["hash_low"], match["hash_high"])
        return _hashed(field, item, low, high, step if match["step"] else None, spread)
    if match["high"]:
        return _range(*_bounds(field, item, match["low"], match["high"]), step)
    value = _number(field, match["low"], item)
    if match["step"]:
        # 7 (Sunday) as the start of a step means 0, the first day of the week.
        return _range(value if value <= field.high else field.low, field.high, step)
    return 1 << value


def _range(low: int, high: int, step: int) -> int:
    return sum(1 << value for value in range(low, high + 1, step))


def _hashed(field: _Field, item: str, low: int, high: int, step: int | None, spread: str) -> int:
    digest = blake2b(f"{field.name}\0{spread}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    number = int.from_bytes(digest, "big")
    if step is None:
        return 1 << low + number % (high - low + 1)
    if step > high - low + 1:
        raise _wrong(field, item, f"the step {step} is larger than the range {low}-{high}")
    return _range(low + number % step, high, step)


def _step(field: _Field, item: str, text: str | None) -> int:
    if text is None:
        return 1
    if not text.isdecimal():
        raise _wrong(field, item, f"the step {text!r} is not a number")
    step = int(text)
    if step == 0:
        raise _wrong(field, item, "the step must be at least 1")
    if step > field.size:
        raise _wrong(field, item, f"the step {step} is larger than the field, which has {field.size} values")
    return step


def _bounds(field: _Field, item: str, low_text: str, high_text: str) -> tuple[int, int]:
    low, high = _number(field, low_text, item), _number(field, high_text, item)
    if high_text == "SUN" and low > 0:
        high = 7
    if low > high:
        raise _wrong(field, item, f"the range is reversed; write {high_text}-{low_text}, or two ranges")
    return low, high


def _number(field: _Field, text: str, item: str) -> int:
    if text in field.names:
        return field.names[text]
    highest = field.highest or field.high
    if not text.isdecimal():
        names = f" or {'-'.join((*field.names,)[:: len(field.names) - 1])}" if field.names else ""
        raise _wrong(field, item, f"{text!r} is not one of {field.low}-{highest}{names}")
    value = int(text)
    if not field.low <= value <= highest:
        raise _wrong(field, item, f"{value} is out of range {field.low}-{highest}")
    return value


def _wrong(field: _Field, item: str, reason: str) -> InvalidSchedule:
    return InvalidSchedule(f"{field.name} {item!r}: {reason}")


def _can_match(cron: Cron) -> bool:
    """True if the expression matches a day of any year. Each month is tried with each weekday as its first day, and
    February with 29 days. All of these months occur within 400 years, so an expression that matches a day of one of
    them matches a day of some year."""
    return any(
        cron.days_of(first_weekday, length)
        for month, length in enumerate((31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), 1)
        if cron.months >> month & 1
        for first_weekday in range(7)
    )
