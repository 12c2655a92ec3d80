"""How long what ended is kept. History comes and goes by whole days, in UTC, of the moments at which runs were made."""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import DAY, Micros

DEFAULT: Final = 30 * DAY
SHORTEST: Final = DAY
DAYS_AHEAD: Final = 3
"""How many days after today have room before they come."""
KEY_LIFE: Final = 2 * DAY
"""How much longer than the runs of its day an idempotency key is known: whoever repeats a request a day after its job
went is still told what became of it."""


def day_of(moment: Micros) -> Micros:
    """The first instant of the day."""
    return moment - moment % DAY


def is_over(day: Micros, before: Micros) -> bool:
    """Whether all of a day lies before an instant."""
    return day + DAY <= before


def days_ahead(now: Micros) -> list[Micros]:
    """Today, and the days to come that should have room already."""
    return [day_of(now) + ahead * DAY for ahead in range(DAYS_AHEAD + 1)]
