"""Preview of a schedule before it is saved: a sentence that describes it, its next fires with their marks, and
warnings.

A fire that a clock change affects has a mark, and a note with the reason:

- `dst_gap`: its wall time does not exist on that day, and the fire was moved to the first instant after the gap;
- `dst_overlap`: its wall time occurs twice on that day.

A fire that a calendar affects has one of these marks:

- `excluded`: the fire is in a closure, and does not run;
- `next_open`: the closure ends, and one fire replaces the excluded ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import cache
from itertools import islice, takewhile
from typing import Final, Literal

from msgspec import Struct

from timeball.domain import instant
from timeball.domain.instant import SECOND, Micros
from timeball.domain.preview.dst import ClockChange, clock_changes
from timeball.domain.preview.warnings import warnings
from timeball.domain.schedule import cron, schedule, zone
from timeball.domain.schedule.calendar import Excluded
from timeball.domain.schedule.closed_times import OPEN, Closures
from timeball.domain.schedule.cron import Cron
from timeball.domain.schedule.schedule import CronSchedule, Date, Immediate, Schedule, Window
from timeball.domain.text.english import length
from timeball.domain.text.schedule_text import describe

Mark = Literal["dst_gap", "dst_overlap", "excluded", "next_open"]

DEFAULT_COUNT: Final = 10
MAX_PREVIEW_COUNT: Final = 1_000
MAX_EXCLUDED: Final = 3
"""Maximum number of excluded fires that are shown for one closure."""


@dataclass(frozen=True, slots=True)
class Fire:
    at: Micros
    offset: int = 0
    """The number of seconds by which the wall clocks of the schedule's zone are ahead of UTC at that instant."""
    mark: Mark | None = None
    note: str = ""

    @property
    def local(self) -> datetime:
        """The local time of the fire. The offset is rounded to minutes, because an offset in RFC 3339 has no seconds;
        that of the zone Africa/Monrovia had seconds until 1972."""
        return instant.to_datetime(self.at).astimezone(_fixed(round(self.offset / 60)))


@dataclass(frozen=True, slots=True)
class Preview:
    description: str
    fires: tuple[Fire, ...]
    warnings: tuple[str, ...]


def _until(end: Micros, instants: Iterator[Micros]) -> Iterator[Micros]:
    return takewhile(lambda at: at < end, instants)


class Marked(Struct, frozen=True):
    """A fire with the mark of a calendar, if there is one."""

    at: Micros
    mark: Literal["excluded", "next_open"] | None = None
    note: str = ""


class Bounds(Struct, frozen=True):
    """The first and the last instant at which a repeating schedule may fire, both inclusive, and its maximum number of
    fires."""

    starts: Micros | None = None
    ends: Micros | None = None
    limit: int | None = None


UNBOUND: Final = Bounds()


def around(
    fires: Callable[[Micros], Iterator[Micros]],
    after: Micros,
    closures: Closures,
    excluded: Excluded,
    ends: Micros | None = None,
) -> Iterator[Marked]:
    """Yield the fires after an instant, with the marks of calendars. `fires` returns the fires of the schedule after
    any instant. For each closure, the first `MAX_EXCLUDED` excluded fires come first, then the fires after it. There is
    no deferred fire after the schedule `ends`. The iterator ends at a closure whose end was not found."""
    ahead = fires(after)
    upcoming = next(ahead, None)
    while upcoming is not None:
        closure = closures.at(upcoming)
        if closure is None:
            yield Marked(upcoming)
            upcoming = next(ahead, None)
            continue
        opening = next(filter(None, closures.seek_opening(upcoming)), None)
        shown = [upcoming, *_until(closure.end, islice(ahead, MAX_EXCLUDED))]
        for place, at in enumerate(shown[:MAX_EXCLUDED]):
            inside = closures.at(at) or closure
            more = f"; more fires are excluded until {instant.render(closure.end)}"
            yield Marked(at, "excluded", inside.reason + (more if place == MAX_EXCLUDED - 1 < len(shown) - 1 else ""))
        if opening is None:
            return
        ahead = fires(opening - 1)
        upcoming = next(ahead, None)
        if excluded == "next_open" and (ends is None or opening <= ends):
            yield Marked(opening, "next_open", f"once for all fires that were {closure.reason}")
            if upcoming == opening:
                upcoming = next(ahead, None)


