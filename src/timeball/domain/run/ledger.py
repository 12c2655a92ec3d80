"""The verdict on every due instant. A fire's row is its run (open while that is live, closed with it);
consecutive instants that never became a run share one row."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, assert_never

from timeball.domain.instant import SECOND, Micros
from timeball.domain.run.status import STATUSES, End, Status

TOLERANCE: Final = 2 * SECOND
"""A start up to this late is on time; an instant planned later than this was missed and is caught up."""
FORGONE: Final = "the job was paused, and its schedule was changed before it was resumed"
"""Why instants were missed that fell due meanwhile."""


class Origin(StrEnum):
    """Why a run exists. Only the first two are due instants of the schedule."""

    SCHEDULE = "schedule"
    CATCH_UP = "catch_up"
    """Its instant had passed when it was planned: after an outage, a pause or a stall."""
    MANUAL = "manual"
    RETRY = "retry"
    """A person retried a dead or failed run; linked to it."""
    REPLAY = "replay"
    """A person ran a finished run once more; linked to it."""
    BACKFILL = "backfill"
    """A person had the fires of a past range run; linked to that backfill, by which it is accounted for."""
    TASK = "task"
    """A task of a workflow run."""


DUE: Final = frozenset({Origin.SCHEDULE, Origin.CATCH_UP})


class Verdict(StrEnum):
    OPEN = "open"
    """Not decided: it has not started, or has not ended."""
    ON_TIME = "on_time"
    LATE = "late"
    CAUGHT_UP = "caught_up"
    SKIPPED = "skipped"
    MISSED = "missed"
    CANCELLED = "cancelled"


def verdict(status: Status, origin: Origin, due_at: Micros, started_at: Micros | None) -> Verdict:
    """The verdict on a fire that became a run, once the run is terminal. `due_at` is the fire time and its jitter."""
    end = STATUSES[status].end
    match end:
        case End.SUCCESS | End.FAILURE:
            if origin in (Origin.CATCH_UP, Origin.BACKFILL):
                return Verdict.CAUGHT_UP
            started = due_at if started_at is None else started_at
            return Verdict.ON_TIME if started - due_at <= TOLERANCE else Verdict.LATE
        case End.CANCEL:
            return Verdict.CANCELLED
        case End.SKIP:
            return Verdict.SKIPPED
        case None:
            return Verdict.OPEN
        case _:
            assert_never(end)
