"""Limits of the rates of requests: a token bucket per tenant and one per key. They are in the memory of this server:
each server counts only the requests that it answers."""

from __future__ import annotations

from math import ceil
from typing import Final, Literal

from msgspec import Struct

from timeball.domain.dispatch.limits import TokenBucket
from timeball.domain.errors import RateLimited
from timeball.domain.identity.caller import Caller
from timeball.domain.instant import SECOND, Micros
from timeball.operation.known_limits import KnownLimits
from timeball.ports.clock import Clock

MAX_KEYS: Final = 10_000
"""Maximum number of keys whose requests are counted. Each further key displaces the one that was counted first, whose
bucket is full again then; the bucket of its tenant is not."""
Counted = Literal["key", "tenant"]


class RateState(Struct, frozen=True):
    """A rate limit after a request."""

    counted: Counted
    bucket: TokenBucket
    at: Micros

    @property
    def left(self) -> int:
        """The number of requests that may come now."""
        return self.bucket.tokens(self.at)

    @property
    def is_full_in(self) -> Micros:
        return max(0, self.bucket.spent_until - self.at)


class RequestRates:
    def __init__(self, limits: KnownLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._spent: dict[Counted, dict[str, Micros]] = {"key": {}, "tenant": {}}
        """The instant at which each bucket is full again, on the monotonic clock."""

    def take(self, caller: Caller) -> tuple[list[RateState], RateLimited | None]:
        """Count a request. Return the states of the limits that apply to it, and the error if one of them is exceeded;
        then the request is not counted."""
        limits = self._limits.of(caller.tenant)
        now = self._clock.monotonic()
        found: list[tuple[Counted, str, TokenBucket]] = []
        if (bucket := _full(limits.requests_per_second_per_key, limits.request_burst_per_key)) is not None:
            found.append(("key", caller.credential, self._filled("key", caller.credential, bucket, now)))
        if (bucket := _full(limits.requests_per_second, limits.request_burst)) is not None:
            found.append(("tenant", caller.tenant, self._filled("tenant", caller.tenant, bucket, now)))
        empty = [(bucket.token_at - now, counted) for counted, _, bucket in found if bucket.token_at > now]
        if empty:
            wait, counted = max(empty)
            return [RateState(counted, bucket, now) for counted, _, bucket in found], RateLimited(
                f"this {counted} has sent more requests than its limit allows; try again later", -(-wait // SECOND)
            )
        states = [RateState(counted, bucket.take(now), now) for counted, _, bucket in found]
        for (counted, name, _), state in zip(found, states, strict=True):
            self._remember(counted, name, state.bucket.spent_until)
        return states, None

    def _filled(self, counted: Counted, name: str, full: TokenBucket, now: Micros) -> TokenBucket:
        """Return a bucket as it is now. The stored instant may come from an earlier limit with a larger bucket."""
        spent_until, latest = self._spent[counted].get(name, 0), now + full.burst * full.pace
        if spent_until > latest:
            spent_until = self._spent[counted][name] = latest
        return TokenBucket(full.burst, full.pace, spent_until)

    def _remember(self, counted: Counted, name: str, spent_until: Micros) -> None:
        spent = self._spent[counted]
        if counted == "key" and name not in spent and len(spent) >= MAX_KEYS:
            del spent[next(iter(spent))]
        spent[name] = spent_until


def _full(per_second: float | None, burst: int | None) -> TokenBucket | None:
    """Return the full bucket of a limit; None if there is no limit."""
    return None if per_second is None else TokenBucket(burst or ceil(per_second), ceil(SECOND / per_second))
