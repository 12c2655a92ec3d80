"""Describes a schedule in a sentence: `0 9 * * MON-FRI` is "At 09:00, Monday to Friday".

The sentence is derived from the parsed expression that the engine uses, not from its text. Therefore `*/5` and
`0,5,10,…,55` have the same sentence, `H` is shown as its computed value, and a day that does not exist (31 April) is
omitted. The sentence names wall-clock times, as cron does; the effect of a clock change is shown with each fire
(`preview.py`). There is one exception: "Every 5 minutes" without a range means elapsed time, and is used only if it is
true across every clock change of the zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import product
from typing import Final, assert_never

from timeball.domain import duration, instant
from timeball.domain.instant import DAY, SECOND, Micros, to_datetime
from timeball.domain.schedule import cron, zone
from timeball.domain.schedule.cron import Cron
from timeball.domain.schedule.schedule import (
    SLOT,
    CronSchedule,
    Date,
    Follow,
    Immediate,
    Interval,
    Schedule,
    Window,
    sentence,
)
from timeball.domain.schedule.zone import Zone
from timeball.domain.text.day_text import MONTHS, REGULAR, days
from timeball.domain.text.english import capitalised, every, listed, ordinal, runs, step_of, values

_MAX_TIMES: Final = 6
"""Maximum number of times of day that are listed one by one. `REGULAR` or more times in equal steps are described as
steps instead."""

_HASH = re.compile(r"(?:^|[\s,])H(?:$|[\s,(/])", re.IGNORECASE)
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)$", re.ASCII)

_NOWADAYS: Final = instant.parse("2020-01-01T00:00:00Z") // SECOND
"""Clock changes before this instant do not matter for the sentence about a current schedule."""
_YEAR: Final = 366 * DAY // SECOND


def describe(schedule: Schedule, spread: str = "") -> str:
    """Return a sentence for people. `spread` is the text that `H` hashes; without it, the value of `H` in the sentence
    is only an example."""
    match schedule:
        case Immediate():
            return "Once, as soon as the job is accepted"
        case Date():
            return f"Once, {_moment(schedule.expression)}"
        case Interval():
            return f"{_interval(duration.parse(schedule.expression))}, counted from its start"
        case CronSchedule():
            return _cron(schedule, spread)
        case Window():
            return _window(schedule, spread)
        case Follow():
            return capitalised(sentence(schedule))
        case _:
            assert_never(schedule)


def uses_hash(expression: str) -> bool:
    """True if the expression contains an `H` of its own, not the letter in `THU` or `@hourly`."""
    return _HASH.search(expression) is not None


def clock(time: int, *, seconds: bool = False) -> str:
    """Return a second of the day as a clock shows it."""
    text = f"{time // 3600:02}:{time // 60 % 60:02}"
    return f"{text}:{time % 60:02}" if seconds or time % 60 else text


def rhythm(rule: Cron) -> tuple[int, int, int] | None:
    """Return the step between the times of a day, the first time and the last time, in seconds; None if the steps are
    not equal."""
    seconds, minutes, hours = values(rule.seconds), values(rule.minutes), values(rule.hours)
    if len(seconds) > 1:
        step = step_of(seconds)
        whole = _is_whole(seconds, 60) and _is_row(minutes) and (len(hours) == 1 or len(minutes) == 60)
        even = len(minutes) * len(hours) == 1 or (whole and _is_row(hours))
    elif len(minutes) > 1:
        step = step_of(minutes) * 60
        even = len(hours) == 1 or (_is_whole(minutes, 60) and _is_row(hours))
    else:
        step = step_of(hours) * 3600
        even = True
    if not step or not even:
        return None
    return step, hours[0] * 3600 + minutes[0] * 60 + seconds[0], hours[-1] * 3600 + minutes[-1] * 60 + seconds[-1]


def keeps_step(rule: Cron, shifts: Iterable[int]) -> bool:
    """True if the steps of a rule stay equal over midnight, and over clock changes by these numbers of seconds."""
    found = rhythm(rule)
    if found is None or found[2] + found[0] - found[1] != DAY // SECOND:
        return False
    changes = [shift for shift in shifts if shift]
    return not changes or (not rule.fixed and all(shift % found[0] == 0 for shift in changes))


def _interval(step: Micros) -> str:
    """Return the sentence for an interval. One day is described as 24 hours, because clock changes do not affect it."""
    return "Every 24 hours" if step == DAY else capitalised(every(step))


def _moment(expression: str) -> str:
    """Return `on 1 March 2026 at 02:00 UTC+01:00`, with the offset of the expression."""
    moment = instant.parse(expression)
    offset = _OFFSET.search(expression)
    name = "UTC"
    if offset and offset[2] + offset[3] != "0000":
        sign = -1 if offset[1] == "-" else 1
        moment += sign * (int(offset[2]) * 60 + int(offset[3])) * 60 * SECOND
        name = f"UTC{offset[1]}{offset[2]}:{offset[3]}"
    seconds, fraction = divmod(moment, SECOND)
    time = clock(seconds % (DAY // SECOND), seconds=fraction > 0)
    text = f"{time}.{fraction:06}".rstrip("0") if fraction else time
    local = to_datetime(moment)
    return f"on {local.day} {MONTHS[local.month]} {local.year} at {text} {name}"


def _window(schedule: Window, spread: str) -> str:
    """Return the sentence for a window: the fixed time of the slot, and the window. Without a slot, the time is an
    example."""
    sentence = _cron(schedule.at(spread), spread)
    known = "its slot" if spread.startswith(SLOT) else "an example of a slot"
    return f"{sentence}: {known} between {schedule.since} and {schedule.until}"


def _cron(schedule: CronSchedule, spread: str) -> str:
    rule = cron.parse(schedule.expression, spread=spread)
    time, within_day = _times(rule, zone.get(schedule.timezone))
    sentence = time + days(rule, every_day=within_day, apart=time.startswith("Every"))
    remarks = [] if schedule.timezone == "UTC" else [schedule.timezone]
    if uses_hash(schedule.expression):
        remarks.append("the slot that H gives this job" if spread else "an example of the slot that H gives a job")
    return f"{sentence} ({'; '.join(remarks)})" if remarks else sentence


# --- times of day -------------------------------------------------------------------------------------------------


def _times(rule: Cron, place: Zone) -> tuple[str, bool]:
    """Return the description of the times of a matching day, and True if they cover only a part of the day."""
    seconds, minutes, hours = values(rule.seconds), values(rule.minutes), values(rule.hours)
    regular = rhythm(rule)
    if len(hours) == 24:
        if minutes == seconds == [0]:
            return "Every hour, on the hour", False
        if regular and regular[1] == 0 and regular[0] < 3600 and keeps_step(rule, _shifts(place)):
            return capitalised(every(regular[0] * SECOND)), False
        return _nested(seconds, minutes, hours), False
    precise = seconds != [0]
    count = len(seconds) * len(minutes) * len(hours)
    if regular and count >= REGULAR:
        step, first, last = regular
        span = f"from {clock(first, seconds=precise)} to {clock(last, seconds=precise)}"
        return f"{capitalised(every(step * SECOND))} {span}", True
    if count <= _MAX_TIMES:
        times = (hour * 3600 + minute * 60 + second for hour, minute, second in product(hours, minutes, seconds))
        return f"At {listed([clock(time, seconds=precise) for time in times])}", True
    return _nested(seconds, minutes, hours), True


def _nested(seconds: list[int], minutes: list[int], hours: list[int]) -> str:
    """Describe the times field by field, the smallest unit first: `At minutes 0, 7 and 20 of hours 9 to 17`."""
    within = [_which(hours, "hour", 24)]
    if seconds == [0]:
        return f"{_lead(minutes, 'minute')} of {within[0]}"
    if len(minutes) < 60 or len(hours) < 24:
        within.insert(0, _which(minutes, "minute", 60))
    else:
        within = ["every minute"]
    return f"{_lead(seconds, 'second')} of {' of '.join(within)}"


def _lead(chosen: list[int], unit: str) -> str:
    step = step_of(chosen)
    if len(chosen) == 60:
        return f"Every {unit}"
    if step and len(chosen) >= REGULAR:
        steps = f"{step} {unit}s" if step > 1 else unit
        return f"Every {steps} from {unit} {chosen[0]} to {chosen[-1]}"
    return f"At {_which(chosen, unit, 60)}"


def _which(chosen: list[int], unit: str, size: int) -> str:
    step = step_of(chosen)
    if len(chosen) == size:
        return f"every {unit}"
    if step > 1 and len(chosen) >= REGULAR:
        return f"every {ordinal(step)} {unit} from {chosen[0]} to {chosen[-1]}"
    return f"{unit}{'s' if len(chosen) > 1 else ''} {listed(runs(chosen))}"


def _is_row(chosen: Sequence[int]) -> bool:
    return chosen[-1] - chosen[0] == len(chosen) - 1


def _is_whole(chosen: Sequence[int], size: int) -> bool:
    """True if the values divide the field into equal steps, so that the step is the same across its end."""
    return step_of(chosen) * len(chosen) == size


@cache
def _shifts(place: Zone) -> frozenset[int]:
    """Return the sizes of the clock changes of a zone, in seconds, from `_NOWADAYS` on."""
    found: set[int] = set()
    before: int | None = None
    for begin, _, offset in place.spans(_NOWADAYS):
        if begin > max(place.settled, _NOWADAYS) + 2 * _YEAR:
            break
        if before is not None:
            found.add(offset - before)
        before = offset
    return frozenset(found)
