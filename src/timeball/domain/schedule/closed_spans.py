"""Lists the closed times of one calendar in a range of time, for display, in steps and in bounded time."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from msgspec import Struct

from timeball.domain.instant import DAY, Micros
from timeball.domain.schedule.calendar import Calendar
from timeball.domain.schedule.calendar_timeline import Timeline, timeline

MAX_RANGE: Final = 400 * DAY
"""Longest range of one list: a year in any time zone, and the weeks around it."""
MAX_SPANS: Final = 2_000
"""Maximum number of closed times in one list."""
MAX_WORK: Final = 100_000
"""Units of work (about 3 microseconds each) after which a list ends early."""


class ClosedSpan(Struct, frozen=True):
    """A range of time that one entry closes. Where several entries close the same time, `calendar_timeline` selects
    one."""

    since: Micros
    until: Micros
    entry: int
    """The position of the entry in the calendar, from 0 on."""
    label: str


class ClosedSpans(Struct, frozen=True):
    spans: list[ClosedSpan]
    """The closed times, in order. They do not overlap, and they do not reach beyond the range."""
    until: Micros
    """The end of the list. It is before the end of the range if the list reached a limit."""


def closed_spans(source: Calendar, since: Micros, until: Micros) -> Generator[None, None, ClosedSpans]:
    """Return the closed times from `since` to `until`. Because their number and the work are limited, the list may end
    earlier, at `ClosedSpans.until`. The generator yields after each step of about a millisecond."""
    line = timeline(source)
    found: list[ClosedSpan] = []
    at, work = since, 0
    while at < until:
        page = line.page(at)
        work += page.charge()
        for begin, end, owner in zip(page.begins, page.ends, page.owners, strict=True):
            if end > at and begin < until:
                _add(found, line, (max(begin, at), min(end, until)), owner)
                if len(found) > MAX_SPANS:
                    rest = found.pop()
                    return ClosedSpans(found, rest.since)
        at = min(page.until, until)
        if work > MAX_WORK:
            break
        yield
    return ClosedSpans(found, at)


def _add(found: list[ClosedSpan], line: Timeline, span: tuple[Micros, Micros], owner: int) -> None:
    """Append a closed time. If it continues the last one, because a page ended within it, extend that one instead."""
    begin, end = span
    new = ClosedSpan(begin, end, line.number(owner), line.label(owner, begin))
    last = found[-1] if found else None
    if last is not None and (last.until, last.entry, last.label) == (begin, new.entry, new.label):
        new = ClosedSpan(last.since, end, last.entry, last.label)
        found.pop()
    found.append(new)
