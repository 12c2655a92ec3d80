"""Who goes first: a level from 0 to 9, and aging that comes from how runs are ordered.

A run's rank is the time it became claimable minus a credit for its level; the lowest rank goes first.
So nothing has to be re-aged, and nobody starves: a run of level `p` is overtaken only by runs of a higher
level `q` that became claimable less than `(q - p)` credits after it.
"""

from __future__ import annotations

from typing import Final

from timeball.domain.errors import Invalid
from timeball.domain.instant import MINUTE, Micros

NAMES: Final = {"low": 2, "medium": 5, "high": 8}
LEVELS: Final = range(10)
CREDIT: Final = MINUTE
"""What one level is worth in waiting time, unless a server is told otherwise."""


def level(value: str | int) -> int:
    """The level of a name or a number, or `Invalid`."""
    if isinstance(value, str) and (found := NAMES.get(value.lower())) is not None:
        return found
    if isinstance(value, int) and not isinstance(value, bool) and value in LEVELS:
        return value
    raise Invalid(f"{value!r} is not a priority; write high, medium, low or a whole number from 0 to 9")


def rank(eligible_at: Micros, priority: int, credit: Micros = CREDIT) -> Micros:
    return eligible_at - priority * credit


def bound(priority: int, credit: Micros = CREDIT) -> Micros:
    """How long a run waits at most for others that came after it: then nothing younger outranks it any more."""
    return (LEVELS[-1] - priority) * credit
