"""Decides whether a late fire becomes a run, by the catch-up rule and the start deadline of its job."""

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
"""Maximum number of fires that one step of the search for the newest late fire reads."""
MAX_SEARCH_WORK: Final = 4_000
"""Units of work on calendars (about 3 microseconds each) after which the search for the newest late fire pauses."""
NEVER: Final = 0
"""An instant before every fire. As a limit, it means that no fire is late or expired."""


class SearchPaused(Exception):
    """Raised when the search for the newest late fire exceeds the work that one plan may do. The calendar pages
    (`calendar_timeline`) that were computed stay cached, so that the next plan gets further."""


class CatchUpRule:
    """Decides about the fires of one job, as seen at `now`. Lateness counts from the time at which a run should start:
    its fire time plus its jitter. A one-shot runs however late it is, unless it has a start deadline."""

    def __init__(
        self, job: Job, now: Micros, taken: frozenset[Micros] = frozenset(), closures: Closures = OPEN
    ) -> None:
        spec = job.spec
        self._job = job
        self._taken = taken
        self._closures = closures
        self._newest: Micros | None = None
        self.late = NEVER if spec.one_shot else now - TOLERANCE
        """A run that should have started before this instant is late."""
        self.dropped = self.late
        """A fire whose run should have started before this instant is missed. Unless `catchUp` is `none`, the newest
        late fire is an exception."""
        if spec.catch_up == "all":
            self.dropped = min(self.late, now - duration.parse(spec.catch_up_window))
        self.expired = NEVER if spec.start_deadline is None else now - duration.parse(spec.start_deadline)
        """A run that should have started before this instant must not start any more: its deadline has passed."""
        self.surely_dropped = self.dropped - (0 if spec.jitter is None else duration.parse(spec.jitter))
        """A fire before this instant is missed, whatever its jitter is, if it is followed by another fire before this
        instant.
        """

    def verdict(self, instant: Micros, upcoming: Micros | None) -> Verdict | None:
        """Return the verdict of a fire that does not become a run; None if it becomes one. `upcoming` is the fire
        after it."""
        due_at = instant + jitter_of(self._job, instant)
        if due_at < self.dropped and not (self._job.spec.catch_up != "none" and self._is_newest(instant, upcoming)):
            return Verdict.MISSED
        return Verdict.SKIPPED if due_at < self.expired else None

    def origin(self, instant: Micros) -> Origin:
        return Origin.CATCH_UP if self._is_late(instant) else Origin.SCHEDULE

    def _is_late(self, instant: Micros) -> bool:
        return instant + jitter_of(self._job, instant) < self.late

    def _is_newest(self, instant: Micros, upcoming: Micros | None) -> bool:
        """True if no fire after this late one is late as well."""
        if upcoming is None or upcoming >= self.late:
            return True
        if self._job.spec.jitter is None and self._closures.at(upcoming) is None:
            return False
        if self._newest is None:
            self._newest = self._find_newest(instant)
        return instant >= self._newest

    def _find_newest(self, since: Micros) -> Micros:
        """Return the newest late fire after `since`; `since` if there is none. With jitter or calendars this need not
        be the last fire before now. The search therefore extends backwards in growing steps, and bounds the number of
        fires per step."""
        width, nothing, too_much, limit = SECOND, 0, 0, MAX_SCANNED
        most_work = self._closures.work + MAX_SEARCH_WORK
        while True:
            if self._closures.work > most_work:
                raise SearchPaused
            back = max(self.late - width, since)
            ahead = open_fires(self._job, back, self._closures)
            recent = takewhile(lambda at: at < self.late, without(self._taken, ahead))
            found = list(islice(recent, limit))
            late = [at for at in found if self._is_late(at)]
            if len(found) == limit:
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
                width, too_much, limit = too_much, 0, limit * 4
