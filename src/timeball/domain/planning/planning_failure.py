"""Jobs that cannot be planned now: each is put off by itself, longer after every failure, so that no number of them
delays the jobs behind them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from timeball.domain.instant import MINUTE, SECOND, Micros, render

FIRST_RETRY_DELAY: Final = 15 * SECOND
"""Microseconds until a job is planned again after its first failure. Short: a newer server of the fleet may succeed."""
MAX_RETRY_DELAY: Final = 10 * MINUTE
"""Microseconds between two tries at most. A server that starts tries all of them at once."""
MAX_REASON_LENGTH: Final = 500
"""Characters."""


class PlanningFailure(Struct, frozen=True, kw_only=True):
    """Why a job is not planned now. Its schedule stays where it is: the plan that succeeds begins with the instant that
    was due first, under the job's catch-up rule."""

    job_id: str
    tenant: str
    reason: str
    failures: int
    """In a row."""
    since: Micros
    """The first of them."""
    retry_at: Micros


def warning(failure: PlanningFailure) -> str:
    """For the owner of the job."""
    return (
        f"it cannot be planned since {render(failure.since)} ({failure.reason}); no fire is lost, the next try is at"
        f" {render(failure.retry_at)}"
    )


def retry_delay(failures: int) -> Micros:
    """How long to wait after so many failures in a row."""
    return min(FIRST_RETRY_DELAY << min(failures - 1, 16), MAX_RETRY_DELAY)


def put_off_until(due: Micros, now: Micros) -> Micros:
    """When to look again at a run that cannot be handed out: after as long as it has waited, within the same bounds."""
    return now + min(max(now - due, FIRST_RETRY_DELAY), MAX_RETRY_DELAY)


def reason_of(error: BaseException) -> str:
    text = str(error)
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__)[:MAX_REASON_LENGTH]
