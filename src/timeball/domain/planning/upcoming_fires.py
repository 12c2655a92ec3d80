"""What lies ahead of a job: the fires to expect, and, with calendars, the fire that is owed for the closed ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, takewhile

from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.planning.open_fires import fires, open_fires, without
from timeball.domain.schedule.closed_times import OPEN, Closure, Closures


def instants(job: Job, taken: frozenset[Micros] = frozenset()) -> Iterator[Micros]:
    """The instants that are neither a run nor a span yet, in order."""
    if job.next_fire_at is None:
        return iter(())
    return without(taken, chain((job.next_fire_at,), fires(job, job.next_fire_at)))


def coming(job: Job, after: Micros, closures: Closures = OPEN) -> Iterator[Micros]:
    """The fires to expect after a moment: those that are runs already, and as many more as the job may have."""
    if job.owed is not None:
        return islice((at for at in _coming_owed(job, closures) if at > after), _left(job))
    if job.spec.max_runs is None or job.next_fire_at is None:
        return open_fires(job, after, closures)
    following = job.next_fire_at
    planned = takewhile(lambda at: at < following, open_fires(job, after, closures))
    return chain(planned, islice(open_fires(job, max(after, following - 1), closures), _left(job)))


def _coming_owed(job: Job, closures: Closures) -> Iterator[Micros]:
    first = Course(job, frozenset(), closures).upcoming
    if first is None:
        return iter(())
    if closures.at(first) is not None:
        return open_fires(job, first - 1, closures)
    return chain((first,), open_fires(job, first, closures))


def _left(job: Job) -> int | None:
    return None if job.spec.max_runs is None else max(0, job.spec.max_runs - job.fired)


class Course:
    """What lies ahead of a job with calendars, instant by instant: those of its schedule, and the fire it is owed."""

    def __init__(self, job: Job, taken: frozenset[Micros], closures: Closures) -> None:
        self._job, self._taken, self._closures = job, taken, closures
        self.owed = job.owed
        self._opens: Micros | None = None
        """When the fire that is owed comes."""
        if job.owed is None:
            self._raw = instants(job, taken)
        else:
            self._raw = without(taken, fires(job, job.owed))
            # Whoever opened them before their time, by an edit of calendar or job, means that moment.
            self._owe(closures.opening(max(job.owed + 1, closures.changed_at, job.updated_at)))
        self._next = next(self._raw, None)

    @property
    def upcoming(self) -> Micros | None:
        if self._opens is None or self._next is None:
            return self._next if self._opens is None else self._opens
        return min(self._opens, self._next)

    def exclude(self, closure: Closure) -> bool:
        """Continue after the upcoming instant, which is closed. False: that was not an instant of the schedule, but
        where the search for the end of a closure had paused."""
        if self._opens is not None and (self._next is None or self._opens < self._next):
            self._owe(closure.end)
            return False
        instant = self._advance()
        if instant is not None and self._job.spec.excluded == "next_open":
            self.owed = instant
            self._owe(closure.end)
        return True

    def take(self) -> None:
        """Go on after the upcoming instant, which is open: nothing is owed any more."""
        self._advance()
        self.owed = self._opens = None

    def _advance(self) -> Micros | None:
        instant = self.upcoming
        if self._next is not None and self._next == instant:
            self._next = next(self._raw, None)
        return instant

    def _owe(self, opens: Micros) -> None:
        ends = self._job.spec.ends
        if opens in self._taken or (ends is not None and opens > ends):
            self.owed = self._opens = None
        else:
            self._opens = opens
