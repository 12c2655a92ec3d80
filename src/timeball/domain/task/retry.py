"""The retry policy: when a failed attempt is repeated, and when the run fails for good."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from timeball.domain import duration
from timeball.domain.duration import Duration
from timeball.domain.instant import DAY, Micros
from timeball.domain.task.task import REMEMBERED, check_duration

Delivery = Literal["at_least_once", "at_most_once"]
"""With `at_most_once`, an attempt that may have begun its work is never repeated."""

MAX_RETRIES: Final = 100
JITTER: Final = 0.1
"""An exponential or linear backoff varies randomly by ± this fraction, so that a thousand failed runs are not retried
at the same instant.
"""


MaxRetries = Annotated[int, Meta(ge=0, le=MAX_RETRIES)]
Backoff = (
    Literal["exponential", "linear", "fixed"] | Annotated[list[Duration], Meta(min_length=1, max_length=MAX_RETRIES)]
)


class NonRetryable(Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Failures that a retry cannot fix. A run with such a failure fails without another attempt."""

    exit_codes: Annotated[list[Annotated[int, Meta(ge=0, le=255)]], Meta(max_length=256)] = []
    statuses: Annotated[list[Annotated[int, Meta(ge=100, le=599)]], Meta(max_length=500)] = []
    exceptions: Annotated[list[Annotated[str, Meta(max_length=256)]], Meta(max_length=100)] = []


class Retry(Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """The retry policy of a job. `maxRetries` is the maximum number of attempts after the first one. If `backoff` is a
    list of delays, its last element repeats."""

    max_retries: MaxRetries = 3
    backoff: Backoff = "exponential"
    base: Duration = "5s"
    cap: Duration = "1h"
    non_retryable: NonRetryable = NonRetryable()

    def __post_init__(self) -> None:
        _check_durations(self.base, self.cap)
        if isinstance(self.backoff, list):
            for step in self.backoff:
                check_duration("backoff", step)


@lru_cache(maxsize=REMEMBERED)
def _check_durations(base: Duration, cap: Duration) -> None:
    check_duration("base", base)
    check_duration("cap", cap)


def limit(policy: Retry) -> Micros:
    """Return the maximum delay before a retry."""
    return min(duration.parse(policy.cap), 366 * DAY)


def delay(policy: Retry, attempt: int, spread: float, asked: Micros = 0) -> Micros:
    """Return the delay after attempt number `attempt` (from 1) failed. `spread` is a random number from 0 (inclusive)
    to 1 (exclusive).

    `asked` is the delay that the target requested. The retry does not start earlier than that, unless the cap is
    shorter. The delay is never negative and never above the cap. The power of two is computed in integers, so that it
    cannot overflow.
    """
    cap = limit(policy)
    return min(cap, max(asked, _backoff(policy, attempt, spread, cap)))


def _backoff(policy: Retry, attempt: int, spread: float, cap: Micros) -> Micros:
    if isinstance(policy.backoff, list):
        return min(cap, duration.parse(policy.backoff[min(attempt, len(policy.backoff)) - 1]))
    base = duration.parse(policy.base)
    match policy.backoff:
        case "exponential":
            wait = base << min(attempt, 64)
        case "linear":
            wait = base * attempt
        case "fixed":
            return min(cap, base)
    wait = min(wait, cap)
    return min(cap, wait + int(wait * JITTER * (2 * spread - 1)))


def gives_up(policy: Retry, *, exit_code: int | None, status: int | None, exceptions: tuple[str, ...]) -> bool:
    """True if the policy excludes a retry of this failure."""
    never = policy.non_retryable
    return (
        (exit_code is not None and exit_code in never.exit_codes)
        or (status is not None and status in never.statuses)
        or any(name in never.exceptions for name in exceptions)
    )
