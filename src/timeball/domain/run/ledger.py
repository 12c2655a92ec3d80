"""The ledger: the verdict on every fire. The ledger row of a fire is its run; it is open while the run is live, and
closed when the run ends. Consecutive fires that never became runs share one row."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, assert_never

from timeball.domain.instant import SECOND, Micros
from timeball.domain.run.status import STATUSES, End, Status

TOLERANCE: Final = 2 * SECOND
"""Maximum delay, in microseconds, of a start that is on time. A fire that is planned later than this is overdue: the
catch-up rule decides about it."""
UNPLANNABLE: Final = "the job could not be planned, and was changed before it could"
"""The reason of due fires that could not be planned, and that a change of their job skipped for good. The ledger row
has the text of the error after it."""
FORGONE: Final = "the job was paused, and its schedule was changed before it was resumed"
"""The reason of fires that were missed because the schedule was changed during a pause."""


class Origin(StrEnum):
    """The reason why a run exists. Only runs with `SCHEDULE` or `CATCH_UP` are fires of the job's schedule."""

    SCHEDULE = "schedule"
    CATCH_UP = "catch_up"
    """The fire was overdue when it was planned: after an outage, a pause or a delay of the planner."""
    MANUAL = "manual"
    RETRY = "retry"
    """A user retried a run that had ended without success. The new run refers to that run."""
    REPLAY = "replay"
    """A user executed a finished run again. The new run refers to that run."""
    BACKFILL = "backfill"
    """A user requested the fires of a past range. The run refers to the backfill, which counts it."""
    TASK = "task"
    """The run executes a task of a workflow run."""


DUE: Final = frozenset({Origin.SCHEDULE, Origin.CATCH_UP})


class Verdict(StrEnum):
    OPEN = "open"
    """The fire has no verdict yet, because its run has not ended."""
    ON_TIME = "on_time"
    LATE = "late"
    CAUGHT_UP = "caught_up"
    SKIPPED = "skipped"
    MISSED = "missed"
    CANCELLED = "cancelled"


def verdict(status: Status, origin: Origin, due_at: Micros, started_at: Micros | None) -> Verdict:
    """Return the verdict on a fire that became a run; `OPEN` until the run is terminal. `due_at` is the fire time plus
    jitter."""
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
