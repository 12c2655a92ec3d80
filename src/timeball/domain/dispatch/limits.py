"""Limits that runs share under a key, of one job or of many: how many at once, and how many in a time.

How many at once is counted: a running run is its own permit, so that none can leak. How many in a time is a token
bucket, kept as one instant (`spent_until`, the moment at which the bucket would be full again), so that filling it up
needs no writes and the moment of the next token can be told exactly.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from timeball.domain import duration
from timeball.domain.duration import LONGEST, Duration
from timeball.domain.instant import MILLISECOND, Micros
from timeball.domain.task.task import check_duration

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
        if (self.burst or self.limit) * self.pace > LONGEST:
            raise ValueError("per: so many tokens would take more than a hundred years; choose a shorter time")

    def bucket(self, spent_until: Micros, latest: Micros) -> TokenBucket:
        """How it stands. Whatever the limit was before, never more than all tokens are spent, at the latest instant for
        which one may have been taken: runs are claimed ahead of their time."""
        burst = self.limit if self.burst is None else self.burst
        return TokenBucket(burst, self.pace, min(spent_until, latest + burst * self.pace))

    @property
    def pace(self) -> Micros:
        """From one token to the next; rounded up, so that the limit is never exceeded."""
        return -(-duration.parse(self.per) // self.limit)


class TokenBucket(Struct, frozen=True):
    """A rate limit and how much of it is spent."""

    burst: int
    pace: Micros
    """From one token to the next."""
    spent_until: Micros = 0

    @property
    def token_at(self) -> Micros:
        """From when on there is a token: all but one of them are spent."""
        return self.spent_until - (self.burst - 1) * self.pace

    def take(self, at: Micros) -> TokenBucket:
        """The bucket without one token, taken at an instant at which there is one."""
        return TokenBucket(self.burst, self.pace, max(self.spent_until, at) + self.pace)

    def tokens(self, at: Micros) -> int:
        """How many there are at an instant."""
        return 0 if self.token_at > at else self.burst - (-(-max(0, self.spent_until - at) // self.pace))