def preview(
    plan: Schedule,
    now: Micros,
    count: int = DEFAULT_COUNT,
    spread: str = "",
    closures: Closures = OPEN,
    excluded: Excluded = "skip",
    bounds: Bounds = UNBOUND,
) -> Preview:
    """Return the preview of a schedule that takes effect now. `spread` is the text that `H` hashes, if it is known."""
    if isinstance(plan, Immediate):
        marked = [Marked(now)]
    elif isinstance(plan, Date):
        once = instant.parse(plan.expression)
        marked = list(around(lambda after: iter((once,) if once > after else ()), once - 1, closures, excluded))
    else:
        marked = list(islice(_within(bounds, plan, now, spread, closures, excluded), count))
    instants = [each.at for each in marked]
    clocks = plan.at(spread) if isinstance(plan, Window) else plan
    if isinstance(clocks, CronSchedule):
        fires = tuple(_on_clocks(clocks, cron.parse(clocks.expression, spread=spread), now, instants))
    else:
        fires = tuple(Fire(at) for at in instants)
    if closures is not OPEN:
        fires = tuple(_marked(fire, each) for fire, each in zip(fires, marked, strict=True))
    wanted = count if bounds is UNBOUND else min(count, len(instants))  # bounds may leave fewer
    return Preview(describe(plan, spread), fires, tuple(warnings(plan, now, wanted, instants, spread)))


def _within(
    bounds: Bounds, plan: Schedule, now: Micros, spread: str, closures: Closures, excluded: Excluded
) -> Iterator[Marked]:
    anchor = now if bounds.starts is None else bounds.starts

    def fires(after: Micros) -> Iterator[Micros]:
        return schedule.fires(plan, anchor, after, spread, ends=bounds.ends)

    left = bounds.limit
    for each in around(fires, now, closures, excluded, bounds.ends):
        yield each
        if left is not None and each.mark != "excluded":
            left -= 1
            if left == 0:
                return


def _marked(fire: Fire, found: Marked) -> Fire:
    """Return the fire with the mark and the note of a calendar (`excluded` or `next_open`), in place of those of a
    clock change. If the calendar gives none, the fire is returned unchanged.
    """
    return fire if found.mark is None else replace(fire, mark=found.mark, note=found.note)


def _on_clocks(plan: CronSchedule, rule: Cron, now: Micros, instants: Sequence[Micros]) -> Iterator[Fire]:
    """Yield each fire with the UTC offset of its zone, and with the mark and the note of a clock change that affects
    it."""
    if not instants:
        return
    place = zone.get(plan.timezone)
    changes = clock_changes(place, instants[0] // SECOND, instants[-1] // SECOND)
    begins = [change.at for change in changes]
    before = place.offset_at(now)
    for at in instants:
        offset = place.offset_at(at)
        passed = bisect_right(begins, at // SECOND)
        mark, note = None, _moved(offset - before)
        if passed and (found := _after(changes[passed - 1], plan, rule, at // SECOND, offset)):
            mark, note = found
        elif passed < len(changes) and (repeated := _before(changes[passed], plan, rule, at // SECOND, offset)):
            mark, note = "dst_overlap", repeated
        yield Fire(at, offset, mark, note)
        before = offset


def _after(change: ClockChange, plan: CronSchedule, rule: Cron, at: int, offset: int) -> tuple[Mark, str] | None:
    """Return the mark and the note of a fire after a clock change: it was moved to the end of the gap, or its wall time
    occurs for the second time. None if the change does not affect it."""
    if change.at == at and change.shift > 0 and rule.fixed and plan.dst_gap == "run":
        missing, many = change.clocks(change.affected(rule))
        if missing:
            return "dst_gap", f"{missing} {'do' if many else 'does'} not exist: clocks go {change}"
    if at + offset < change.shown:
        return "dst_overlap", f"{change.clock(at + offset)} comes twice: this is the second time"
    return None


def _before(change: ClockChange, plan: CronSchedule, rule: Cron, at: int, offset: int) -> str | None:
    """Return the note of a fire whose wall time the next clock change repeats; None for any other fire."""
    if change.shift >= 0 or at + offset < change.shows:
        return None
    only = rule.fixed and plan.dst_overlap == "first"
    return f"{change.clock(at + offset)} comes twice: this is the first time{', and the only fire' if only else ''}"


def _moved(shift: int) -> str:
    """Return the note of the first fire after a clock change by `shift` seconds that neither moved nor repeated it;
    empty if the clocks did not change."""
    if not shift:
        return ""
    return f"clocks went {'forward' if shift > 0 else 'back'} by {length(abs(shift) * SECOND)}"


@cache
def _fixed(minutes: int) -> timezone:
    return timezone(timedelta(minutes=minutes))
