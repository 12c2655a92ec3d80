"""Computes the upcoming fires of a job. With calendars this includes the deferred fire, which replaces the fires of a
closure (`excluded: next_open`)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, takewhile

from timeball.domain.instant import Micros
from timeball.domain.job.job import Job
from timeball.domain.planning.open_fires import fires, open_fires, without
from timeball.domain.schedule.closed_times import OPEN, Closure, Closures


def instants(job: Job, taken: frozenset[Micros] = frozenset()) -> Iterator[Micros]:
    """Return the fires that are not planned yet, in order: they have neither a run nor a ledger row."""
    if job.next_fire_at is None:
        return iter(())
    return without(taken, chain((job.next_fire_at,), fires(job, job.next_fire_at)))


def coming(job: Job, after: Micros, closures: Closures = OPEN) -> Iterator[Micros]:
    """Return the expected fires after an instant: those that are planned as runs already, and further ones, up to the
    job's `max_runs`."""
    if job.deferred_fire is not None:
        return islice((at for at in _fires_after_deferred(job, closures) if at > after), _left(job))
    if job.spec.max_runs is None or job.next_fire_at is None:
        return open_fires(job, after, closures)
    following = job.next_fire_at
    planned = takewhile(lambda at: at < following, open_fires(job, after, closures))
    return chain(planned, islice(open_fires(job, max(after, following - 1), closures), _left(job)))


def _fires_after_deferred(job: Job, closures: Closures) -> Iterator[Micros]:
    first = CalendarFires(job, frozenset(), closures).upcoming
    if first is None:
        return iter(())
    if closures.at(first) is not None:
        return open_fires(job, first - 1, closures)
    return chain((first,), open_fires(job, first, closures))


def _left(job: Job) -> int | None:
    return None if job.spec.max_runs is None else max(0, job.spec.max_runs - job.fired)


class CalendarFires:
    """The upcoming fires of a job with calendars, one at a time: the fires of its schedule and the deferred fire."""

    def __init__(self, job: Job, taken: frozenset[Micros], closures: Closures) -> None:
        self._job, self._taken, self._closures = job, taken, closures
        self.deferred_fire = job.deferred_fire
        self._opens: Micros | None = None
        """The instant of the deferred fire; None if there is none."""
        if job.deferred_fire is None:
            self._raw = instants(job, taken)
        else:
            self._raw = without(taken, fires(job, job.deferred_fire))
            # If an edit of a calendar or of the job ended the closure early, the deferred fire is due at that edit.
            self._defer(closures.opening(max(job.deferred_fire + 1, closures.changed_at, job.updated_at)))
        self._next = next(self._raw, None)

    @property
    def upcoming(self) -> Micros | None:
        if self._opens is None or self._next is None:
            return self._next if self._opens is None else self._opens
        return min(self._opens, self._next)

    def exclude(self, closure: Closure) -> bool:
        """Advance past the instant `upcoming`, which is closed. Return True if it was a fire of the schedule, which is
        thereby excluded. Return False if it was only the deferred fire: its instant was not the real end of the
        closure, because the search for the end had stopped early, so the deferred fire moves to a later instant."""
        if self._opens is not None and (self._next is None or self._opens < self._next):
            self._defer(closure.end)
            return False
        instant = self._advance()
        if instant is not None and self._job.spec.excluded == "next_open":
            self.deferred_fire = instant
            self._defer(closure.end)
        return True

    def take(self) -> None:
        """Advance past the instant `upcoming`, which is open. Its fire also stands for the excluded fires, so that no
        deferred fire is left."""
        self._advance()
        self.deferred_fire = self._opens = None

    def _advance(self) -> Micros | None:
        instant = self.upcoming
        if self._next is not None and self._next == instant:
            self._next = next(self._raw, None)
        return instant

    def _defer(self, opens: Micros) -> None:
        ends = self._job.spec.ends
        if opens in self._taken or (ends is not None and opens > ends):
            self.deferred_fire = self._opens = None
        else:
            self._opens = opens
