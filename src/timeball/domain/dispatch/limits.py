"""Limits that runs of one or several jobs share under a key: a concurrency limit and a rate limit.

A concurrency limit has no stored permits: the store counts the runs that execute under the key. So a permit cannot
remain taken after its run has ended. The rate limit is a token bucket that is stored as one instant: `spent_until` is
when the bucket would be full again. Refilling the bucket therefore needs no writes, and the instant of the next token
can be computed exactly.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from timeball.domain import duration
from timeball.domain.duration import MAX_DURATION, Duration
from timeball.domain.instant import MILLISECOND, Micros
from timeball.domain.task.task import check_duration

Key = Annotated[str, Meta(min_length=1, max_length=200)]


class Concurrency(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """At most `limit` runs with this key execute at the same time, over all jobs of the tenant."""

    key: Key
    limit: Annotated[int, Meta(ge=1, le=1_000_000)]


class RateLimit(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Limits the starts of runs with this key: on average `limit` per duration `per`, and at most `burst` (default:
    `limit`) at the same time."""

    key: Key
    limit: Annotated[int, Meta(ge=1, le=1_000_000)]
    per: Duration = "1s"
    burst: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None

    def __post_init__(self) -> None:
        check_duration("per", self.per, shortest=MILLISECOND)
        if (self.burst or self.limit) * self.pace > MAX_DURATION:
            raise ValueError("per: a full bucket would take more than a hundred years; choose a shorter duration")

    def bucket(self, spent_until: Micros, latest: Micros) -> TokenBucket:
        """Return the bucket with its stored state. `latest` is the last instant for which a token may have been taken,
        because runs are claimed before their time. The stored `spent_until` may come from an earlier limit with a
        larger bucket. It is therefore reduced, if necessary, to that of a bucket which is empty at `latest`."""
        burst = self.limit if self.burst is None else self.burst
        return TokenBucket(burst, self.pace, min(spent_until, latest + burst * self.pace))

    @property
    def pace(self) -> Micros:
        """Microseconds from one token to the next, rounded up, so that the limit is never exceeded."""
        return -(-duration.parse(self.per) // self.limit)


class TokenBucket(Struct, frozen=True):
    """The token bucket of a rate limit."""

    burst: int
    pace: Micros
    """Microseconds from one token to the next."""
    spent_until: Micros = 0
    """The instant at which the bucket is full again."""

    @property
    def token_at(self) -> Micros:
        """The instant from which on there is at least one token."""
        return self.spent_until - (self.burst - 1) * self.pace

    def take(self, at: Micros) -> TokenBucket:
        """Return the bucket without one token, taken at the instant `at`. There must be a token at that instant."""
        return TokenBucket(self.burst, self.pace, max(self.spent_until, at) + self.pace)

    def tokens(self, at: Micros) -> int:
        """Return the number of tokens at an instant."""
        return 0 if self.token_at > at else self.burst - (-(-max(0, self.spent_until - at) // self.pace))
