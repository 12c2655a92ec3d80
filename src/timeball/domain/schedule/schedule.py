"""The six types of schedule, and the functions that compute their fires.

`fires(schedule, anchor, after)` yields the fires after an instant. `first(schedule, now)` returns the first fire of a
schedule that is set now. The anchor is the instant at which the schedule takes effect: no fire is before it, and an
interval is a fixed grid that starts at it. A schedule that follows another job has no computable fires: the store
creates them when runs of the other job end.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import blake2b
from itertools import takewhile
from typing import Annotated, Final, Literal, assert_never

from msgspec import Meta, Struct, field

from timeball.domain import duration, instant
from timeball.domain.errors import Invalid, InvalidSchedule
from timeball.domain.instant import SECOND, Micros
from timeball.domain.schedule import cron, zone
from timeball.domain.schedule.cron import Cron

ONE_BY_ONE: Final = 4


class _Schedule(
    Struct, frozen=True, gc=False, rename="camel", tag_field="type", forbid_unknown_fields=True, omit_defaults=True
):
    """Base class of all types of schedule."""


class Immediate(_Schedule, frozen=True, tag="immediate"):
    """Fires once, as soon as the job is accepted."""


class Date(_Schedule, frozen=True, tag="date"):
    """Fires once, at a time with a UTC offset (RFC 3339). A time in the past fires immediately."""

    expression: Annotated[str, Meta(max_length=64)]

    def __post_init__(self) -> None:
        _readable(lambda: instant.parse(self.expression))


class CronSchedule(_Schedule, frozen=True, tag="cron"):
    """Fires at the times of a cron expression, in a time zone."""

    expression: str
    timezone: Annotated[str, Meta(max_length=64)] = "UTC"
    dst_gap: Literal["run", "skip"] = "run"
    dst_overlap: Literal["first", "both"] = "first"

    def __post_init__(self) -> None:
        _readable(lambda: (cron.parse(self.expression, spread="check"), zone.checked(self.timezone)))


class Interval(_Schedule, frozen=True, tag="interval"):
    """Fires on a fixed grid: the first fire is one interval after the job's `startAt`, or else after the creation of
    the job or the last change of its interval."""

    expression: duration.Duration

    def __post_init__(self) -> None:
        _readable(lambda: duration.parse(self.expression, shortest=SECOND))


Weekday = Literal["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]
_WEEKDAYS: Final[tuple[Weekday, ...]] = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?|24:00(?::00)?", re.ASCII)
_DAY: Final = 86_400


class Window(_Schedule, frozen=True, tag="window"):
    """Fires once a day, between two times. The exact time is chosen when the job is created, in the minute with the
    fewest other fires, and does not change later. A window may extend over midnight; `days` are the days on which it
    begins."""

    since: Annotated[str, Meta(max_length=8)] = field(name="from")
    until: Annotated[str, Meta(max_length=8)] = field(name="to")
    timezone: Annotated[str, Meta(max_length=64)] = "UTC"
    days: Annotated[list[Weekday], Meta(max_length=7)] = []
    """The weekdays on which the window begins. An empty list means every day."""
    dst_gap: Literal["run", "skip"] = "run"
    dst_overlap: Literal["first", "both"] = "first"

    def __post_init__(self) -> None:
        _readable(lambda: (self.begin, self.length, zone.checked(self.timezone)))
        if not self.length:
            raise ValueError(f"a window from {self.since} to {self.until} is empty; the whole day is 00:00 to 24:00")

    @property
    def begin(self) -> int:
        """The second of the day at which the window begins."""
        return _second(self.since) % _DAY

    @property
    def length(self) -> int:
        """The length of the window in seconds."""
        until = _second(self.until)
        return until - self.begin if until > self.begin else (until - self.begin) % _DAY

    def same_place(self, other: Schedule) -> bool:
        """True if both windows have the same times, zone and days, so that a slot of one is valid in the other."""
        if not isinstance(other, Window):
            return False
        mine, others = (self.begin, self.length), (other.begin, other.length)
        return mine == others and self.timezone == other.timezone and set(self.days) == set(other.days)

    def at(self, spread: str) -> CronSchedule:
        """Return the fixed daily time of a job in this window: its slot, or, if the job has no slot yet, a time that is
        derived from a hash of `spread`."""
        if spread.startswith(SLOT):
            second = int(spread.removeprefix(SLOT))
        else:
            digest = blake2b(f"window\0{spread}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
            second = (self.begin + int.from_bytes(digest) % self.length) % _DAY
        # A slot after midnight is on the day after the one on which the window begins.
        late = second < self.begin
        days = sorted({(_WEEKDAYS.index(day) + late) % 7 for day in self.days})
        text = f"{second % 60} {second // 60 % 60} {second // 3600} * * {','.join(map(str, days)) or '*'}"
        return CronSchedule(text, self.timezone, self.dst_gap, self.dst_overlap)


On = Literal["succeeded", "failed", "finished"]


class Follow(_Schedule, frozen=True, tag="follow"):
    """Fires once for each run of another job that ends: after a success, after a final failure, or after either.
    Cancelled, skipped and missed runs cause no fire."""

    job: Annotated[str, Meta(min_length=1, max_length=200)]
    """The id of the other job. A request may give its name instead, if no other job has the same name."""
    on: On = "succeeded"


SLOT: Final = "@"
"""The first character of the `spread` of a job with a slot; the slot follows. Any other `spread` begins with the name
of the tenant, followed by a slash."""

Schedule = Immediate | Date | CronSchedule | Interval | Window | Follow
_ONE_SHOTS: Final = frozenset({Immediate, Date})


_AFTER: Final[dict[On, str]] = {
    "succeeded": "after each success of {}",
    "failed": "after each failure of {}",
    "finished": "after each run of {}",
}


def sentence(follow: Follow, name: str = "") -> str:
    """Return a description of the schedule, such as `after each success of job j_… (nightly)`."""
    return _AFTER[follow.on].format(f"job {follow.job}" + (f" ({name})" if name else ""))


def _second(text: str) -> int:
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise InvalidSchedule(f"{text!r} is not a time of day; write it like 01:00 or 22:30:15")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return _DAY if match[1] is None else hours * 3600 + minutes * 60 + seconds


def _readable(read: Callable[[], object]) -> None:
    try:
        read()
    except Invalid as error:
        raise ValueError(error.detail) from None


def is_one_shot(schedule: Schedule) -> bool:
    return type(schedule) in _ONE_SHOTS


def same_instants(one: Schedule, other: Schedule, one_spread: str, other_spread: str) -> bool:
    """True if both schedules have the same type and, with the same anchor, the same fires, even if they are written
    differently."""
    match one, other:
        case Immediate(), Immediate():
            return True
        case Date(), Date():
            return instant.parse(one.expression) == instant.parse(other.expression)
        case Interval(), Interval():
            return duration.parse(one.expression) == duration.parse(other.expression)
        case CronSchedule(), CronSchedule():
            alike = (one.timezone, one.dst_gap, one.dst_overlap) == (other.timezone, other.dst_gap, other.dst_overlap)
            return alike and _rule(one, one_spread) == _rule(other, other_spread)
        case Window(), Window():
            return same_instants(one.at(one_spread), other.at(other_spread), one_spread, other_spread)
        case Follow(), Follow():
            return one == other
        case _:
            return False


def _rule(schedule: CronSchedule, spread: str) -> Cron:
    """Return the parsed cron expression without its text, for comparison. `spread`, the text that `H` hashes, changes
    the result only if the expression contains an `H`."""
    return dataclasses.replace(_parsed(schedule.expression, spread), expression="")


def first(
    schedule: Schedule, now: Micros, spread: str, *, anchor: Micros | None = None, ends: Micros | None = None
) -> Micros | None:
    """Return the first fire of a schedule that is set now. It takes effect at `anchor`, or now without one. Return None
    if a repeating schedule has no fire until `ends`, and for a schedule that follows another job. `spread` is the text
    that `H` in a cron expression hashes."""
    match schedule:
        case Immediate():
            return now
        case Date():
            return instant.parse(schedule.expression)
        case CronSchedule() | Interval() | Window():
            return next(fires(schedule, now if anchor is None else anchor, now, spread, ends=ends), None)
        case Follow():
            return None
        case _:
            assert_never(schedule)


def fires(
    schedule: Schedule, anchor: Micros, after: Micros, spread: str, *, ends: Micros | None = None
) -> Iterator[Micros]:
    """Return the fires after an instant, in order; those of a repeating schedule up to and including `ends`."""
    match schedule:
        case Immediate() | Date():
            once = anchor if isinstance(schedule, Immediate) else instant.parse(schedule.expression)
            return iter((once,) if once > after else ())
        case CronSchedule():
            endless = _cron_fires(schedule, max(after, anchor - 1), spread)
        case Window():
            endless = _cron_fires(schedule.at(spread), max(after, anchor - 1), spread)
        case Interval():
            endless = _grid(duration.parse(schedule.expression, shortest=SECOND), anchor, after)
        case Follow():
            return iter(())
        case _:
            assert_never(schedule)
    return endless if ends is None else takewhile(lambda fire: fire <= ends, endless)


def _cron_fires(schedule: CronSchedule, after: Micros, spread: str) -> Iterator[Micros]:
    """Yield the fires of a cron schedule. The first `ONE_BY_ONE` fires are computed one by one, because the planner
    needs only two, and starting the stream of a per-second job takes 0.7 ms."""
    rule, place = _parsed(schedule.expression, spread), zone.get(schedule.timezone)
    gap, overlap = schedule.dst_gap, schedule.dst_overlap
    for _ in range(ONE_BY_ONE):
        upcoming = cron.next_fire(rule, place, after, dst_gap=gap, dst_overlap=overlap)
        if upcoming is None:
            return
        yield upcoming
        after = upcoming
    yield from cron.fires(rule, place, after, dst_gap=gap, dst_overlap=overlap)


def _grid(step: Micros, anchor: Micros, after: Micros) -> Iterator[Micros]:
    fire = anchor + max(1, (after - anchor) // step + 1) * step
    while fire <= instant.MAX:
        yield fire
        fire += step


@lru_cache(maxsize=65_536)
def _parsed(expression: str, spread: str) -> Cron:
    return cron.parse(expression, spread=spread)
