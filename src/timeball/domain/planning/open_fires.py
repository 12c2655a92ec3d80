"""When a job fires: the instants of its schedule, and those of them that its calendars leave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from timeball.domain.instant import MAX, Micros
from timeball.domain.job.job import Job
from timeball.domain.schedule import schedule
from timeball.domain.schedule.closed_times import Closure, Closures

PAUSE_CLOSURES: Final = 128
"""Closures without an open instant after which a search for the next open one pauses."""
PAUSE_WORK: Final = 2_000
"""Units of work on calendars (about 3 microseconds each) after which it pauses."""
MAX_PAUSES: Final = 8
"""Pauses after which no open instant is in sight: a thousand closures, or years of a daily schedule."""
MAX_SEARCH_WORK: Final = 8_000
"""Units of work after which none is in sight."""
_SKIPPED_ONE_BY_ONE: Final = 16
"""Closed instants that are passed one by one: to begin anew behind a closure costs as much."""


def fires(job: Job, after: Micros) -> Iterator[Micros]:
    """The instants of a job's schedule after a moment, in order, whatever became of them; of one that follows another
    job, those that wait."""
    if job.spec.follows is not None:
        return (at for at in job.upstream_events if at > after)
    return schedule.fires(job.spec.schedule, job.anchor, after, job.spread, ends=job.spec.ends)


def open_fires(job: Job, after: Micros, closures: Closures) -> Iterator[Micros]:
    """The instants after a moment at which a job with calendars fires, in order. It ends where none is in sight any
    more."""
    pauses, worked = 0, closures.work
    for instant in seek_open_fires(job, after, closures):
        if instant is not None:
            pauses, worked = 0, closures.work
            yield instant
        elif (pauses := pauses + 1) >= MAX_PAUSES or closures.work - worked > MAX_SEARCH_WORK:
            return


def seek_open_fires(job: Job, after: Micros, closures: Closures) -> Iterator[Micros | None]:
    """The same to the end, with None wherever a long search pauses. What is closed is passed at once."""
    opens: Micros | None = None
    ahead = fires(job, after)
    instant = next(ahead, None)
    passed, worked = 0, closures.work
    while instant is not None:
        if opens is not None and opens < instant:
            yield opens
        opens = None
        if (closure := closures.at(instant)) is None:
            passed = 0
            yield instant
            worked = closures.work
            instant = next(ahead, None)
            continue
        while not closure.sure:
            yield None
            closure = closures.at(closure.end) or Closure(closure.calendar, closure.entry, closure.end)
        end = closure.end
        if (passed := passed + 1) % PAUSE_CLOSURES == 0 or closures.work - worked > PAUSE_WORK:
            worked = closures.work
            yield None
        if job.spec.excluded == "next_open" and end <= (MAX - 1 if job.spec.ends is None else job.spec.ends):
            opens = end
        for _ in range(_SKIPPED_ONE_BY_ONE):
            instant = next(ahead, None)
            if instant is None or instant >= end:
                break
        else:
            ahead = fires(job, end - 1)
            instant = next(ahead, None)
    if opens is not None:
        yield opens


def without(taken: frozenset[Micros], ahead: Iterator[Micros]) -> Iterator[Micros]:
    return (at for at in ahead if at not in taken) if taken else ahead
