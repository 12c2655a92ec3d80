"""Retention of finished runs. The history is divided into days in UTC, which are created and deleted as a whole. A run
belongs to the day on which it was created."""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import DAY, Micros

DEFAULT: Final = 30 * DAY
SHORTEST: Final = DAY
"""Minimum retention. It is much longer than the planning horizon, so the fire of a run is past before the run may be
deleted. The sums of deleted runs that the store keeps by day (`daily_sums`) therefore contain no future fires."""
DAYS_AHEAD: Final = 3
"""Number of days after today whose partitions are created in advance."""
KEY_LIFE: Final = 2 * DAY
"""Microseconds for which an idempotency key is kept longer than the runs of its day. A client that repeats a request
one day after the runs of its job were deleted still gets the original answer."""


def day_of(moment: Micros) -> Micros:
    """Return the first instant of the day, in UTC, that contains an instant."""
    return moment - moment % DAY


def is_over(day: Micros, before: Micros) -> bool:
    """True if the whole day is before an instant."""
    return day + DAY <= before


def days_ahead(now: Micros) -> list[Micros]:
    """Return today and the coming days whose partitions should exist."""
    return [day_of(now) + ahead * DAY for ahead in range(DAYS_AHEAD + 1)]
