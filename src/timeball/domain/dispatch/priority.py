"""Priority: a level from 0 to 9, with aging that follows from the order of the runs.

The rank of a run is the instant at which it became claimable minus a credit for its level; the lowest rank is claimed
first. No rank has to be updated while a run waits, and no run starves: a run of level `p` is overtaken only by runs of
a higher level `q` that became claimable less than `(q - p)` credits after it.
"""

from __future__ import annotations

from typing import Final

from timeball.domain.errors import Invalid
from timeball.domain.instant import MINUTE, Micros

NAMES: Final = {"low": 2, "medium": 5, "high": 8}
LEVELS: Final = range(10)
CREDIT: Final = MINUTE
"""The waiting time that one level is worth, in microseconds, unless the settings of the server define another value."""


def level(value: str | int) -> int:
    """Return the level of a name or a number. Raise `Invalid` if it is not a priority."""
    if isinstance(value, str) and (found := NAMES.get(value) or NAMES.get(value.lower())) is not None:
        return found
    if isinstance(value, int) and not isinstance(value, bool) and value in LEVELS:
        return value
    raise Invalid(f"{value!r} is not a priority; write high, medium, low or a whole number from 0 to 9")


def rank(eligible_at: Micros, priority: int, credit: Micros = CREDIT) -> Micros:
    return eligible_at - priority * credit


def bound(priority: int, credit: Micros = CREDIT) -> Micros:
    """Return the maximum time in which younger runs can overtake a run of this level. A run that becomes claimable
    later than that never has a better rank."""
    return (LEVELS[-1] - priority) * credit
