"""Rules for jobs that cannot be planned now. The planner postpones each of them separately, for longer after every
failure, so that they never delay other jobs, however many they are."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from timeball.domain.instant import MINUTE, SECOND, Micros, render

FIRST_RETRY_DELAY: Final = 15 * SECOND
"""Microseconds until a job is planned again after its first failure. The delay is short, because a newer server of the
fleet may succeed."""
MAX_RETRY_DELAY: Final = 10 * MINUTE
"""Maximum number of microseconds between two attempts to plan a job. A server that starts tries all failed jobs
immediately."""
MAX_REASON_LENGTH: Final = 500
"""Maximum number of characters of a stored reason."""


class PlanningFailure(Struct, frozen=True, kw_only=True):
    """The reason why a job cannot be planned now. The job keeps its next fire: the first plan that succeeds begins with
    the oldest unplanned fire and applies the job's catch-up rule."""

    job_id: str
    tenant: str
    reason: str
    failures: int
    """Number of failures in a row."""
    since: Micros
    """The instant of the first failure."""
    retry_at: Micros


def warning(failure: PlanningFailure) -> str:
    """Return the warning that the API shows to the owner of the job."""
    return (
        f"the job cannot be planned since {render(failure.since)} ({failure.reason}); no fire is lost, and the next"
        f" attempt is at {render(failure.retry_at)}"
    )


def retry_delay(failures: int) -> Micros:
    """Return how long to wait after this number of failures in a row."""
    return min(FIRST_RETRY_DELAY << min(failures - 1, 16), MAX_RETRY_DELAY)


def put_off_until(due: Micros, now: Micros) -> Micros:
    """Return when to try again to assign a run that cannot be assigned now. The delay is the time that the run has
    waited, but at least `FIRST_RETRY_DELAY` and at most `MAX_RETRY_DELAY`."""
    return now + min(max(now - due, FIRST_RETRY_DELAY), MAX_RETRY_DELAY)


def reason_of(error: BaseException) -> str:
    text = str(error)
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__)[:MAX_REASON_LENGTH]
