"""What becomes of instants that are late, by the catch-up rule and the start deadline."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import Final

from timeball.domain import duration
from timeball.domain.instant import SECOND, Micros
from timeball.domain.job.job import Job, jitter_of
from timeball.domain.planning.open_fires import open_fires, without
from timeball.domain.run.ledger import TOLERANCE, Origin, Verdict
from timeball.domain.schedule.closed_times import OPEN, Closures

MAX_SCANNED: Final = 500
"""Instants that are looked at in one step of a search for the newest that is late."""
MAX_SEARCH_WORK: Final = 4_000
"""Units of work (about 3 microseconds each) on calendars after which that search pauses."""
NEVER: Final = 0
"""Before every instant."""


class SearchPaused(Exception):
    """Which instant is the newest that is late takes longer to find than one plan may take. What was looked at is known
    by then, so that the next plan gets further."""


class Judge:
    """Decides about the instants of a job, seen from one moment. Lateness counts from when a fire should start, which
    is at its instant and its jitter. One-shots run however late they are, unless they have a deadline."""

    def __init__(
        self, job: Job, now: Micros, taken: frozenset[Micros] = frozenset(), closures: Closures = OPEN
    ) -> None:
        spec = job.spec
        self._job = job
        self._taken = taken
        self._closures = closures
        self._newest: Micros | None = None
        self.late = NEVER if spec.one_shot else now - TOLERANCE
        """What was to start before this is late."""
        self.dropped = self.late
        """What was to start before this is missed, unless it is the newest that is late."""
        if spec.catch_up == "all":
            self.dropped = min(self.late, now - duration.parse(spec.catch_up_window))
        self.expired = NEVER if spec.start_deadline is None else now - duration.parse(spec.start_deadline)
        """What was to start before this must not start any more."""
        self.surely_dropped = self.dropped - (0 if spec.jitter is None else duration.parse(spec.jitter))
        """Instants before this are missed whatever their jitter is, if another such instant follows."""

    def verdict(self, instant: Micros, upcoming: Micros | None) -> Verdict | None:
        """Why an instant becomes no run; None: it becomes one."""
        due_at = instant + jitter_of(self._job, instant)
        if due_at < self.dropped and not (self._job.spec.catch_up != "none" and self._is_newest(instant, upcoming)):
            return Verdict.MISSED
        return Verdict.SKIPPED if due_at < self.expired else None

    def origin(self, instant: Micros) -> Origin:
        return Origin.CATCH_UP if self._is_late(instant) else Origin.SCHEDULE

    def _is_late(self, instant: Micros) -> bool:
        return instant + jitter_of(self._job, instant) < self.late

    def _is_newest(self, instant: Micros, upcoming: Micros | None) -> bool:
        """Whether nothing is late of what follows an instant that is."""
        if upcoming is None or upcoming >= self.late:
            return True
        if self._job.spec.jitter is None and self._closures.at(upcoming) is None:
            return False
        if self._newest is None:
            self._newest = self._find_newest(instant)
        return instant >= self._newest

    def _find_newest(self, since: Micros) -> Micros:
        """The newest instant that is late. With jitter or calendars that need not be the last one: look back further
        and further, but not at more than a few instants at once."""
        width, nothing, too_much, most = SECOND, 0, 0, MAX_SCANNED
        most_work = self._closures.work + MAX_SEARCH_WORK
        while True:
            if self._closures.work > most_work:
                raise SearchPaused
            back = max(self.late - width, since)
            ahead = open_fires(self._job, back, self._closures)
            recent = takewhile(lambda at: at < self.late, without(self._taken, ahead))
            found = list(islice(recent, most))
            late = [at for at in found if self._is_late(at)]
            if len(found) == most:
                too_much = width
            elif late or back == since:
                return late[-1] if late else since
            else:
                nothing = width
            if not too_much:
                width *= 4
            elif too_much - nothing > SECOND:
                width = (nothing + too_much) // 2
            else:
                width, too_much, most = too_much, 0, most * 4
