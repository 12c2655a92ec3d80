"""Id ranges that limit a read of the history to some days.

PostgreSQL has one partition of the history per day, and planning a statement over all of them takes longer than its
execution. A read therefore states between which ids its runs are, and the planner leaves the other days out.

A run is created a few seconds before it fires, or later, and never before its job. Its id contains the time of
creation. The range has one more day on both sides, because the clocks of servers differ by less than that.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from timeball.domain import ids
from timeball.domain.instant import DAY, MILLISECOND, Micros
from timeball.domain.retention import day_of

LATELY: Final = DAY
"""The length of the first range that a list is searched in, from the position at which the page begins: most pages are
filled from this range."""


class DayRange(NamedTuple):
    """A range of run ids: from `made_from` (inclusive) to `made_until` (exclusive). Statements have two parameters of
    these names."""

    made_from: str = ""
    made_until: str = "s"


def day_range(now: Micros, *, fires_from: Micros = 0, job_id: str | None = None) -> DayRange:
    """Return a range of run ids that contains all runs that exist now, fire at `fires_from` or later, and belong to
    this job (None: to any job). Other runs may be in it as well."""
    made_from = _made_from(fires_from)
    if job_id is not None and ids.is_id("j", job_id):
        made_from = max(made_from, _made_from(ids.made_at(job_id)))
    return DayRange(made_from, ids.first_run(now + DAY))


def is_whole_life(job_id: str, since: Micros) -> bool:
    """True if the range from `since` on contains all scheduled fires of the job, because `since` is not after the
    creation of the job."""
    return ids.is_id("j", job_id) and since <= ids.made_at(job_id) + MILLISECOND


def _made_from(moment: Micros) -> str:
    return ids.first_run(day_of(max(0, moment - DAY)))
