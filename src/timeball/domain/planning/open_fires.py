"""Computes the fires of a job: all fires of its schedule, and those that its calendars do not exclude."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from timeball.domain.instant import MAX, Micros
from timeball.domain.job.job import Job
from timeball.domain.schedule import schedule
from timeball.domain.schedule.closed_times import Closure, Closures

PAUSE_CLOSURES: Final = 128
"""Number of closures without an open fire between them after which the search for the next open fire pauses."""
PAUSE_WORK: Final = 2_000
"""Units of work on calendars (about 3 microseconds each) after which the search for the next open fire pauses."""
MAX_PAUSES: Final = 8
"""Number of pauses in a row after which `open_fires` gives up: about a thousand closures, or years of a daily schedule.
"""
MAX_SEARCH_WORK: Final = 8_000
"""Units of work on calendars (about 3 microseconds each) without an open fire after which `open_fires` gives up."""
_SKIPPED_ONE_BY_ONE: Final = 16
"""Number of closed fires that are skipped one by one. Restarting the schedule after the closure costs about as much as
skipping this many."""


def fires(job: Job, after: Micros) -> Iterator[Micros]:
    """Return the fires of a job's schedule after an instant, in order, without regard to calendars and past verdicts.
    For a job that follows another job, these are the stored upstream events that are not planned yet."""
    if job.spec.follows is not None:
        return (at for at in job.upstream_events if at > after)
    return schedule.fires(job.spec.schedule, job.anchor, after, job.spread, ends=job.spec.ends)


def open_fires(job: Job, after: Micros, closures: Closures) -> Iterator[Micros]:
    """Yield the fires of a job after an instant that its calendars do not exclude, in order. With `excluded:
    next_open`, one fire at the end of each closure replaces the excluded ones. The iterator ends if it finds no open
    fire within `MAX_PAUSES` and `MAX_SEARCH_WORK`."""
    pauses, worked = 0, closures.work
    for instant in seek_open_fires(job, after, closures):
        if instant is not None:
            pauses, worked = 0, closures.work
            yield instant
        elif (pauses := pauses + 1) >= MAX_PAUSES or closures.work - worked > MAX_SEARCH_WORK:
            return


def seek_open_fires(job: Job, after: Micros, closures: Closures) -> Iterator[Micros | None]:
    """Yield the same fires as `open_fires`: those that calendars do not exclude, and those that replace excluded ones.
    Unlike there, the search never gives up; it yields None at each pause, so that the caller can stop it. A closure
    with many fires is skipped in one step."""
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
