"""Limits that runs share under a key, of one job or of many: how many at once, and how many in a time.

How many at once is counted: a running run is its own permit, so that none can leak. How many in a time is a token
bucket, kept as one instant (`spent_until`, the moment at which the bucket would be full again), so that filling it up
needs no writes and the moment of the next token can be told exactly.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from timeball.domain import duration
from timeball.domain.duration import Duration
from timeball.domain.instant import MILLISECOND, Micros
from timeball.domain.task import check_duration

Key = Annotated[str, Meta(min_length=1, max_length=200)]


class Concurrency(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """At most `limit` runs with this key execute at once, whichever jobs of the tenant they belong to."""

    key: Key
    limit: Annotated[int, Meta(ge=1, le=1_000_000)]


class RateLimit(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Starts of runs with this key: `limit` in every `per` on average, `burst` (by default `limit`) at once."""

    key: Key
    limit: Annotated[int, Meta(ge=1, le=1_000_000)]
    per: Duration = "1s"
    burst: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None

    def __post_init__(self) -> None:
        check_duration("per", self.per, shortest=MILLISECOND)

    @property
    def interval(self) -> Micros:
        """From one token to the next; rounded up, so that the limit is never exceeded."""
        return -(-duration.parse(self.per) // self.limit)

    @property
    def capacity(self) -> Micros:
        """How far ahead `spent_until` may be while there is a token: all but one of them are spent."""
        return self.interval * ((self.limit if self.burst is None else self.burst) - 1)


def token_at(rate: RateLimit, spent_until: Micros) -> Micros:
    """From when on there is a token."""
    return spent_until - rate.capacity


def take_token(rate: RateLimit, spent_until: Micros, at: Micros) -> Micros | None:
    """The bucket without one token, taken at an instant; None: there is none."""
    if token_at(rate, spent_until) > at:
        return None
    return max(spent_until, at) + rate.interval


def tokens(rate: RateLimit, spent_until: Micros, at: Micros) -> int:
    """How many tokens there are at an instant."""
    if token_at(rate, spent_until) > at:
        return 0
    return (rate.capacity - max(0, spent_until - at)) // rate.interval + 1
