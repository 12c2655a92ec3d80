"""Which days of the history a read has to look at. To plan a statement over all of them takes PostgreSQL longer than
the rest of it; so a read says between which ids its runs are, and the other days stay out of its plan.

A run is made a few seconds before it fires, or later, and not before its job. Ids tell when that was. A day is added on
both sides: clocks differ, but not by that much.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from timeball.domain import ids
from timeball.domain.instant import DAY, MILLISECOND, Micros
from timeball.domain.retention import day_of

LATELY: Final = DAY
"""What most pages of a list are within, before the place where they begin."""


class DayRange(NamedTuple):
    """Between which ids runs are. As parameters of a statement: `days._asdict()`."""

    made_from: str = ""
    made_until: str = "s"


def day_range(now: Micros, *, fires_from: Micros = 0, job_id: str | None = None) -> DayRange:
    """Those of all runs that there are now, that fire from then on, and that are of this job."""
    made_from = _made_from(fires_from)
    if job_id is not None and ids.is_id("j", job_id):
        made_from = max(made_from, _made_from(ids.made_at(job_id)))
    return DayRange(made_from, ids.first_run(now + DAY))


def is_whole_life(job_id: str, since: Micros) -> bool:
    """Whether all instants of a job's schedule are since then: none is before the job was made."""
    return ids.is_id("j", job_id) and since <= ids.made_at(job_id) + MILLISECOND


def _made_from(moment: Micros) -> str:
    return ids.first_run(day_of(max(0, moment - DAY)))
